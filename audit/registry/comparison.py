"""Compare two runs of the same questions, question by question.

The comparison shows what changed between two versions of a model.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, cycle, product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit.config.audits import audit_of, find_audit, part_of
from audit.config.references import JOINED_MIN, imported
from audit.core.errors import ConfigError, DataError
from audit.core.number_text import interval, percent, pvalue, signed_points
from audit.core.records import AS_PUBLISHED, Setting
from audit.governance.formats import short
from audit.judging.instrument import Indicator
from audit.registry.entry import NAMES, Cell, Entry, Row, design, read_entry
from audit.report import canvas
from audit.report.page import render_page
from audit.shards.manifest import Manifest, deciding
from audit.shards.panel import panel_runs
from audit.shards.read import load_cells, open_dataset
from audit.statistics.multiplicity import holm
from audit.statistics.paired import CellOutcomes, FloatArray, IntArray, State
from audit.statistics.values import to_values
from audit.statistics.versions import (
    UNITS_MIN,
    Lasting,
    PairedDifference,
    lasting_by_condition,
    lasting_by_items,
    paired_difference,
)

HELD_OUT = "held-out items"
ALPHA = 0.05  # significance level of the tests of change
MAX_QUESTIONS = 300  # largest number of questions that the page shows
SHARE_WIDTH = 1.0  # a share whose interval is wider is not shown
# keys of NAMES that affect the results, but not the answers
_NOT_OF_ANSWERS = {"references", "control"}
# keys of NAMES that may differ between imported runs, since their items are matched by key
_IN_LOGS = {
    *_NOT_OF_ANSWERS,
    "benchmark",
    "questions",
    "design",
}
LABELS = {
    "forward_full": "clean",
    "noisy_rewrite": "noisy",
    "deleted": "words deleted",
    "excess": "Mean gain under noise",
    "fresh_gap": "Gap to held-out items",
    "cs": "Contamination score (CS)",
}
_STATES = {
    State.CORRECT: "right",
    State.WRONG: "wrong",
    State.UNPARSED: "not read",
    State.TRUNCATED: "cut off",
    State.ERROR: "no reply",
    State.ABSENT: "not asked",
}
Pair = tuple[Path, Path]  # the directories of the earlier and the later run
Answers = Mapping[Setting, FloatArray]  # maps settings to values (0-1) of n questions
Words = Mapping[Setting, Sequence[str]]  # maps each setting to the outcomes of n questions as text


@dataclass(frozen=True)
class SettingChange:
    """Hold how the accuracy under one setting changed between two runs.

    Attributes
    ----------
    setting : Setting
        The compared setting (arm, level and replicate).
    found : PairedDifference or None
        The change of the accuracy; None if no question has an answer in both runs.
    adjusted : float or None
        The p-value after Holm's correction over all compared settings.
    """

    setting: Setting
    found: PairedDifference | None
    adjusted: float | None


@dataclass(frozen=True)
class QuestionChange:
    """Hold a question whose outcome differs between the two runs, under at least one setting.

    Attributes
    ----------
    question_id, text, gold : str
        The id of the question, its text, and its right answer.
    moves : tuple of (str, str, str)
        A tuple (setting, outcome before, outcome after) for each setting whose outcome differs.
    """

    question_id: str
    text: str
    gold: str
    moves: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class LastingChange:
    """Hold the part of a score improvement that remains under another condition than the baseline.

    The lead is the score of the second version minus the score of the first
    (`statistics.versions`).

    Attributes
    ----------
    condition : str
        The name of an arm, or HELD_OUT for held-out items.
    found : Lasting
        The lead, and the share (0-1) of the lead that remains under the condition.
    before, after : tuple of float
        Accuracies of the first and of the second version, each as (under the baseline, under the
        condition).
    adjusted : float
        The p-value after Holm's correction over all compared conditions.
    """

    condition: str
    found: Lasting
    before: tuple[float, float]
    after: tuple[float, float]
    adjusted: float = 1.0


@dataclass(frozen=True)
class CellChange:
    """Hold all changes between two runs for one model on one benchmark.

    Attributes
    ----------
    audit : str
        Name of the audit.
    before, after : tuple of Cell
        The results in each run. A run has several results if parts of the benchmark (contexts) are
        judged separately.
    score : PairedDifference or None
        The change of the score, which is the mean over all baseline settings; None if no question
        has an answer in both runs.
    settings : tuple of SettingChange
        The change of the accuracy under each setting.
    lasting : tuple of LastingChange
        For each condition, the part of the lead that remains. Empty if too few items are answered
        under both the baseline and the condition.
    figures : tuple
        A tuple (name, context, before, after) for each indicator that both runs have.
    changed : int
        Number of questions whose outcome differs between the runs.
    questions : tuple of QuestionChange
        The first MAX_QUESTIONS of the questions whose outcome changed.
    """

    audit: str
    before: tuple[Cell, ...]
    after: tuple[Cell, ...]
    score: PairedDifference | None
    settings: tuple[SettingChange, ...]
    lasting: tuple[LastingChange, ...]
    figures: tuple[tuple[str, str, Indicator, Indicator], ...]
    changed: int
    questions: tuple[QuestionChange, ...]


def compare_runs(
    before: Path,
    after: Path,
    models: Sequence[tuple[str, str]] = (),
    benchmarks: Sequence[str] = (),
) -> tuple[CellChange, ...]:
    """Compare two runs, panels or suites, and return the changes from the earlier to the later.

    Parameters
    ----------
    before, after : Path
        Directories of the earlier and the later run.
    models : sequence of (str, str)
        Pairs (name before, name after) of models whose names differ.
    benchmarks : sequence of str
        Benchmarks to compare. This argument is required if one run has further benchmarks.

    Returns
    -------
    tuple of CellChange
        The changes. Holm's correction covers all these changes together.

    Raises
    ------
    ConfigError
        If the two runs cannot be compared (the message states why), or if a run is not finished.
    """
    rng = np.random.default_rng(42)
    changes: list[CellChange] = []
    for runs in _run_pairs(before, after):
        changes += _changes_of(runs, models, benchmarks, rng)
    settings = list(chain.from_iterable(change.settings for change in changes))
    pvalues = [np.nan if s.found is None else s.found.pvalue for s in settings]
    adjusted = iter([None if np.isnan(p) else p for p in holm(pvalues).tolist()])
    lasting = list(chain.from_iterable(change.lasting for change in changes))
    adjusted_lasting = iter(holm([change.found.pvalue for change in lasting]).tolist())
    corrected = []
    for change in changes:
        new_settings = tuple(replace(s, adjusted=next(adjusted)) for s in change.settings)
        new_lasting = tuple(replace(k, adjusted=next(adjusted_lasting)) for k in change.lasting)
        corrected.append(replace(change, settings=new_settings, lasting=new_lasting))
    return tuple(corrected)


def _run_pairs(before: Path, after: Path) -> list[Pair]:
    """Return the pairs of runs to compare.

    In two suites or panels, runs with equal names form a pair.
    """
    old_runs, new_runs = panel_runs(before), panel_runs(after)
    if old_runs is None and new_runs is None:
        return [(before, after)]
    old = {run.resolve().name: run for run in old_runs or ()}
    new = {run.resolve().name: run for run in new_runs or ()}
    if set(old) != set(new):
        first, second = (_listed(named) if named else "one run" for named in (old, new))
        raise ConfigError(
            f"{before} has {first}, {after} has {second}. Expected runs of the same names in both."
        )
    return [(run, new[name]) for name, run in old.items()]


def _changes_of(
    runs: Pair,
    models: Sequence[tuple[str, str]],
    benchmarks: Sequence[str],
    rng: np.random.Generator,
) -> list[CellChange]:
    first, second = map(read_entry, runs)
    if first.audit != second.audit:
        raise ConfigError(
            f"{runs[0]} is a {first.audit} audit, and {runs[1]} is a {second.audit} audit. Expected two runs of the "
            f"same audit. Example: audit report {runs[0]} {runs[1]} --out JOINT shows both on one page."
        )
    matched = []
    for old_name, new_name in models or _model_pairs(first, second):
        a, b = _cells_of(first, old_name), _cells_of(second, new_name)
        shared = sorted(set(a) & set(b))
        problem = f"{old_name} was asked {_listed(a)}, {new_name} {_listed(b)}."
        if not set(shared).issuperset(benchmarks) or not shared:
            raise ConfigError(f"{problem} Expected a benchmark that both models were asked.")
        # If one run lacks a benchmark, the user must name the benchmarks to compare.
        if set(a) != set(b) and not benchmarks:
            names = " ".join(f"--benchmarks {name}" for name in shared)
            raise ConfigError(f"{problem} Name the benchmarks to compare: {names}")
        matched += [(a[name], b[name]) for name in (sorted(set(benchmarks)) or shared)]
    logs = all(map(imported, runs))
    _check_comparable(matched, _IN_LOGS if logs else _NOT_OF_ANSWERS, runs)
    outcomes = []
    for run in runs:
        loaded = load_cells(run, audit_of(run).schema)
        outcomes.append({(cell.model, cell.benchmark): cell for cell in loaded})
    return [_change(first.audit, a, b, outcomes, runs, rng, logs) for a, b in matched]


def _check_comparable(
    matched: Sequence[tuple[Sequence[Cell], Sequence[Cell]]], left_out: Collection[str], runs: Pair
) -> None:
    """Raise ConfigError if the runs differ in a key of NAMES. The message states all differences.

    Keys in `left_out` may differ.
    """
    differences = []
    manifests = [Manifest.load(run) for run in runs]
    for (a, *_), (b, *_) in matched:
        for name in NAMES:
            if name not in left_out and a.comparable[name] != b.comparable[name]:
                differences.append(
                    f"{a.benchmark}: {NAMES[name]} ({_what_differs(name, (a, b), manifests)})"
                )
    if differences:
        raise ConfigError(
            "Runs can be compared question by question only if these facts are equal: "
            f"{'; '.join(differences)}."
        )


def _what_differs(name: str, cells: tuple[Cell, Cell], manifests: Sequence[Manifest]) -> str:
    """Describe the first four fields that differ between two hashed settings.

    If the manifests store only the hashes, the text states the two hashes.
    """
    old = _hashed_fields(name, manifests[0], cells[0].model)
    new = _hashed_fields(name, manifests[1], cells[1].model)
    keys = []
    for key in {**old, **new}:
        if old.get(key) != new.get(key):
            keys.append(key)
    differences = []
    for key in keys[:4]:
        differences.append(f"{key} {short(old.get(key))} before, {short(new.get(key))} after")
    if len(keys) > 4:
        differences.append(f"and {len(keys) - 4} more")
    hashes = [cell.comparable[name][:24] or "none" for cell in cells]
    return ", ".join(differences) or f"{hashes[0]} before, {hashes[1]} after"


def _hashed_fields(name: str, manifest: Manifest, model: str) -> Row:
    """Map the fields that are part of a hash to their values.

    `name` is the key of the hash in NAMES. The result is empty if the manifest stores only the
    hash.
    """
    config = manifest.config
    if name == "questions":
        return {key: config.get(key) for key in ("n", "seed")}
    if name == "prompts":
        return deciding((config.get("protocols") or {}).get(model) or {})
    if name == "design":
        fields = design(manifest, model)
        return deciding({**fields, "settings": len(fields["settings"])})
    return {}


def page(changes: Sequence[CellChange], before: Path, after: Path) -> str:
    """Return the comparison as an HTML page that needs no other file.

    Parameters
    ----------
    changes : sequence of CellChange
        The changes, as returned by `compare_runs`.
    before, after : Path
        Directories of the two runs.

    Returns
    -------
    str
        The HTML document.
    """

    def word(change: CellChange, cell: Cell) -> str:  # The template calls this function.
        """Return the label of a cell's verdict."""
        return str(part_of(change.audit, "vocabulary").VERDICTS[cell.verdict].name)

    def beyond(change: CellChange) -> list[SettingChange]:
        """Return the settings with a significant change in accuracy, the smallest p-value first."""
        significant = []
        for s in change.settings:
            if s.adjusted is not None and s.adjusted <= ALPHA:
                significant.append(s)
        return sorted(significant, key=lambda s: s.adjusted or 0.0)

    label = "scores at the baseline and by condition"
    pictures = []
    for k, change in enumerate(changes):
        pictures.append(
            canvas.inline_svg(_lasting_svg(change.lasting), f"l{k}", label)
            if change.lasting
            else ""
        )
    return render_page(
        "registry/comparison.html.j2",
        rows=(),
        title="What changed?",
        changes=changes,
        before=before,
        after=after,
        name=setting_name,
        pairs=verdicts,
        pictures=pictures,
        word=word,
        beyond=beyond,
        sentence=sentence,
        share=remaining_share,
        labels=LABELS,
    )


