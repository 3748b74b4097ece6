"""Two runs of the same questions, paired by question: what changed from one version to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit.audits import audit_of
from audit.errors import ConfigError, DataError
from audit.panel import panel_runs
from audit.records import Setting
from audit.registry.entry import NAMES, Cell, Entry, read_entry
from audit.report.page import environment, policy
from audit.shards.read import load_cells, open_dataset
from audit.statistics.multiplicity import holm
from audit.statistics.paired import CellOutcomes, IntArray, State
from audit.statistics.paired_difference import PairedDifference, paired_difference
from audit.statistics.values import to_values
from audit.verdict.indicator import Indicator

MAX_QUESTIONS = 300  # on the page
_NOT_OF_ANSWERS = {"references", "control"}  # they belong to a figure; what a question was answered hangs on neither
_STATES = {State.CORRECT: "right", State.WRONG: "wrong", State.UNPARSED: "not read", State.TRUNCATED: "cut off",
           State.ERROR: "no reply", State.ABSENT: "not asked"}  # fmt: skip


@dataclass(frozen=True)
class SettingChange:
    """One setting in both runs. adjusted: p after Holm over all settings that are compared. None: nothing answered."""

    setting: Setting
    found: PairedDifference | None
    adjusted: float | None


@dataclass(frozen=True)
class QuestionChange:
    """A question whose outcome differs under some setting: (setting, before, after) of each, as words."""

    question_id: str
    text: str
    gold: str
    moves: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class CellChange:
    """One model and benchmark. before, after: the registered cells (several where contexts are judged apart).

    figures: (name, context, before, after). questions: the first MAX_QUESTIONS that changed, of `changed` in all.
    """

    audit: str
    before: tuple[Cell, ...]
    after: tuple[Cell, ...]
    settings: tuple[SettingChange, ...]
    figures: tuple[tuple[str, str, Indicator, Indicator], ...]
    changed: int
    questions: tuple[QuestionChange, ...]


def compare_runs(
    before: Path,
    after: Path,
    models: Sequence[tuple[str, str]] = (),
    benchmarks: Sequence[str] = (),
    *,
    seed: int = 42,
) -> tuple[CellChange, ...]:
    """What changed from one run, panel or suite to the other; Holm is over all of it.

    models: (name before, name after), where the names differ. benchmarks: those to compare, where one run has others.
    Raises ConfigError where the two cannot be compared, with what differs; also for a run that is not finished.
    """
    rng = np.random.default_rng(seed)
    changes = [
        change
        for one, other in _run_pairs(before, after)
        for change in _changes_of(one, other, models, benchmarks, rng)
    ]
    pvalues = [np.nan if s.found is None else s.found.pvalue for c in changes for s in c.settings]
    adjusted = iter(holm(pvalues).tolist())
    return tuple(
        replace(c, settings=tuple(replace(s, adjusted=_number(next(adjusted))) for s in c.settings)) for c in changes
    )


def _run_pairs(before: Path, after: Path) -> list[tuple[Path, Path]]:
    """The runs to compare: the two, or of two suites or panels those of the same name."""
    old, new = panel_runs(before), panel_runs(after)
    if old is None and new is None:
        return [(before, after)]
    named = [{run.resolve().name: run for run in runs or ()} for runs in (old, new)]
    if set(named[0]) != set(named[1]):
        raise ConfigError(
            f"{before} is of {_listed(named[0]) if old else 'one run'}, {after} of "
            f"{_listed(named[1]) if new else 'one run'}. Expected two suites or panels of runs of the same names; or "
            "compare two of the runs."
        )
    return [(named[0][name], named[1][name]) for name in named[0]]


def _changes_of(
    before: Path,
    after: Path,
    models: Sequence[tuple[str, str]],
    benchmarks: Sequence[str],
    rng: np.random.Generator,
) -> list[CellChange]:
    first, second = read_entry(before), read_entry(after)
    pairs = list(models) or _model_pairs(first, second)
    matched = []
    for one, other in pairs:
        a, b = _cells_of(first, one), _cells_of(second, other)
        shared = sorted(set(a) & set(b))
        if not set(shared).issuperset(benchmarks) or not shared:
            raise ConfigError(
                f"{one} was asked {_listed(a)}, {other} {_listed(b)}. Expected a benchmark that both were asked."
            )
        if set(a) != set(b) and not benchmarks:  # as with models: what one run lost is not left out in silence
            raise ConfigError(
                f"{one} was asked {_listed(a)}, {other} {_listed(b)}. Name the benchmarks to compare: "
                f"{' '.join(f'--benchmarks {name}' for name in shared)}"
            )
        matched += [(a[name], b[name]) for name in (sorted(set(benchmarks)) or shared)]
    check_comparable(matched)
    outcomes = [_outcomes(path) for path in (before, after)]
    return [_change(first.audit, a, b, outcomes, (before, after), rng) for a, b in matched]


def check_comparable(matched: Sequence[tuple[Sequence[Cell], Sequence[Cell]]]) -> None:
    """ConfigError that names all that differs and must not."""
    odd = []
    for a, b in matched:
        for name in NAMES:
            old, new = a[0].comparable[name], b[0].comparable[name]
            if name not in _NOT_OF_ANSWERS and old != new:
                odd.append(f"{a[0].benchmark}: {NAMES[name]} ({_short(old)} before, {_short(new)} after)")
    if odd:
        raise ConfigError(
            f"The two runs cannot be compared, question by question, because these differ: {'; '.join(odd)}. "
            "Expected two runs that differ in the model's version or the suite's thresholds alone."
        )


def page(changes: Sequence[CellChange], before: Path, after: Path) -> str:
    """The comparison as a page that stands alone."""
    css = (files("audit.report") / "page.css").read_text(encoding="utf-8")
    template = environment().from_string((files("audit.registry") / "comparison.html.j2").read_text(encoding="utf-8"))
    return template.render(
        policy=policy("", css), css=css, changes=changes, before=before, after=after, name=setting_name, pairs=verdicts
    )


def setting_name(setting: Setting) -> str:
    """Such as "noisy_rewrite 3" or "original, replicate 1"."""
    level = f" {setting.level}" if setting.level else ""
    return f"{setting.arm}{level}" + (f", replicate {setting.replicate}" if setting.replicate else "")


def verdicts(change: CellChange) -> list[tuple[Cell, Cell]]:
    """The cells that are judged in both, context by context."""
    return [(x, y) for x in change.before for y in change.after if x.context == y.context]


def _change(
    audit: str, a: Sequence[Cell], b: Sequence[Cell], outcomes: Sequence[dict[tuple[str, str], CellOutcomes]],
    paths: tuple[Path, Path], rng: np.random.Generator,
) -> CellChange:  # fmt: skip
    key = [(cell[0].model, cell[0].benchmark) for cell in (a, b)]
    one, other = outcomes[0][key[0]], outcomes[1][key[1]]
    if one.question_ids != other.question_ids or one.settings != other.settings:
        raise DataError(f"{key[0][0]} on {key[0][1]}: the shards of the two runs hold other questions or settings.")
    settings = tuple(SettingChange(s, _paired(one.row(s), other.row(s), one.cluster, rng), None) for s in one.settings)
    moved = np.flatnonzero((one.state != other.state).any(axis=0))
    order = sorted(moved.tolist(), key=lambda i: (-int((one.state[:, i] != other.state[:, i]).sum()), i))
    shown = order[:MAX_QUESTIONS]
    texts = _texts(paths[0], key[0], [one.question_ids[i] for i in shown])
    questions = tuple(
        QuestionChange(
            one.question_ids[i],
            *texts.get(one.question_ids[i], ("", "")),
            tuple(
                (setting_name(s), _STATES[State(x)], _STATES[State(y)])
                for s, x, y in zip(one.settings, one.state[:, i], other.state[:, i], strict=True)
                if x != y
            ),
        )
        for i in shown
    )
    figures = tuple(
        (f.name, x.context, f, g)
        for x in a
        for y in b
        if x.context == y.context
        for f in x.indicators
        for g in y.indicators
        if f.name == g.name
        and x.comparable["references"] == y.comparable["references"]
        and x.comparable["control"] == y.comparable["control"]
    )
    return CellChange(audit, tuple(a), tuple(b), settings, figures, len(moved), questions)


def _paired(before: Any, after: Any, cluster: IntArray, rng: np.random.Generator) -> PairedDifference | None:
    x, y = to_values(before), to_values(after)
    if np.isnan(x + y).all():
        return None
    return paired_difference(x, y, cluster, rng=rng)


def _outcomes(run_dir: Path) -> dict[tuple[str, str], CellOutcomes]:
    return {(cell.model, cell.benchmark): cell for cell in load_cells(run_dir, audit_of(run_dir).schema)}


def _texts(run_dir: Path, key: tuple[str, str], ids: Sequence[str]) -> dict[str, tuple[str, str]]:
    """(question, right answer) by id, of those whose outcome changed."""
    wanted = (
        pc.field("question_id").isin(pa.array(ids, pa.string()))
        & (pc.field("model") == key[0])
        & (pc.field("benchmark") == key[1])
    )
    columns = ["question_id", "question", "options", "gold", "target"]
    table = open_dataset(run_dir, audit_of(run_dir).schema).to_table(columns=columns, filter=wanted)
    found: dict[str, tuple[str, str]] = {}
    for row in table.to_pylist():
        gold = row["gold"]
        right = row["options"][gold] if row["options"] and gold is not None and gold >= 0 else row["target"]
        found.setdefault(row["question_id"], (row["question"] or "", "" if right is None else str(right)))
    return found


def _cells_of(entry: Entry, model: str) -> dict[str, list[Cell]]:
    found: dict[str, list[Cell]] = {}
    for cell in entry.cells:
        if cell.model == model:
            found.setdefault(cell.benchmark, []).append(cell)
    if not found:
        raise ConfigError(
            f"{entry.run_dir} judged no model {model!r}. It judged {_listed({c.model for c in entry.cells})}."
        )
    return found


def _model_pairs(first: Entry, second: Entry) -> list[tuple[str, str]]:
    old, new = (sorted({cell.model for cell in entry.cells}) for entry in (first, second))
    shared = sorted(set(old) & set(new))
    if shared and old != new:  # a model that one run lost is not left out in silence
        raise ConfigError(
            f"The runs judged {_listed(old)} and {_listed(new)}. Name the models to compare: "
            f"{' '.join(f'--models {name}={name}' for name in shared)}"
        )
    if shared:
        return [(name, name) for name in shared]
    if len(old) == len(new) == 1:
        return [(old[0], new[0])]
    raise ConfigError(
        f"The runs judged {_listed(old)} and {_listed(new)}. Say which became which: --models {old[0]}={new[0]}"
    )


def _listed(names: Any) -> str:
    return ", ".join(sorted(names)) or "nothing"


def _short(value: str) -> str:
    return value[:24] or "none"


def _number(value: float) -> float | None:
    return None if np.isnan(value) else value
