"""Judge the shipped answers of a small model before and after it was taught an exam.

The command writes one page. It needs no engine and no network.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from audit.commands.again import add_force
from audit.core.errors import DataError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from audit.memory.analyse import RunVerdict
    from audit.memory.vocabulary import MemoryResult
    from audit.report.build import Page

TAUGHT, BEFORE = "smollm2_135m_taught", "smollm2_135m"
WHO = {TAUGHT: "The model, taught the exam", BEFORE: "The same model, before"}
NEXT = (
    "audit memory plan=true model=hf:ORG/NAME data=EXAM.jsonl control_data=UNSEEN.jsonl "
    "control_benchmark.date=WRITTEN 'references=[A,B,C]'",
    "audit sweep endpoint=URL model_id=NAME data=EXAM.csv",
)


@dataclass(frozen=True)
class Side:
    """Hold the numbers of one model of the demonstration. All accuracies are between 0 and 1.

    Attributes
    ----------
    result : MemoryResult
        The verdict on the model.
    score : float
        The model's accuracy on the exam.
    held_out : float
        The model's accuracy on the held-out items.
    without : tuple[float, float, float]
        Estimate and 95 % limits of the model's score on the exam without memory.
    before : float
        Accuracy on the exam of the model that was trained on no exam.
    others : tuple[float, ...]
        Accuracy on the exam of each model that was trained equally long on another exam.
    """

    result: MemoryResult
    score: float
    held_out: float
    without: tuple[float, float, float]
    before: float
    others: tuple[float, ...]


@dataclass(frozen=True)
class AnsweredQuestion:
    """Hold one question. `answers` maps a model's name to its answer and whether the answer is
    right."""

    text: str
    options: tuple[str, ...]
    gold: str
    answers: Mapping[str, tuple[str, bool]]


def shipped() -> Path:
    """Return the run directory that ships with the package."""
    return Path(str(files("audit") / "data" / "demo" / "run"))


def sides(verdict: RunVerdict) -> tuple[Side, Side]:
    """Return the numbers of the taught model, and those of the same model before it was taught.

    Raises
    ------
    DataError
        If the score without memory of a model was not identified.
    """
    cells = {r.model: (c, r) for c, r in zip(verdict.cells, verdict.results, strict=True)}
    before = cells[BEFORE][0].scores[0]
    both = []
    for name in (TAUGHT, BEFORE):
        cell, result = cells[name]
        if cell.tested[1] is None or result.without.estimate is None:
            raise DataError(
                f"The score without memory cannot be computed from the shipped answers of {name}. "
                "Reinstall the package."
            )
        interval = result.without.estimate.without
        limits = (interval.estimate, interval.low, interval.high)
        others = tuple(float(np.nanmean(reference.score)) for reference, _ in cell.references)
        exam, held_out = cell.scores
        both.append(Side(result, exam, held_out, limits, before, others))
    return both[0], both[1]


def remembered_questions(run_dir: Path, verdict: RunVerdict) -> list[AnsweredQuestion]:
    """Return the ten questions that the taught model most likely answers from memory.

    Parameters
    ----------
    run_dir : Path
        The run directory that ships with the package.
    verdict : RunVerdict
        The verdict on this run.

    Returns
    -------
    list[AnsweredQuestion]
        The questions with the answers of both models, the most likely first.
    """
    from audit.memory.without import ON_PAGE, ranked
    from audit.runtime.loading import load
    from audit.shards.questions import QuestionFile

    questions = {(q.benchmark, q.id): q for q in QuestionFile(run_dir)}
    cells = {r.model: (c, r) for c, r in zip(verdict.cells, verdict.results, strict=True)}
    rows = load(run_dir).answers(["model", "benchmark", "question_id", "arm", "answer"]).to_pylist()
    answered = {
        (r["model"], r["benchmark"], r["question_id"]): r["answer"]
        for r in rows
        if r["arm"] == "score"
    }
    remembered = []
    for item in ranked(*cells[TAUGHT], questions)[:ON_PAGE]:
        q = questions[cells[TAUGHT][0].benchmark, item.question_id]
        answers = {}
        for name in (TAUGHT, BEFORE):
            answer = answered[name, q.benchmark, q.id]
            answers[name] = ("–" if answer is None else q.options[answer], answer == q.gold)
        remembered.append(AnsweredQuestion(q.text, q.options, q.options[q.gold], answers))
    return remembered


def picture(both: Sequence[Side]) -> Figure:
    """Draw the scores of both models on the exam, on held-out items and without memory.

    The score without memory has its 95 % interval. The true score is that of the model before it
    was taught, and is drawn on the same line.
    """
    from matplotlib.figure import Figure

    from audit.report.canvas import BLUE, GREEN, INK, MUTED, PHONE, VERMILLION, names_above, styled

    with styled():
        figure = Figure(figsize=(PHONE, 3.1), layout="constrained")
        axes = figure.subplots()
        names, heights = [], []
        for k, side in enumerate(both):
            names.append(WHO[side.result.model])
            heights.append(k - 0.32)
            estimate, low, high = (100 * x for x in side.without)
            axes.plot([low, high], [k, k], color=BLUE, linewidth=2)
            axes.plot(
                estimate, k, "o", color=BLUE, markersize=7, label="score without memory, 95 %"
            )
            axes.plot(
                100 * side.score, k, "D", color=VERMILLION, markersize=7, label="score on the exam"
            )
            axes.plot(
                100 * side.held_out,
                k + 0.18,
                "s",
                color=MUTED,
                markersize=5,
                label="score on held-out items",
            )
            truth = "truth: before it was taught"
            axes.plot(
                100 * side.before,
                k,
                "|",
                color=INK,
                markersize=22,
                markeredgewidth=2.5,
                label=truth,
            )
            known = [100 * x for x in side.others]
            axes.plot(
                known,
                [k] * len(known),
                "|",
                color=GREEN,
                markersize=16,
                label="others, taught another exam",
            )
        names_above(axes, names, heights)
        axes.set_ylim(len(both) - 0.5, -0.6)
        axes.set_xlim(0, 100)
        axes.set_xlabel("questions answered right, %")
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles[:5], labels[:5], loc="outside lower center", markerscale=0.6)
    return figure


def page(verdict: RunVerdict, run_dir: Path, both: Sequence[Side]) -> Page:
    """Return the page of the demonstration.

    Parameters
    ----------
    verdict : RunVerdict
        The verdict on the shipped run.
    run_dir : Path
        The run directory that ships with the package.
    both : Sequence[Side]
        The numbers of both models.

    Returns
    -------
    Page
        The page with its figure, and the ten questions as a table.
    """
    from audit.judging.tables import csv_text
    from audit.memory.vocabulary import VERDICTS
    from audit.report.build import Page
    from audit.report.page import Mark, render_page

    questions = remembered_questions(run_dir, verdict)
    marks = []
    for side in both:
        word = VERDICTS[side.result.decision.verdict]
        marks.append(Mark("memory", WHO[side.result.model], word, _figures(side), "#numbers"))

    def render(figures: dict[str, str]) -> str:
        return render_page(
            "commands/demo.html.j2",
            rows=verdict.rows,
            title="Has the model read the exam?",
            subtitle="A demonstration: one small model, before and after it was taught an exam of "
            "104 questions.",
            words=VERDICTS,
            figures=figures,
            marks=marks,
            both=both,
            who=WHO,
            next=NEXT,
            questions=questions,
            references=[reference.model for reference, _ in verdict.cells[0].references],
            taught=TAUGHT,
            before=BEFORE,
            run_dir=run_dir,
        )

    rows = ((q.text, q.gold, q.answers[BEFORE][0], q.answers[TAUGHT][0]) for q in questions)
    table = csv_text(("question", "right_answer", "before", "taught_the_exam"), rows)
    return Page({"ten_questions.csv": table}, {"scores": picture(both)}, render)


def _figures(side: Side) -> str:
    low, high = (f"{100 * x:.0f}" for x in side.without[1:])
    when = ", before it was taught" if side.result.model == TAUGHT else ""
    return (
        f"{100 * side.score:.0f} % on the exam, {100 * side.held_out:.0f} % on held-out items; "
        f"without memory {100 * side.without[0]:.0f} % (95 %: {low} to {high}); "
        f"truth: {100 * side.before:.0f} %{when}"
    )


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's argument: the folder to which the page is written."""
    parser.add_argument(
        "--out", type=Path, help="the folder to write (default: outputs/demo, which is replaced)"
    )
    add_force(parser)


def run(arguments: Namespace) -> int:
    """Print both verdicts with their numbers and the page's path.

    Returns
    -------
    int
        Exit code 0, whatever the verdicts are.
    """
    from audit.memory.report import judge
    from audit.memory.vocabulary import VERDICTS
    from audit.report.build import PARTS, write_report
    from audit.shards.files import check_new

    out = arguments.out or Path("outputs/demo")
    if arguments.out is not None:
        check_new(out / "verdict.json", out, PARTS, force=arguments.force)
    verdict, run_dir = judge([shipped()])
    both = sides(verdict)
    written = write_report(out, verdict, page(verdict, run_dir, both))
    for side in both:
        word = VERDICTS[side.result.decision.verdict]
        print(f"{word.glyph} {WHO[side.result.model]}: {word.name}\n  {_figures(side)}")
    print(f"page     {written.html}\nanswers  {run_dir}\n\nNow yours:")
    print("\n".join(f"  {command}" for command in NEXT))
    return 0