@canvas.styled()
def _lasting_svg(lasting: Sequence[LastingChange]) -> str:
    """Draw the scores of two versions under each condition, and return the SVG.

    An arrow leads from the first version to the second. The axes are the score on the published
    questions and the score under the condition. A point below the diagonal means that the score
    depends on the published wording, or on the published items.
    """
    # A comparison that is printed in the terminal does not need matplotlib.
    from matplotlib.figure import Figure

    colours = cycle(
        (canvas.VERMILLION, canvas.BLUE, canvas.GREEN, canvas.PURPLE, canvas.ORANGE, canvas.SKY)
    )
    figure = Figure(figsize=(canvas.PHONE, 4.2), layout="constrained")
    ax = figure.subplots()
    shown: list[float] = []
    for change in lasting:
        shown += [100 * score for score in (*change.before, *change.after)]
    ends = [min(shown) - 5, max(shown) + 5]
    ax.plot(ends, ends, color=canvas.MUTED, linewidth=0.8, linestyle=":")
    for change in lasting:
        colour = next(colours)
        start, end = 100 * np.array((change.before, change.after))
        ax.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": colour})
        ax.plot(*start, "o", color=colour, markerfacecolor=canvas.PAPER)
        ax.plot(
            *end,
            "o",
            color=colour,
            label=canvas.plain(LABELS.get(change.condition, change.condition)),
        )
    ax.set(
        xlabel="score at the baseline, %",
        ylabel="score under the condition, %",
        xlim=ends,
        ylim=ends,
    )
    figure.legend(loc="outside upper center", ncols=2)
    return canvas.svg_text(figure)


