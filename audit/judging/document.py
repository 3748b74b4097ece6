"""Define the verdict.json of one audit as a typed model.

The gate, the pages, the registry, the export and the terminal read verdict.json through this model.
The module `together` defines the verdict.json of several audits.

Keys that are not fields of the model hold numbers of one audit. If another module reads such a
number, the audit declares a field for it in a subclass of `Cell`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, PrivateAttr

from audit.core.records import CellRows
from audit.judging.ladder import Grade
from audit.judging.result import Calibration, Gate


class Section(BaseModel):
    """Hold a part of verdict.json. Values are not converted, and numbers are neither NaN nor
    infinite."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="allow", allow_inf_nan=False, populate_by_name=True
    )
    __pydantic_extra__: dict[str, JsonValue] = Field(init=False)

    @property
    def figures(self) -> dict[str, JsonValue]:
        """Map each key that is not a field of the section to its value.

        Returns
        -------
        dict
            JSON value of each such key, by key; empty if the section has only its fields.
        """
        return self.__pydantic_extra__


class Coded(Section):
    """Hold a reason or a piece of advice as the code of a sentence and the numbers in that
    sentence.

    Shares and differences are on the scale 0-1, not in per cent.
    """

    code: str
    numbers: dict[str, JsonValue]


class Interval(Section):
    """Hold an estimate with its 95 % interval; a number that was not computed is None."""

    estimate: float | None
    low: float | None
    high: float | None


class Difference(Section):
    """Hold a difference with its 95 % interval; a number that was not computed is None."""

    difference: float | None
    low: float | None
    high: float | None


class Without(Section):
    """Hold the score without memory as a number, 0-1."""

    without: Interval


class WithoutMemory(Section):
    """Hold the score without memory as a sentence, and as an estimate if it was computed."""

    sentence: str
    estimate: Without | None


class Cell(Section):
    """Hold the result of one model on one benchmark, or on one context of a benchmark.

    Fields with a default value exist only in some audits.

    Attributes
    ----------
    watermark : str
        A note such as "incomplete, 512 of 1,000 answers"; empty if no row is missing.
    sensitivity : str or None
        The sensitivity of the audit, as a sentence.
    n_questions, n_fresh : int
        Numbers of published items and of held-out items that were asked.
    """

    model: str
    benchmark: str
    verdict: str
    grade: Grade
    headline: str
    watermark: str
    reasons: tuple[str, ...]
    what_to_do: tuple[str, ...]
    cannot_exclude: tuple[str, ...]
    gates: tuple[Gate, ...]
    calibration: Calibration | None
    reason_codes: tuple[Coded, ...]
    advice_codes: tuple[Coded, ...]
    sensitivity: str | None = None
    context: str | None = None
    controls_missing: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    n_questions: int = 0
    n_fresh: int = 0
    without_memory: WithoutMemory | None = None

    @property
    def archetype(self) -> str | None:
        """Return the kind of item on which the display words of the verdict depend.

        The value is None if the display words are the same for all kinds of items.

        Returns
        -------
        str or None
            Name of the kind of item; None unless the audit's subclass of `Cell` names a kind.
        """
        return None

    @property
    def judged(self) -> bool:
        """Return whether at least one test of the cell was possible.

        Returns
        -------
        bool
            True, unless the audit's subclass of `Cell` tests this condition.
        """
        return True

    @property
    def rates(self) -> Mapping[str, float | None]:
        """Return the error rates of the nearest calibrated design; empty if no design is near the
        run.

        Returns
        -------
        mapping
            Error rates (0-1) by name, with their standard errors and the number of simulated
            models. A rate that is not known is None.
        """
        return self.calibration.rates if self.calibration else {}

    @property
    def sound(self) -> bool:
        """Return whether the measurement is sound: every check that can withhold the verdict
        passed.

        Returns
        -------
        bool
            False if a check failed whose failure withholds the verdict; otherwise True.
        """
        return not any(gate.status == "fail" and gate.withholds for gate in self.gates)


class Answered(Section):
    """Hold the number of rows that a run has for one model on one revision of a benchmark."""

    model: str
    benchmark: str
    revision: str
    outcomes: int


class Run(Section):
    """Hold a run on which a verdict is based."""

    models: tuple[Answered, ...]

    @property
    def contents(self) -> list[dict[str, Any]]:
        """Return the run's rows for each model and benchmark, in the format of
        `shards.complete.contents`.

        Returns
        -------
        list of dict
            One dict for each model, benchmark and revision. Its keys are `model`, `benchmark`,
            `revision` and `outcomes` (the number of rows).
        """
        return [answered.model_dump() for answered in self.models]


class Library(Section):
    """Hold the library of variants on which a verdict is based."""

    name: str
    sha256: str


OfAudit = TypeVar("OfAudit", bound=Cell)


class AuditVerdict(Section, Generic[OfAudit]):
    """Hold the verdict.json of one audit: fields of the run, and a cell for each judged model and
    benchmark.

    Attributes
    ----------
    thresholds : dict
        Value of each threshold in `conf/verdict`, by name.
    rows : tuple of CellRows
        Number of rows of every planned pair of model and benchmark, including pairs without any
        row.
    """

    kind: str = Field(alias="schema")
    schema_version: str
    audit: str
    seed: int
    n_resamples: int
    thresholds: dict[str, int | float | str]
    runs: tuple[Run, ...]
    rows: tuple[CellRows, ...]
    cells: tuple[OfAudit, ...]
    library: Library | None = None
    _source: dict[str, Any] = PrivateAttr(default_factory=dict)

    @property
    def plain(self) -> dict[str, Any]:
        """Return the JSON value from which this model was read.

        Returns
        -------
        dict
            Content of verdict.json, or the part of this audit if the file holds several audits.
            Empty if the model was built without a file.
        """
        return self._source

    @property
    def block_at(self) -> str:
        """Return the weakest kind of finding that blocks, "strong" or "suggestive".

        Returns
        -------
        str
            Value of the threshold `block_at`; "strong" if the audit has no such threshold.
        """
        return str(self.thresholds.get("block_at", "strong"))
