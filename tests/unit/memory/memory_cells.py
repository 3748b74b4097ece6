"""Cells for the tests of the memory audit, out of its own simulation, with every row read."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from audit.core.records import CellRows
from audit.judge.record import Settings
from audit.judging.world import World
from audit.memory.analyse import RunVerdict, analyse
from audit.memory.design import MemoryThresholds
from audit.memory.gates import readable
from audit.memory.record import TOKEN_SCORES, MemoryCell, ModelSet, Reads
from audit.memory.vocabulary import MemoryResult
from audit.memory.worlds import MemoryDesign, simulate

LIMITS = MemoryThresholds()
READS = {arm: Reads(100, 100, 0) for arm in ("score", "published", "options", "order")}


def cell(n=300, fresh=200, references=3, seed=1, **world) -> MemoryCell:
    made = simulate(MemoryDesign(n, fresh, references), World(**world), np.random.default_rng(seed))
    return replace(
        made,
        published=replace(made.published, name="exam"),
        fresh=made.fresh and replace(made.fresh, name="new_items"),
        tested=(_whole(made.tested[0]), made.tested[1] and _whole(made.tested[1])),
        references=tuple((_whole(a), b and _whole(b)) for a, b in made.references),
    )


def _whole(side: ModelSet) -> ModelSet:
    k = int(side.model.removeprefix("model "))
    name = f"{chr(ord('q') + k)}{k}" if k else "m"  # r1, s2, t3: references of several families
    tokens = dict.fromkeys(TOKEN_SCORES, side.texts["item"])
    return replace(
        side, model=name, reads=READS, tokens=tokens, ranks=np.full(side.score.size, 0.4)
    )


def changed(made: MemoryCell, *changes: dict) -> MemoryCell:
    """With these fields of the tested model on the benchmark, and on the held-out items."""
    sides = (*changes, *[{}] * (2 - len(changes)))
    return replace(
        made,
        tested=tuple(x and replace(x, **more) for x, more in zip(made.tested, sides, strict=True)),
    )


def bare(made: MemoryCell, *, references: bool = False) -> MemoryCell:
    """Without held-out items, and without references unless asked for."""
    others = tuple((a, None) for a, _ in made.references) if references else ()
    return replace(made, fresh=None, tested=(made.tested[0], None), references=others)


def judged(
    *cells: MemoryCell, seed: int = 3, n_resamples: int = 999, **limits
) -> Sequence[MemoryResult]:
    chosen = replace(LIMITS, **limits)
    return analyse([readable(cell, chosen) for cell in cells], Settings(chosen, seed, n_resamples))


def run_of(*cells: MemoryCell, n: int = 100) -> RunVerdict:
    """The verdict of a run of these cells. n: rows, of 100."""
    return RunVerdict(
        seed=3,
        n_resamples=999,
        thresholds=LIMITS.to_dict(),
        cells=cells,
        results=judged(*cells),
        orders={"seed": 3, "shard_items": 5, "orders": 10, "option_orders": 5},
        runs=({"models": []},),
        rows=(CellRows("m", "exam", n, 100),),
    )