def setting_name(setting: Setting) -> str:
    """Return the name of a setting in reports, such as "noisy 3" or "original, run 2"."""
    level = f" {setting.level}" if setting.level else ""
    run = f", run {setting.replicate + 1}" if setting.replicate else ""
    return f"{LABELS.get(setting.arm, setting.arm)}{level}{run}"


def verdicts(before: Sequence[Cell], after: Sequence[Cell]) -> list[tuple[Cell, Cell]]:
    """Return the pairs of cells that both runs judged, one pair for each context.

    Parameters
    ----------
    before, after : sequence of Cell
        Cells of one model and benchmark, from the earlier and from the later run.

    Returns
    -------
    list of (Cell, Cell)
        Pairs (before, after) of cells with the same context.
    """
    pairs = []
    for x, y in product(before, after):
        if x.context == y.context:
            pairs.append((x, y))
    return pairs


def _change(
    audit: str,
    a: Sequence[Cell],
    b: Sequence[Cell],
    outcomes: Sequence[dict[tuple[str, str], CellOutcomes]],
    runs: Pair,
    rng: np.random.Generator,
    logs: bool,
) -> CellChange:
    keys = [(cell[0].model, cell[0].benchmark) for cell in (a, b)]
    old, new = outcomes[0][keys[0]], outcomes[1][keys[1]]
    if logs:
        old, new = _shared(old, new)
    elif old.question_ids != new.question_ids or old.settings != new.settings:
        raise DataError(
            f"{keys[0][0]} on {keys[0][1]}: the shards of the two runs hold different questions or "
            "settings."
        )
    (before, words_before), (after, words_after) = _rows(old), _rows(new)
    settings = []
    for s, x in before.items():
        if {*words_before[s], *words_after[s]} == {_STATES[State.ABSENT]}:
            continue  # The setting scores texts by likelihood, so it has no answers.
        y = after[s]
        difference = (
            None if np.isnan(x + y).all() else paired_difference(x, y, old.cluster, rng=rng)
        )
        settings.append(SettingChange(s, difference, None))
    controls = []
    for cells, (model, _), run in zip(outcomes, keys, runs, strict=True):
        # Imported runs store only the name of the control benchmark.
        control = Manifest.load(run).config.get("control_benchmark")
        controls.append(
            cells.get((model, control["name"] if isinstance(control, Mapping) else str(control)))
        )
    lasting = tuple(_lasting(audit, (before, after), old.cluster, controls, logs))
    changed, questions = _questions(words_before, words_after, old.question_ids, runs[0], keys[0])
    score = _score_change(_baseline(audit, (before, after)), before, after, old.cluster, rng)
    return CellChange(
        audit,
        tuple(a),
        tuple(b),
        score,
        tuple(settings),
        lasting,
        _figures(a, b),
        changed,
        questions,
    )


