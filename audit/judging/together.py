"""Define the verdict.json of several audits as a typed model, and parse any verdict.json.

The module does no I/O.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal, TypeVar

from pydantic import Field, JsonValue, PrivateAttr, TypeAdapter, ValidationError

from audit.core.errors import ConfigError
from audit.judging.document import AuditVerdict, Cell, Section
from audit.judging.forms import Scope
from audit.judging.instrument import Finding
from audit.judging.ladder import Decision


class Entry(Section):
    """Hold the statement of each instrument (audit) on one model and benchmark, and the combination
    of these statements.

    Attributes
    ----------
    forms : Scope or None
        Forms of contamination that a pass excludes; None if no audit makes a statement about
        memory.
    """

    model: str
    benchmark: str
    instruments: tuple[Finding, ...]
    together: tuple[str, ...]
    forms: Scope | None


class SourceRuling(Section):
    """Hold the decision on one cell by the thresholds of the publication that a suite follows.

    The report shows this decision next to our verdict.
    """

    audit: str
    model: str
    benchmark: str
    decision: Decision


class CheckedModel(Section):
    """Hold the stated and the found version of the model that a suite audits.

    Attributes
    ----------
    stated : str or None
        Version of the model that the operator of the endpoint states.
    found : str or None
        Version of the model that the runs found.
    claimed : bool
        True if the version is known only from the operator's statement.
    """

    name: str
    stated: str | None
    found: str | None
    claimed: bool


class SuiteRules(Section):
    """Hold the rules of a suite by which its verdicts were judged.

    Attributes
    ----------
    gate : {"ours", "source"}
        Thresholds that determine the decision: "ours", or those of the publication that the suite
        follows ("source").
    forms_required : dict
        For each form of contamination, the dose (share of learnt items) that a pass must exclude.
    source : tuple of SourceRuling
        Decisions by the thresholds of the suite's source.
    """

    audit_suite_id: str
    suite_sha256: str
    gate: Literal["ours", "source"]
    forms_required: dict[str, float]
    domain: str | None
    model: CheckedModel
    source: tuple[SourceRuling, ...]
    sentences: tuple[str, ...]


class JointVerdict(Section):
    """Hold the verdict.json of several audits; `audits` maps the name of each audit to its verdict."""

    kind: str = Field(alias="schema")
    schema_version: str
    joint: tuple[Entry, ...]
    audits: dict[str, AuditVerdict[Cell]]
    suite: SuiteRules | None = None
    _source: dict[str, Any] = PrivateAttr(default_factory=dict)

    @property
    def plain(self) -> dict[str, Any]:
        """Return the JSON value from which this model was read.

        Returns
        -------
        dict
            Content of verdict.json; empty if the model was built without a file.
        """
        return self._source


Document = AuditVerdict[Any] | JointVerdict
Kind = TypeVar("Kind", bound=Section)


def parts_of(document: Document) -> list[tuple[str, AuditVerdict[Any]]]:
    """Return the verdict of every audit in a verdict.json, as pairs (audit, verdict).

    Parameters
    ----------
    document : Document
        A verdict.json of one audit or of several audits.

    Returns
    -------
    list of (str, AuditVerdict)
        Name and verdict of each audit, in the order of the file.
    """
    return (
        list(document.audits.items())
        if isinstance(document, JointVerdict)
        else [(document.audit, document)]
    )


def suite_of(document: Document) -> SuiteRules | None:
    """Return the rules of the suite to which a verdict.json belongs.

    Parameters
    ----------
    document : Document
        Any verdict.json.

    Returns
    -------
    SuiteRules or None
        The rules; None if the run belongs to no suite.
    """
    return document.suite if isinstance(document, JointVerdict) else None


def parse(plain: Any, cell_of: Callable[[str], type[Cell]], file: str) -> Document:
    """Parse the JSON value of a verdict.json.

    Parameters
    ----------
    plain : object
        The JSON value.
    cell_of : callable
        Function from the name of an audit to the type of its cells. It raises ConfigError for an
        unknown audit.
    file : str
        Name of the file in error messages.

    Returns
    -------
    Document
        The verdict of one audit, or of several audits.

    Raises
    ------
    ConfigError
        If a field is missing or has a wrong type. The message names the field.
    """
    if not isinstance(plain, dict):
        raise ConfigError(f"{file} is {_short(plain)}. Expected an object. {_EXAMPLE}")
    if not {"audits", "joint", "suite"} & plain.keys():
        return _audit(plain, cell_of, file, "")
    if not isinstance(plain.get("audits"), dict):
        raise ConfigError(
            f"{file}: audits is {_short(plain.get('audits'))}. Expected an object. {_EXAMPLE}"
        )
    joint = _checked(JointVerdict, {**plain, "audits": {}}, file, "")
    parts = {}
    for name, part in plain["audits"].items():
        named = part.get("audit") if isinstance(part, dict) else None
        if named != name:
            raise ConfigError(
                f"{file}: audits.{name}.audit is {_short(named)}. Expected {_short(name)}. "
                f"{_EXAMPLE}"
            )
        parts[name] = _audit(part, cell_of, file, f"audits.{name}.")
    whole = joint.model_copy(update={"audits": parts})
    whole._source = plain
    return whole


_EXAMPLE = "Example: audit report RUN writes the file anew."


def _audit(
    plain: Any, cell_of: Callable[[str], type[Cell]], file: str, at: str
) -> AuditVerdict[Any]:
    audit = plain.get("audit") if isinstance(plain, dict) else None
    kind = cell_of(audit) if isinstance(audit, str) else Cell
    verdict: AuditVerdict[Any] = _checked(AuditVerdict[kind], plain, file, at)  # type: ignore[valid-type]
    verdict._source = plain
    return verdict


def _checked(kind: type[Kind], plain: Any, file: str, at: str) -> Kind:
    try:
        return kind.model_validate_json(json.dumps(plain, allow_nan=False), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        field = at + _path(first["loc"])
        if first["type"] == "missing":
            raise ConfigError(f"{file}: {field} is missing. {_EXAMPLE}") from None
        expected = first["msg"].removeprefix("Input should be ")
        raise ConfigError(
            f"{file}: {field} is {_short(first['input'])}. Expected {expected}. {_EXAMPLE}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file} holds a value that is not JSON ({error}). {_EXAMPLE}") from None


def _path(loc: tuple[int | str, ...]) -> str:
    """Return the path of a field, such as "cells[0].grade"."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc).lstrip(".")


def _short(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."


def schema() -> dict[str, JsonValue]:
    """Return the JSON schema of verdict.json, for one audit or for several.

    Returns
    -------
    dict
        The schema. Numbers that only one audit has are not restricted. The docstrings of the models
        explain the fields.
    """
    made = TypeAdapter(AuditVerdict[Cell] | JointVerdict).json_schema(by_alias=True)
    about = "Scores, shares and differences are 0-1. A number that was not computed is null."
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "verdict.json",
        "description": about,
    }
    return {**head, **_undescribed(made)}


def _undescribed(value: Any) -> Any:
    """Return a schema without the descriptions that come from docstrings of classes."""
    if isinstance(value, list):
        return [_undescribed(element) for element in value]
    if not isinstance(value, dict):
        return value
    undescribed = {}
    for key, element in value.items():
        if key != "description" or not isinstance(element, str):
            undescribed[key] = _undescribed(element)
    return undescribed
