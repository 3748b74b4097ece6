"""Judge shipped answers of a small model before and after it was taught an exam, and write one
page. No engine, no network."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

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
    """One model of the demonstration, accuracies 0-1. score, held_out: of this model. without:
    (estimate, low, high) of its score on the exam without memory. before: score on the exam of the
    model that was taught nothing; others: of those that were trained as long on another exam."""

    result: MemoryResult
    score: float
    held_out: float
    without: tuple[float, float, float]
    before: float
    others: tuple[float, ...]


@dataclass(frozen=True)
class Asked:
    """One question with the answer of each model, by name, and whether it is right."""

    text: str
    options: tuple[str, ...]
    gold: str
    answers: Mapping[str, tuple[str, bool]]


def shipped() -> Path:
    """The run directory that ships with the package."""
    return Path(str(files("audit") / "data" / "demo" / "run"))


def sides(verdict: RunVerdict) -> tuple[Side, Side]:
    """The taught model, and the same model before. DataError where the score without memory was not
    identified."""
    cells = {r.model: (c, r) for c, r in zip(verdict.cells, verdict.results, strict=True)}
    before = cells[BEFORE][0].scores[0]
    found = []
    for name in (TAUGHT, BEFORE):
        cell, result = cells[name]
        if cell.tested[1] is None or result.without.found is None:
            raise DataError(
                f"The shipped answers of {name} give no score without memory. Install the package again."
            )
        told = result.without.found.without
        limits = (told.estimate, told.low, told.high)
        others = tuple(float(np.nanmean(one[0].score)) for one in cell.references)
        exam, held_out = cell.scores
        found.append(Side(result, exam, held_out, limits, before, others))
    return found[0], found[1]


def ten(run_dir: Path, verdict: RunVerdict) -> list[Asked]:
    """The ten questions that the taught model most likely answers from memory, with the answers of
    both models."""
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
    found = []
    for one in ranked(*cells[TAUGHT], questions)[:ON_PAGE]:
        q = questions[cells[TAUGHT][0].benchmark, one.question_id]
        said = {name: answered[name, q.benchmark, q.id] for name in (TAUGHT, BEFORE)}
        texts = {n: ("–" if a is None else q.options[a], a == q.gold) for n, a in said.items()}
        found.append(Asked(q.text, q.options, q.options[q.gold], texts))
    return found


def picture(both: Sequence[Side]) -> Figure:
    """Score on the exam, on held-out items, and without memory with its 95 % interval, beside what
    is known."""
    from matplotlib.figure import Figure

    from audit.report.canvas import BLUE, GREEN, INK, MUTED, PHONE, VERMILLION, names_above, styled

    with styled():
        figure = Figure(figsize=(PHONE, 3.1), layout="constrained")
        axes = figure.subplots()
        for k, side in enumerate(both):
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
        names_above(
            axes, [WHO[side.result.model] for side in both], [k - 0.32 for k in range(len(both))]
        )
        axes.set_ylim(len(both) - 0.5, -0.6)
        axes.set_xlim(0, 100)
        axes.set_xlabel("questions answered right, %")
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles[:5], labels[:5], loc="outside lower center", markerscale=0.6)
    return figure


def page(verdict: RunVerdict, run_dir: Path, both: Sequence[Side]) -> Page:
    """The page, its figure, and the ten questions as a table."""
    from audit.judging.tables import csv_text
    from audit.memory.vocabulary import VERDICTS
    from audit.report.build import Page
    from audit.report.page import Mark, render_page

    questions = ten(run_dir, verdict)
    marks = [
        Mark(
            "memory",
            WHO[s.result.model],
            VERDICTS[s.result.decision.verdict],
            _figures(s),
            "#numbers",
        )
        for s in both
    ]

    def render(figures: dict[str, str]) -> str:
        return render_page(
            "commands/demo.html.j2",
            rows=verdict.rows,
            title="Has the model read the exam?",
            subtitle="A demonstration: one small model, before and after it was taught an exam of 104 questions.",
            words=VERDICTS,
            figures=figures,
            marks=marks,
            both=both,
            who=WHO,
            next=NEXT,
            questions=questions,
            references=[one.model for one, _ in verdict.cells[0].references],
            taught=TAUGHT,
            before=BEFORE,
            run_dir=run_dir,
        )

    rows = ((q.text, q.gold, q.answers[BEFORE][0], q.answers[TAUGHT][0]) for q in questions)
    table = csv_text(("question", "right_answer", "before", "taught_the_exam"), rows)
    return Page({"ten_questions.csv": table}, {"scores": picture(both)}, render)


def _figures(side: Side) -> str:
    low, high = (f"{100 * x:.0f}" for x in side.without[1:])
    when = ", before it was taught" * (side.result.model == TAUGHT)
    return (
        f"{100 * side.score:.0f} % on the exam, {100 * side.held_out:.0f} % on held-out items; without memory "
        f"{100 * side.without[0]:.0f} % (95 %: {low} to {high}); truth: {100 * side.before:.0f} %{when}"
    )


def add_words(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--out", type=Path, default=Path("outputs/demo"), help="default: outputs/demo"
    )


def run(asked: Namespace) -> int:
    """Print both verdicts with their numbers and the page's path; exit code 0 whatever they are."""
    from audit.memory.report import judge
    from audit.memory.vocabulary import VERDICTS
    from audit.report.build import write_report

    verdict, run_dir = judge([shipped()])
    both = sides(verdict)
    written = write_report(asked.out, verdict, page(verdict, run_dir, both))
    for side in both:
        word = VERDICTS[side.result.decision.verdict]
        print(f"{word.glyph} {WHO[side.result.model]}: {word.name}\n  {_figures(side)}")
    print(f"page     {written.html}\nanswers  {run_dir}\n\nNow yours:")
    print("\n".join(f"  {command}" for command in NEXT))
    return 0