def _score_change(
    baseline: Sequence[Setting],
    before: Answers,
    after: Answers,
    cluster: IntArray,
    rng: np.random.Generator,
) -> PairedDifference | None:
    """Return the change of the score. The score is the mean over all baseline settings."""
    x, y = _mean(before, baseline), _mean(after, baseline)
    return None if np.isnan(x + y).all() else paired_difference(x, y, cluster, rng=rng)


def sentence(change: CellChange) -> str:
    """Describe both scores, their difference, and whether chance explains the difference."""
    s = change.score
    if s is None:
        return "No question has an answer in both."
    how = (
        "changed by more than chance" if s.pvalue <= ALPHA else "did not change by more than chance"
    )
    return (
        f"The score {how}: {percent(s.before)} to {percent(s.after)}, {signed_points(s.difference)} "
        f"({interval(s.low, s.high)}, {pvalue(s.pvalue)}, {s.n:,} questions)."
    )


def remaining_share(lasting: Lasting) -> tuple[float, float, float] | None:
    """Return the share of a score improvement that remains under a condition, with its interval.

    The result is None if the share is negative, or if its interval is wider than SHARE_WIDTH.
    """
    share = lasting.share
    return share if share and share[0] >= 0 and share[2] - share[1] <= SHARE_WIDTH else None


