"""The gallery docs/findings: a page each, with its picture, from the published files. `make
findings`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from audit.commands import demo
from audit.core.number_text import bare_pvalue
from audit.imports.join import Joined, shares
from audit.imports.record import Wanted
from audit.imports.table import read_table
from audit.memory.cells import score_cells
from audit.memory.leaderboard import Leaderboard, Row, cautions, leaderboard, sentence
from audit.memory.leaderboard_page import figure as board_figure
from audit.memory.report import judge
from audit.papers import song2026
from audit.report import canvas
from audit.statistics.without_memory import score_of
from external import answers, livecodebench, tables
from external.judged import Set, answers_of, items_of

SHOWN = 5  # models of a table
DRAWN = 14  # models of a picture, beside those with a gap
BOARD = (
    "A black mark is a model's score. A square with a line is its score without memory with the "
    "95 % interval; it is a diamond if a gap is found. The grey bar joins the two."
)
GUESSING = " The dotted line is the score of guessing."


@dataclass(frozen=True)
class Finding:
    """One page. caption: marks of the picture. silent: what the finding does not say. command:
    gives its figures."""

    title: str
    sentence: str
    figure: Figure
    table: Sequence[str]
    silent: Sequence[str]
    command: str
    caption: str = ""


def board_of(published: Set, held_out: Set, references: Sequence[str] = ()) -> Leaderboard:
    """Return the leaderboard of two sets, each model against the named references or all others."""
    sets = {published.name: published, held_out.name: held_out}
    models = sorted(published.scores)
    chosen = {model: [name for name in references or models if name != model] for model in models}
    cells = score_cells(items_of(sets), answers_of(sets, models), chosen)
    # The items have no words here, and what was invented for them tells nothing.
    return leaderboard([replace(cell, kind=None) for cell in cells], chosen=bool(references))


def board_table(board: Leaderboard, shown: int = SHOWN) -> list[str]:
    """Return the rows of a leaderboard in markdown: those that stand out, then the best."""
    lines = [
        "| model | rank | rank without memory | score | without memory, 95 % | p, Holm | verdict |",
        "|---|---|---|---|---|---|---|",
    ]
    listed = [row for k, row in enumerate(board.rows) if row.is_finding or k < shown]
    lines += [_line(row) for row in listed]
    if left := len(board.rows) - len(listed):
        lines.append(f"\nNo gap is found for the {left} models that the table leaves out.")
    # The column has verdicts, so the result of a failed check follows the table.
    lines += [f"\n{row.model} is not judged. {row.why}" for row in listed if row.without is None]
    return lines


def board_picture(board: Leaderboard) -> Figure:
    """Return the picture of the best models and of those with a gap, few enough to be read at
    once."""
    rows = [row for k, row in enumerate(board.rows) if row.is_finding or k < DRAWN]
    return board_figure(replace(board, rows=tuple(rows)))


def _line(row: Row) -> str:
    score = f"{100 * row.score.estimate:.1f} %" if row.score else ""
    if row.without is None:
        return f"| {row.model} | | | {score} | not judged | | {row.word} |"
    low, high = 100 * row.without.low, 100 * row.without.high
    known = f"{100 * row.without.estimate:.1f} % [{low:.1f}, {high:.1f}]"
    known = f"at most {high:.1f} %" if row.at_most else known
    p = bare_pvalue(row.adjusted)
    return (
        f"| {row.model} | {row.rank} | {row.rank_without} | {score} | {known} | {p} | {row.word} |"
    )


def livecodebench_page(data: Path) -> Finding:
    before, after = livecodebench.load(data, "leetcode")
    # The name decides the random numbers: it is the command's, so that the page has the command's
    # figures.
    board = board_of(replace(before, name="before"), after, livecodebench.REFERENCES)
    board = replace(board, benchmark="LeetCode before September 2023")
    names = " ".join(livecodebench.REFERENCES)
    _, early = livecodebench.load(data, "leetcode", livecodebench.DECEMBER_MS)
    short = board_of(replace(before, name="before"), early, livecodebench.REFERENCES)
    (row,) = (row for row in short.rows if row.model == livecodebench.LEARNT)
    assert row.without is not None
    low, value, high = (
        f"{100 * share:.1f}" for share in (row.without.low, row.without.estimate, row.without.high)
    )
    return Finding(
        "LiveCodeBench: 45 models before and after September 2023",
        sentence(board),
        board_picture(board),
        board_table(board, 0),
        (
            *cautions(board),
            "By the dates that LiveCodeBench states, the training of every model ended before September 2023. For six "
            "of the eight references the date is 2023-01-01, which may be a guess. If a reference has read later "
            "problems, the gaps are too large.",
            f"If only the {early.stratum.size} problems of September to November 2023 are held out, {row.model} scores "
            f"{value} % [{low}, {high}] without memory.",
            f"Other references give another figure. With eight models that the program draws from other families "
            f"([five commands](../do/import_logs.md#five-commands-from-logs-to-a-report)), {row.model} scores 20.1 % "
            "[8.5, 32.4] without memory.",
            "The references were chosen among the models without a visible gap.",
            "The corrected p of DSCoder-1.3b-Ins is close to .05: random permutations decide whether it "
            "is above or below.",
            "LiveCodeBench's authors had named the DeepSeek-Coder models as contaminated, but not CodeQwen15-7B.",
        ),
        "python livecodebench_tables.py   # docs/do; beside performances_generation.json it writes the tables\n"
        "audit leaderboard leetcode.csv -o outputs/board --benchmark before --split date=2023-09 "
        f"--facts dates.csv --references {names}",
        BOARD,
    )


def mmlu_pro_page(data: Path) -> Finding:
    _, scores, *_ = answers.pro(data)
    spread = [
        (label, answers.spread(np.nan_to_num(scores), a, b))
        for label, a, b in answers.pro_pairs(data)
    ]
    halves, other = spread[0][1], spread[-1][1]
    lines = ["| pair of sets | SD of true differences, points (95 %) |", "|---|---|"]
    lines += [
        f"| {label} | {value:.1f} [{low:.1f}, {high:.1f}] |" for label, (value, low, high) in spread
    ]
    return Finding(
        "MMLU-Pro: items of another source are no held-out items",
        "From MMLU's items to those of another source, the scores of 28 models change unequally, "
        f"with a standard deviation of {other[0]:.1f} points. Between random halves of MMLU the "
        f"standard deviation is {halves[0]:.1f} points. So a gap of a few points to another source "
        "does not show memory.",
        bars(
            [(label, *limits) for label, limits in spread],
            "SD between models of true differences, points",
        ),
        lines,
        (
            "The finding says nothing about memory of MMLU-Pro: no held-out items of its kind were published.",
            "An answer without a letter counts as wrong here, as on leaderboards. In 20 of 28 files, 6 to 23 % of the "
            "answers have no letter.",
        ),
        "make external ARGS=mmlu_pro",
    )


def helm_page(data: Path) -> Finding:
    models, scores, _ = answers.helm(data)
    order = np.random.default_rng(0).permutation(scores.shape[1])
    sides = [order[:1000], order[1000:1500]]
    sets = [
        Set({m: scores[k, side] for k, m in enumerate(models)}, np.full(side.size, 4))
        for side in sides
    ]
    board = board_of(replace(sets[0], name="half of MMLU"), sets[1])
    scored = [row for row in board.judged if row.without and row.score]
    inside = sum(
        row.without.low <= row.score.estimate <= row.without.high
        for row in scored
        if row.without and row.score
    )
    return Finding(
        "HELM's answers to MMLU: where nothing differs, nothing is found",
        f"Between two random halves of MMLU, {len(board.findings)} of {len(models)} models have a gap. For {inside} of "
        f"{len(scored)} judged models, the score lies within the 95 % interval of the score without memory.",
        board_picture(board),
        board_table(board),
        (
            "The finding does not say that the models are clean: both halves may be learnt alike.",
            "The page shows one split. In 240 judgements with random splits and splits by subject, 0 gaps were found "
            "([table](external.md)).",
        ),
        "make external ARGS=helm",
        BOARD + GUESSING,
    )


def constat_page(data: Path) -> Finding:
    rows = []
    for kind, prior in (("synthetic", "held_out"), ("rephrase", "rewording")):
        for benchmark in tables.BENCHMARKS:
            public, planted = tables.counts(data / tables.FOLDER / f"{benchmark}_{kind}.csv", prior)
            rows.append(
                (benchmark, "new items" if kind == "synthetic" else "rewordings", public, planted)
            )
    new = [row for row in rows if row[1] == "new items"]
    n_found, all_ = (sum(planted[k] for *_, planted in new) for k in (0, 1))
    public, every = (sum(counts[k] for *_, counts, _ in new) for k in (0, 1))
    lines = [
        "| benchmark | held-out items | planted models found | public models found |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {name} | {label} | {b[0]} of {b[1]} | {a[0]} of {a[1]} |" for name, label, a, b in rows
    ]
    shares_ = [
        (f"{name}, {label}", 100 * b[0] / b[1], 100 * a[0] / a[1]) for name, label, a, b in rows
    ]
    return Finding(
        "ConStat's models: contaminated on purpose",
        f"With new items as held-out items, the audit finds memory in {n_found} of {all_} models whose score rose by "
        f"training on the exam, and in {public} of {every} public models.",
        pairs(shares_, "found, % of models"),
        lines,
        (
            "ConStat published totals with standard errors, and no answers. So only the test in points is possible.",
            "Public models may be contaminated, so the share that is found is not a false positive rate.",
            "The program's prior for differences between models was measured on the same tables.",
        ),
        "make external ARGS=constat",
    )


def gsm8k_page(data: Path) -> Finding:
    joined = Joined()
    path = data / "zeroeval_gsm8k" / "outputs_tail.parquet"
    columns = {"item": "session_id", "gold": "answer", "reply": "output_tail"}
    joined.add(
        path.name, read_table(path, "parquet", Wanted(benchmark="gsm8k", columns=columns)).outcomes
    )
    rows = []
    for model in joined.models:
        parsed = [share[0] for share in shares(joined, model, "gsm8k").values()]
        read = np.array([share for share in parsed if share is not None])
        score = score_of(read)
        if score is not None:
            rows.append((model, score.estimate, score.low, score.high, len(parsed) - read.size))
    rows.sort(key=lambda row: -row[1])
    close = sum(row[3] >= rows[0][1] for row in rows)
    lines = ["| model | score, 95 % | unparsed |", "|---|---|---|"]
    lines += [
        f"| {m} | {100 * x:.1f} % [{100 * a:.1f}, {100 * b:.1f}] | {k} |"
        for m, x, a, b, k in rows[:SHOWN]
    ]
    return Finding(
        "GSM8K: 44 models, and no held-out items",
        f"{len(rows)} models cannot be judged, because a score without held-out items does not show memory. "
        f"The intervals of {close} models contain the best score of {100 * rows[0][1]:.1f} %.",
        bars([(m, 100 * x, 100 * a, 100 * b) for m, x, a, b, _ in rows], "score, %"),
        lines,
        (
            "The page does not say whether memory contributes to these scores.",
            "GSM8K's authors published no second exam. New items could serve as held-out items.",
        ),
        "audit references fetch gsm8k_zeroeval",
    )


def song2026_page(_: Path) -> Finding:
    names = ("table2_model_router", "table1_model_summary", "table3_router_summary")
    table2, table1, table3 = (song2026.shipped(name) for name in names)
    result, _ = song2026.analyse(table2, printed=(table1, table3))
    printed, without = result.panels[0], result.panels[1]
    rows = [
        (p.routers, p.net_improve, w.net_improve)
        for p, w in zip(printed.routers, without.routers, strict=True)
    ]
    lines = [
        "| routers r | net improvement (answers from wrong to right minus right to wrong), as printed | without "
        "accuracies of exactly .00 |",
        "|---|---|---|",
    ]
    lines += [f"| {r} | {a:+.0f} | {b:+.0f} |" for r, a, b in rows]
    return Finding(
        "Song et al. 2026: the reversal at eight routers",
        "In the paper, noise turns from harm to help at eight routers. "
        f"{len(result.exact_values)} accuracies of exactly .00 cause this reversal. Without these accuracies the net "
        f"improvement with 3 to 9 routers is {', '.join(f'{b:+.0f}' for _, _, b in rows[2:])}.",
        lines_figure(rows),
        lines,
        (
            "The replies are not published, so the cause of these accuracies is not known. An accuracy of exactly .00 "
            "is worse than guessing, and unparsed replies are the likeliest cause.",
            f"In the printed table, {result.rejected[0]} of {len(result.settings)} settings have p < .05, and "
            f"{result.rejected[1]} settings after Holm's correction.",
        ),
        "audit reanalyze song2026",
    )


def demo_page(_: Path) -> Finding:
    verdict, _ = judge([demo.shipped()])
    both = demo.sides(verdict)
    taught = both[0]
    estimate, low, high = (100 * x for x in taught.without)
    lines = [
        "| model | score | on held-out items | without memory, 95 % | before it was taught |",
        "|---|---|---|---|---|",
    ]
    for side in both:
        known = f"{100 * side.without[0]:.1f} % [{100 * side.without[1]:.1f}, {100 * side.without[2]:.1f}]"
        shares = f"{100 * side.score:.1f} % | {100 * side.held_out:.1f} % | {known} | {100 * side.before:.1f} %"
        lines.append(f"| {demo.WHO[side.result.model]} | {shares} |")
    return Finding(
        "A model that was taught the exam: the truth is known",
        f"A small model scores {100 * taught.score:.0f} % on 104 questions that it was taught. Its "
        f"score without memory is {estimate:.0f} % [{low:.0f}, {high:.0f}]. Before it was taught, "
        f"it scored {100 * taught.before:.0f} %.",
        demo.picture(both),
        lines,
        (
            "The interval is wide, because 104 questions are few.",
            "The model before training is not cleared: so few questions cannot exclude a gap of 5 points.",
            "The demo shows that the audit notices one planted memory. The calibration pages have error rates.",
        ),
        "audit demo",
    )


PAGES: Mapping[str, tuple[str, Callable[[Path], Finding]]] = {
    "livecodebench": (livecodebench.FILE, livecodebench_page),
    "mmlu_pro": (answers.PRO, mmlu_pro_page),
    "helm_mmlu": (answers.HELM, helm_page),
    "constat": (tables.FOLDER, constat_page),
    "gsm8k": ("zeroeval_gsm8k/outputs_tail.parquet", gsm8k_page),
    "song2026": ("", song2026_page),
    "demo": ("", demo_page),
}


def write(data: Path, out: Path, names: Sequence[str] = ()) -> Iterator[str]:
    """Write the pages into a folder; yield a line for each."""
    for name in names or PAGES:
        needed, make = PAGES[name]
        if not (data / needed).exists():
            yield f"Skipped: {needed} is not in {data}."
            continue
        finding = make(data)
        (out / f"{name}.svg").write_text(canvas.svg_text(finding.figure), encoding="utf-8")
        (out / f"{name}.md").write_text(page(name, finding), encoding="utf-8")
        yield f"{name}: {finding.sentence}"


def page(name: str, finding: Finding) -> str:
    silent = "\n".join(f"- {line}" for line in finding.silent)
    table = "\n".join(finding.table)
    caption = f"{finding.caption}\n\n" if finding.caption else ""
    return (
        f"# {finding.title}\n\n**{finding.sentence}**\n\n![{finding.title}]({name}.svg)\n\n{caption}{table}\n\n"
        f"## What it does not say\n\n{silent}\n\n## The command\n\n```\n{finding.command}\n```\n"
    )


@canvas.styled()
def bars(rows: Sequence[tuple[str, float, float, float]], label: str) -> Figure:
    """Return estimates with their intervals, the first above."""
    drawn = Figure(figsize=(7.2, 1.0 + 0.24 * len(rows)), layout="constrained")
    axes = drawn.subplots()
    for y, (_, value, low, high) in enumerate(rows):
        axes.plot([low, high], [y, y], color=canvas.BLUE, linewidth=1.6)
        axes.plot([value], [y], "o", color=canvas.BLUE, markersize=5)
    axes.set_yticks(range(len(rows)), [canvas.plain(name, 44) for name, *_ in rows])
    axes.set(ylim=(len(rows) - 0.4, -0.6), xlabel=label)
    axes.grid(visible=False, axis="y")
    return drawn


@canvas.styled()
def pairs(rows: Sequence[tuple[str, float, float]], label: str) -> Figure:
    """Return two bars a row: of planted models and of public ones."""
    drawn = Figure(figsize=(7.2, 1.2 + 0.4 * len(rows)), layout="constrained")
    axes = drawn.subplots()
    at = np.arange(len(rows))
    axes.barh(
        at - 0.18,
        [row[1] for row in rows],
        0.34,
        color=canvas.VERMILLION,
        label="trained on the exam",
    )
    axes.barh(at + 0.18, [row[2] for row in rows], 0.34, color=canvas.BLUE, label="public models")
    axes.set_yticks(at, [row[0] for row in rows])
    axes.set(ylim=(len(rows) - 0.5, -0.5), xlim=(0, 100), xlabel=label)
    axes.legend(loc="lower right")
    return drawn


@canvas.styled()
def lines_figure(rows: Sequence[tuple[int, float, float]]) -> Figure:
    """Return the net improvement over routers, as printed and without the exact cells."""
    drawn = Figure(figsize=(7.2, 3.6), layout="constrained")
    axes = drawn.subplots()
    r, printed, without = zip(*rows, strict=True)
    axes.axhline(0, color=canvas.INK, linewidth=0.8)
    axes.plot(r, printed, "s--", color=canvas.VERMILLION, label="as printed")
    axes.plot(r, without, "o-", color=canvas.BLUE, label="without cells of exactly .00")
    axes.set(xlabel="routers, r", ylabel="improve less degrade, questions")
    axes.legend()
    return drawn
