"""Define verdict.json of one audit as a typed model; `together` defines that of several.

Every reader (gate, pages, registry, export, terminal) reads this model. Keys beyond the fields are
the audit's own figures; an audit names those that others read in a subclass of `Cell`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, PrivateAttr

from audit.core.records import CellRows
from audit.judging.ladder import Grade
from audit.judging.result import Calibration, Gate


class Section(BaseModel):
    """A part of verdict.json: no value is converted, and no number is NaN or infinite."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="allow", allow_inf_nan=False, populate_by_name=True
    )
    __pydantic_extra__: dict[str, JsonValue] = Field(init=False)

    @property
    def figures(self) -> dict[str, JsonValue]:
        """Return the values of the section beyond its fields, by name."""
        return self.__pydantic_extra__


class Coded(Section):
    """A reason or an advice: the code of its sentence, and the numbers in it (0-1 for shares and
    differences).
    """

    code: str
    numbers: dict[str, JsonValue]


class Interval(Section):
    """An estimate with its 95 % interval; None if it was not computed."""

    estimate: float | None
    low: float | None
    high: float | None


class Difference(Section):
    """A difference with its 95 % interval; None if it was not computed."""

    difference: float | None
    low: float | None
    high: float | None


class Without(Section):
    """An estimate of the score without memory, 0-1."""

    without: Interval


class WithoutMemory(Section):
    """The score without memory: in a sentence, and the estimate if there is one."""

    sentence: str
    estimate: Without | None


class Cell(Section):
    """One model on one benchmark, or on a context of it. Fields with a default exist only in some
    audits.

    watermark: such as "incomplete, 512 of 1,000 answers"; empty if no row is missing. sensitivity:
    a sentence. n_questions, n_fresh: published and held-out items that were asked.
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
        """Return the kind of item that the word of a verdict depends on; None if it depends on
        none.
        """
        return None

    @property
    def judged(self) -> bool:
        """Return whether a test of the cell could be judged at all."""
        return True

    @property
    def rates(self) -> Mapping[str, float | None]:
        """Return the error rates of the nearest calibrated design; empty if none is near."""
        return self.calibration.rates if self.calibration else {}

    @property
    def sound(self) -> bool:
        """Return whether no check failed that withholds the verdict."""
        return not any(gate.status == "fail" and gate.withholds for gate in self.gates)


class Answered(Section):
    """A model, benchmark and revision of a run, with its number of rows."""

    model: str
    benchmark: str
    revision: str
    outcomes: int


class Run(Section):
    """A run that a verdict is made from."""

    models: tuple[Answered, ...]

    @property
    def held(self) -> list[dict[str, Any]]:
        """Return the answers as `shards.complete.contents` lists those of a run."""
        return [answered.model_dump() for answered in self.models]


class Library(Section):
    """The library of variants that a verdict rests on."""

    name: str
    sha256: str


OfAudit = TypeVar("OfAudit", bound=Cell)


class AuditVerdict(Section, Generic[OfAudit]):
    """verdict.json of one audit: its head and one cell for each judged model.

    thresholds: by name, as in `conf/verdict`. rows: for every model and benchmark that the runs
    asked for, those without a row too.
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
        """Return the JSON value that was read."""
        return self._source

    @property
    def block_at(self) -> str:
        """Return the weakest finding that blocks."""
        return str(self.thresholds.get("block_at", "strong"))