def _questions(
    before: Words, after: Words, ids: Sequence[str], run_dir: Path, key: tuple[str, str]
) -> tuple[int, tuple[QuestionChange, ...]]:
    """Return the number of questions whose outcome changed, and the first MAX_QUESTIONS questions.

    The questions with the most changed settings come first.
    """
    moves = {}
    for k, name in enumerate(ids):
        differing = []
        for s in before:
            if before[s][k] != after[s][k]:
                differing.append((setting_name(s), before[s][k], after[s][k]))
        moves[name] = tuple(differing)
    moved = sorted(filter(moves.get, ids), key=lambda name: -len(moves[name]))
    texts = _texts(run_dir, key, moved[:MAX_QUESTIONS])
    shown = []
    for name in moved[:MAX_QUESTIONS]:
        shown.append(QuestionChange(name, *texts.get(name, ("", "")), moves[name]))
    return len(moved), tuple(shown)


def _figures(
    a: Sequence[Cell], b: Sequence[Cell]
) -> tuple[tuple[str, str, Indicator, Indicator], ...]:
    """Return (name, context, before, after) for each indicator that both runs have.

    Indicators of a cell are left out if the references or held-out items differ between the runs.
    """
    figures: list[tuple[str, str, Indicator, Indicator]] = []
    for x, y in verdicts(a, b):
        if all(x.comparable[name] == y.comparable[name] for name in _NOT_OF_ANSWERS):
            after = {f.name: f for f in y.indicators}
            for f in x.indicators:
                if f.name in after:
                    figures.append((f.name, x.context, f, after[f.name]))
    return tuple(figures)


