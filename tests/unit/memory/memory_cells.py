"""Cells for the tests of the memory audit, out of its own simulation, with every row read."""

from dataclasses import replace

import numpy as np

from audit.memory.calibrate import MemoryDesign, World, simulate
from audit.memory.record import TOKEN_SCORES, MemoryCell, ModelSet, Reads

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


def _whole(one: ModelSet) -> ModelSet:
    k = int(one.model.removeprefix("model "))
    name = f"{chr(ord('q') + k)}{k}" if k else "m"  # r1, s2, t3: references of several families
    tokens = dict.fromkeys(TOKEN_SCORES, one.texts["item"])
    return replace(one, model=name, reads=READS, tokens=tokens, ranks=np.full(one.score.size, 0.4))
