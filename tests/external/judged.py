"""Outcomes of many models as cells of the memory audit, judged as a panel; rates with exact
intervals."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import scipy

from audit.core.package_data import shipped_table
from audit.core.records import Item
from audit.judge.record import Settings
from audit.memory.analyse import JUDGE, analyse
from audit.memory.cells import Answers, score_cells
from audit.memory.design import MemoryThresholds
from audit.memory.evidence import Name
from audit.memory.gates import readable
from audit.memory.vocabulary import MemoryResult

FOUND = "gap_to_fresh_items"
ALPHA = 0.05


@dataclass(frozen=True)
class Set:
    """Items of one set: scores {model: (n,)} 0 to 1, NaN where an answer could not be read; options
    (n,), 0: free."""

    scores: Mapping[str, np.ndarray]
    options: np.ndarray
    stratum: np.ndarray | None = None
    name: str = "held-out items"


@dataclass
class Tally:
    """Verdicts counted; the models for which a gap was reported, with how often; and those for
    which the gap's p was at most .05 before the correction."""

    verdicts: Counter[str] = field(default_factory=Counter)
    gaps: Counter[str] = field(default_factory=Counter)
    alone: Counter[str] = field(default_factory=Counter)

    def add(self, results: Sequence[MemoryResult]) -> None:
        self.verdicts.update(str(result.decision.verdict) for result in results)
        self.gaps.update(result.model for result in results if result.decision.verdict == FOUND)
        for result in results:
            pvalue = result.evidence.indicator(Name.GAP).pvalue if result.evidence else None
            self.alone.update([result.model] * (pvalue is not None and pvalue <= ALPHA))


def panel(
    published: Set, held_out: Set, references: Mapping[str, Sequence[str]], seed: int = 0
) -> tuple[MemoryResult, ...]:
    """references: {judged model: its references}. Holm's correction is over all of them, as in a
    run."""
    sets = {"published": published, "held_out": held_out}
    names = {*references, *(name for chosen in references.values() for name in chosen)}
    settings = Settings(MemoryThresholds(), seed, 999, shipped_table(JUDGE.shipped))
    cells = score_cells(items_of(sets), answers_of(sets, names), references, seed)
    untexted = [
        replace(cell, kind=None) for cell in cells
    ]  # the options are invented: their words tell nothing
    return analyse([readable(cell, settings.thresholds) for cell in untexted], settings)


def items_of(sets: Mapping[str, Set]) -> dict[str, list[Item]]:
    """Return items without words, by set."""
    return {
        name: [_item(name, k, int(of)) for k, of in enumerate(record.options)]
        for name, record in sets.items()
    }


def answers_of(sets: Mapping[str, Set], models: Iterable[str]) -> Answers:
    """Return the scores by model and set, an item each."""
    return {
        (model, name): _answers(name, record.scores[model])
        for model in models
        for name, record in sets.items()
    }


def _item(name: str, k: int, options: int) -> Item:
    return Item(
        f"{name}{k}", name, "", tuple(map(str, range(options))), 0 if options else -1, f"{name}{k}"
    )


def _answers(name: str, scores: np.ndarray) -> dict[str, list[float | None]]:
    return {f"{name}{k}": [None if np.isnan(x) else float(x)] for k, x in enumerate(scores)}


def rate(k: int, n: int) -> str:
    """k of n with the exact 95 % interval (Clopper-Pearson)."""
    interval = scipy.stats.binomtest(k, n).proportion_ci(0.95)
    return f"{k} of {n} ({100 * k / n:.1f} % [{100 * interval.low:.1f}, {100 * interval.high:.1f}])"