def _lasting(
    audit: str,
    answers: tuple[Answers, Answers],
    cluster: IntArray,
    controls: Sequence[CellOutcomes | None],
    logs: bool,
) -> Iterator[LastingChange]:
    """Yield comparisons with the baseline: one for each other arm, and one for the held-out items.

    The accuracy under an arm is the mean over the levels and replicates of the arm.
    """
    base = _baseline(audit, answers)
    scores = [_mean(side, base) for side in answers]
    lead = scores[1] - scores[0]
    for arm, under in _by_arm(answers, base):
        every = ~np.isnan(np.sum([*scores, *under], axis=0))
        if np.unique(cluster[every]).size >= UNITS_MIN:
            lasting = lasting_by_condition(lead, under[1] - under[0], cluster)
            before, after = (_score(x[every], y[every]) for x, y in zip(scores, under, strict=True))
            yield LastingChange(arm, lasting, before, after)
    first, second = controls
    if not first or not second:
        return
    if logs:
        first, second = _shared(first, second)
    elif first.question_ids != second.question_ids:
        return
    held_out = [_mean(_rows(c)[0], base) for c in (first, second)]
    leads, clusters = (lead, held_out[1] - held_out[0]), (cluster, first.cluster)
    if min(map(_units, leads, clusters)) >= UNITS_MIN:
        before, after = map(_score, scores, held_out)
        yield LastingChange(HELD_OUT, lasting_by_items(*leads, clusters), before, after)


def _by_arm(
    answers: tuple[Answers, Answers], base: Sequence[Setting]
) -> Iterator[tuple[str, list[FloatArray]]]:
    """Yield each arm except the baseline, with the mean answer to each item in each run."""
    settings: dict[str, list[Setting]] = {}
    for setting in dict.fromkeys([*answers[0], *answers[1]]):
        if setting not in base:
            settings.setdefault(setting.arm, []).append(setting)
    for arm in dict.fromkeys(setting.arm for setting in answers[0] if setting not in base):
        yield arm, [_mean(side, settings[arm]) for side in answers]


def _units(lead: FloatArray, cluster: IntArray) -> int:
    return np.unique(cluster[~np.isnan(lead)]).size


def _baseline(audit: str, answers: tuple[Answers, Answers]) -> list[Setting]:
    """Return the settings of the audit's baseline.

    If the baseline has no answers, the settings that ask the questions as published are returned.
    For example, the baseline of the memory audit is a likelihood.
    """
    unanswered: set[Setting] = set()
    for side in answers:
        for s in side:
            if np.isnan(side[s]).all():
                unanswered.add(s)
    answered = []
    for s in answers[0]:
        if s not in unanswered:
            answered.append(s)
    baseline = []
    for s in answered:
        if find_audit(audit).roles.is_baseline(s):
            baseline.append(s)
    published = []
    for setting in answered:
        if setting.arm in AS_PUBLISHED and setting.level == 0:
            published.append(setting)
    return baseline or published


def _score(baseline: FloatArray, condition: FloatArray) -> tuple[float, float]:
    return float(np.nanmean(baseline)), float(np.nanmean(condition))


def _mean(answers: Answers, settings: Iterable[Setting]) -> FloatArray:
    """Return the mean of each item over the given settings, as an array (n,).

    Items without an answer are NaN.
    """
    rows = []
    for s in settings:
        if s in answers:
            rows.append(answers[s])
    if not rows:
        any_row, *_ = answers.values()
        rows = [np.full_like(any_row, np.nan)]
    mean: FloatArray = np.ma.masked_invalid(np.stack(rows)).mean(axis=0).filled(np.nan)
    return mean


