"""What the verdicts of a run have in common, whatever the audit: the head of verdict.json and of each cell in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from audit.records import CellRows
from audit.verdict.result import Gate, json_ready

Cell = TypeVar("Cell")
Result = TypeVar("Result", bound="CellResult")


@dataclass(frozen=True, kw_only=True)
class CellResult:
    """What is said of one cell. decision: the audit's own, with reasons and what_to_do. calibration: the nearest
    calibrated design; None where there is none."""

    model: str
    benchmark: str
    decision: Any
    headline: str
    cannot_exclude: tuple[str, ...]
    gates: tuple[Gate, ...]
    calibration: Any


@dataclass(frozen=True, kw_only=True)
class JudgedRun(Generic[Cell, Result]):
    """All judged cells of a run, or of several merged into one panel: verdict.json, no clock and no paths.

    runs: the models of each run. rows: of every model and benchmark that the runs asked for, those without a row too.
    cells, results: side by side.
    """

    audit: ClassVar[str]
    schema_version: ClassVar[str]

    seed: int
    n_resamples: int
    thresholds: dict[str, float]
    runs: tuple[dict[str, Any], ...]
    rows: tuple[CellRows, ...]
    cells: tuple[Cell, ...]
    results: tuple[Result, ...]

    @property
    def marks(self) -> dict[tuple[str, str], str]:
        """Watermarks by model and benchmark."""
        return {(r.model, r.benchmark): r.watermark for r in self.rows}

    def own(self) -> dict[str, Any]:
        """What the audit's verdict.json holds beside the head, its cells among it."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: enums as strings, tuples as lists, floats rounded, NaN and infinities as null."""
        head = {"schema": f"{self.audit} verdict", "schema_version": self.schema_version, "audit": self.audit}
        asked = {name: getattr(self, name) for name in ("seed", "n_resamples", "thresholds", "runs", "rows")}
        plain = json_ready({**head, **asked, **self.own()})
        assert isinstance(plain, dict)  # noqa: S101 - narrows the type for mypy
        return plain

    def title(self, question: str, joined: str = "on") -> str:
        """The title of the page: the question, of which models, on which benchmarks."""
        models = sorted({r.model for r in self.results})
        benchmarks = sorted({r.benchmark for r in self.results})
        who = models[0] if len(models) == 1 else f"{len(models)} models"
        mark = "" if all(r.complete for r in self.rows) else "Incomplete: "
        return f"{mark}{question} {who} {joined} {', '.join(benchmarks) or 'nothing'}"


def marked(headline: str, watermark: str) -> str:
    """The headline, after the watermark where there is one."""
    return f"{watermark[0].upper()}{watermark[1:]}: {headline}" if watermark else headline


def cell_head(result: CellResult, verdict: str, watermark: str) -> dict[str, Any]:
    """What verdict.json says of a cell of any of these audits."""
    return {
        "model": result.model,
        "benchmark": result.benchmark,
        "verdict": verdict,
        "headline": marked(result.headline, watermark),
        "watermark": watermark,
        "reasons": result.decision.reasons,
        "what_to_do": result.decision.what_to_do,
        "cannot_exclude": result.cannot_exclude,
        "gates": result.gates,
        "calibration": result.calibration,
    }
