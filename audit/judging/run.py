"""Define the fields that the verdicts of all audits share: fields of a run and of a cell."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Self, TypeVar

from audit.core.json_types import attributes
from audit.core.records import CellRows
from audit.judging.ladder import DECIDED, Grade, grade
from audit.judging.result import Calibration, Gate, Reason, Texts, advice_of, json_ready, sentences
from audit.judging.vocabulary import COMPLETE_IT, GateWord, Word, gate_reasons

Cell = TypeVar("Cell")
Result = TypeVar("Result", bound="CellResult")


@dataclass(frozen=True)
class Decided(Generic[Word]):
    """Hold a verdict with its grade, its reasons and its advice.

    Each audit defines its own verdicts, and may add fields in a subclass.
    """

    verdict: Word
    grade: Grade
    reasons: tuple[Reason, ...]
    what_to_do: tuple[Reason, ...] = ()

    @classmethod
    def withheld(cls, verdict: Word, failed: Sequence[Gate], words: Mapping[str, GateWord]) -> Self:
        """Return the decision to withhold the verdict because checks failed.

        Parameters
        ----------
        verdict : Word
            The audit's verdict for a measurement that failed checks.
        failed : sequence of Gate
            The failed gates.
        words : mapping
            Display words of each gate, by its name.

        Returns
        -------
        Decided
            The decision, with the reasons and the advice of the failed gates.
        """
        graded = grade((), [gate.name for gate in failed])
        return cls(verdict, graded.grade, gate_reasons(failed, words), advice_of(failed))


@dataclass(frozen=True, kw_only=True)
class CellResult:
    """Hold the result of one cell (one model on one benchmark).

    Attributes
    ----------
    texts : mapping
        The audit's sentences by code.
    decision : Decided
        The verdict with its reasons, in the audit's subclass of `Decided`.
    calibration : Calibration or None
        Calibrated design nearest to the run; None if no calibration exists.
    sensitivity : str or None
        Measured sensitivity of the audit, as a sentence.
    watermark : str
        A note such as "incomplete, 512 of 1,000 answers" if answers are missing; otherwise "".
    """

    texts: ClassVar[Texts] = {}

    model: str
    benchmark: str
    decision: Decided[Any]
    headline: str
    cannot_exclude: tuple[str, ...]
    gates: tuple[Gate, ...]
    calibration: Calibration | None = None
    sensitivity: str | None = None
    watermark: str = ""

    @property
    def verdict(self) -> Any:
        """Return the code of the verdict.

        Returns
        -------
        object
            The code, a member of the audit's enumeration of verdicts.
        """
        return self.decision.verdict

    @property
    def grade(self) -> Grade:
        """Return the grade of the cell (see `audit.judging.ladder`).

        Returns
        -------
        Grade
            Grade of the cell's verdict, which has the same meaning in all audits.
        """
        return self.decision.grade

    @property
    def reasons(self) -> tuple[str, ...]:
        """Return the reasons as sentences.

        Returns
        -------
        tuple of str
            One sentence for each reason of the verdict, in the order of the reasons.

        Raises
        ------
        KeyError
            If `texts` does not have the code of a reason, or if a number in the sentence is
            missing.
        """
        return sentences(self.decision.reasons, self.texts)

    @property
    def what_to_do(self) -> tuple[str, ...]:
        """Return the advice as sentences.

        Returns
        -------
        tuple of str
            One sentence for each piece of advice, in the order of the decision.

        Raises
        ------
        KeyError
            If `texts` does not have the code of a piece of advice, or if a number in the sentence
            is missing.
        """
        return sentences(self.decision.what_to_do, self.texts)


@dataclass(frozen=True, kw_only=True)
class JudgedRun(Generic[Cell, Result]):
    """Hold all judged cells of a run, or of several runs that are merged into one panel.

    The record contains neither times nor paths.

    Attributes
    ----------
    runs : tuple of dict
        Models of each run.
    rows : tuple of CellRows
        Number of rows of every planned pair of model and benchmark, including pairs without any
        row.
    cells, results : tuple
        The measured cells, and the result of each cell in the same order.
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
        """Map each pair (model, benchmark) to its note on missing rows.

        Returns
        -------
        dict
            Note on each planned pair, by model and benchmark; "" if the pair has no missing row.
        """
        return {(r.model, r.benchmark): r.watermark for r in self.rows}

    def mark(self, cell: Cell, result: Result) -> str:
        """Return the watermark of one cell: a note on missing rows.

        Parameters
        ----------
        cell : Cell
            The measured cell.
        result : Result
            Result of this cell, which names the model and the benchmark.

        Returns
        -------
        str
            The watermark; empty if no row is missing.
        """
        return self.marks.get((result.model, result.benchmark), "")

    @property
    def marked(self) -> tuple[Result, ...]:
        """Return the results, with a note (watermark) on each cell with missing rows.

        Returns
        -------
        tuple of Result
            One result for each cell, in the order of `cells`. In a result with a note, the headline
            begins with the note, and the first advice is to complete the run.
        """
        marked = []
        for cell, result in zip(self.cells, self.results, strict=True):
            marked.append(_marked(result, self.mark(cell, result)))
        return tuple(marked)

    @property
    def decided(self) -> bool:
        """Return whether every cell has a verdict that more questions would not change.

        Returns
        -------
        bool
            True if the grade of every cell is one of `ladder.DECIDED`, or if the run has no cells.
        """
        return all(result.grade in DECIDED for result in self.results)

    def extra_fields(self) -> dict[str, Any]:
        """Return the fields of the run that only this audit writes into verdict.json.

        Returns
        -------
        dict
            Value of each field by name; empty unless the audit's subclass adds fields.
        """
        return {}

    def extra_cell_fields(self, cell: Cell, result: Result) -> dict[str, Any]:
        """Return the fields of a cell that only this audit writes into verdict.json.

        Parameters
        ----------
        cell : Cell
            The measured cell.
        result : Result
            Result of this cell.

        Returns
        -------
        dict
            Fields that are added to those of `cell_head`.
        """
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return verdict.json as JSON types.

        Enums become strings, floats are rounded, and NaN and infinity become null.

        Returns
        -------
        dict
            The fields of the run, with a list that holds a dict for each cell.
        """
        head = {
            "schema": f"{self.audit} verdict",
            "schema_version": self.schema_version,
            "audit": self.audit,
        }
        shared = attributes(self, "seed", "n_resamples", "thresholds", "runs", "rows")
        both = zip(self.cells, self.marked, strict=True)
        cells = [
            {**cell_head(result), **self.extra_cell_fields(cell, result)} for cell, result in both
        ]
        plain = json_ready({**head, **shared, **self.extra_fields(), "cells": cells})
        assert isinstance(plain, dict)  # noqa: S101 - narrows the type for mypy
        return plain

    def sorted_by_grade(self) -> Self:
        """Return the run with its cells sorted by grade, which is their order on a page.

        Returns
        -------
        JudgedRun
            A copy in which the cells and their results are in the order of `Grade`. Cells of the
            same grade keep their order.
        """
        grades = [list(Grade).index(result.decision.grade) for result in self.results]
        order = sorted(range(len(grades)), key=grades.__getitem__)
        results = tuple(self.results[k] for k in order)
        return replace(self, cells=tuple(self.cells[k] for k in order), results=results)

    def title(self, question: str, joined: str = "on") -> str:
        """Return the title of the page.

        Parameters
        ----------
        question : str
            The audit's question.
        joined : str
            Word between the models and the benchmarks.

        Returns
        -------
        str
            The title; it begins with a mark if rows are missing.
        """
        models = sorted({r.model for r in self.results})
        benchmarks = sorted({r.benchmark for r in self.results})
        who = models[0] if len(models) == 1 else f"{len(models)} models"
        mark = "" if all(r.complete for r in self.rows) else "Incomplete: "
        return f"{mark}{question} {who} {joined} {', '.join(benchmarks) or 'nothing'}"


def _marked(result: Result, watermark: str) -> Result:
    if not watermark:
        return result
    steps = (Reason("incomplete", {}, COMPLETE_IT), *result.decision.what_to_do)
    return replace(
        result,
        watermark=watermark,
        headline=f"{watermark[0].upper()}{watermark[1:]}: {result.headline}",
        decision=replace(result.decision, what_to_do=steps),
    )


def cell_head(result: CellResult) -> dict[str, Any]:
    """Return the fields that a cell has in the verdict.json of every audit.

    Parameters
    ----------
    result : CellResult
        The result of a cell.

    Returns
    -------
    dict
        The fields by name, as JSON types.
    """
    return {
        **attributes(
            result,
            "model",
            "benchmark",
            "verdict",
            "grade",
            "headline",
            "watermark",
            "reasons",
            "what_to_do",
        ),
        **attributes(result, "cannot_exclude", "gates", "calibration"),
        "reason_codes": result.decision.reasons,
        "advice_codes": result.decision.what_to_do,
    }