def _rows(cell: CellOutcomes) -> tuple[Answers, Words]:
    """Return two mappings: from each setting to the values (n,), and to the outcomes as text.

    Replicates of a question count as one answer. The value of this answer is the mean of the
    replicates.
    """
    replicates: dict[Setting, list[Setting]] = {}
    for setting in cell.settings:
        replicates.setdefault(replace(setting, replicate=0), []).append(setting)
    values, words = {}, {}
    for setting, runs in replicates.items():
        rows = [cell.row(run) for run in runs]
        values[setting] = _mean(
            {run: to_values(row) for run, row in zip(runs, rows, strict=True)}, runs
        )
        if len(runs) == 1:
            words[setting] = [_STATES[State(x)] for x in rows[0]]
        else:
            words[setting] = []
            for x in values[setting]:
                words[setting].append("no answer" if np.isnan(x) else f"{percent(x)} right")
    return values, words


def _shared(first: CellOutcomes, second: CellOutcomes) -> tuple[CellOutcomes, CellOutcomes]:
    """Restrict two cells to the items whose keys occur in both cells, and return the two cells.

    Raises ConfigError if fewer than the share JOINED_MIN of the larger cell's items are in both
    cells.
    """
    shared = sorted(set(first.question_ids) & set(second.question_ids))
    most = max(first.n, second.n)
    if len(shared) < JOINED_MIN * most:
        raise ConfigError(
            f"{first.model} and {second.model} share {len(shared):,} of {most:,} items of {first.benchmark}; "
            f"expected at least {percent(JOINED_MIN)}. Import both with one --key, such as --key text."
        )
    return first.subset(np.isin(first.question_ids, shared)), second.subset(
        np.isin(second.question_ids, shared)
    )


def _texts(run_dir: Path, key: tuple[str, str], ids: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Map each question id to (text of the question, right answer)."""
    wanted = (pc.field("model") == key[0]) & (pc.field("benchmark") == key[1])
    wanted &= pc.field("question_id").isin(pa.array(ids, pa.string()))
    columns = ["question_id", "question", "options", "gold", "target"]
    table = open_dataset(run_dir, audit_of(run_dir).schema).to_table(columns=columns, filter=wanted)
    texts: dict[str, tuple[str, str]] = {}
    for row in table.to_pylist():
        gold = row["gold"]
        right = (
            row["options"][gold]
            if row["options"] and gold is not None and gold >= 0
            else row["target"]
        )
        texts.setdefault(
            row["question_id"], (row["question"] or "", "" if right is None else str(right))
        )
    return texts


def _cells_of(entry: Entry, model: str) -> dict[str, list[Cell]]:
    cells: dict[str, list[Cell]] = {}
    for cell in entry.cells:
        if cell.model == model:
            cells.setdefault(cell.benchmark, []).append(cell)
    if not cells:
        judged = _listed({cell.model for cell in entry.cells})
        raise ConfigError(
            f"{entry.run_dir} did not judge the model {model!r}. Expected one of {judged}."
        )
    return cells


def _model_pairs(first: Entry, second: Entry) -> list[tuple[str, str]]:
    old = sorted({cell.model for cell in first.cells})
    new = sorted({cell.model for cell in second.cells})
    if old == new or len(old) == len(new) == 1:
        return list(zip(old, new, strict=True))
    judged = f"The runs judged {_listed(old)} and {_listed(new)}."
    if shared := sorted(
        set(old) & set(new)
    ):  # If one run lacks a model, the user must name the models to compare.
        names = " ".join(f"--models {name}={name}" for name in shared)
        raise ConfigError(f"{judged} Name the models to compare: {names}")
    raise ConfigError(f"{judged} Name the pairs to compare. Example: --models {old[0]}={new[0]}")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"
