"""Scripted models of known behaviour on items that are made here, as the cells that the analysis
starts from.

No engine: a model is a function of (item, edit, level) that gives a canonical response, or None
where it says nothing that can be read. Options are shown lettered and turned by the third format
edit, as `edits.surface.option_order` does."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from audit.statistics.contracts import UNREAD
from audit.validity.edits.record import Family
from audit.validity.record import Block, Cell

OPTIONS = 3
LEVELS = {Family.FORMAT: 3, Family.SEMANTIC: 3, Family.ATTRIBUTE: 2, Family.PLACEBO: 1}
SCORER = {
    "name": "made",
    "reference_of": "made for these tests",
    "evidence": ("made",),
    "validated": True,
    "lettered": True,
    "self_test": {"passed": True, "faults": []},
}


@dataclass(frozen=True)
class Trial:
    """What a model sees: the key under the edit, the order shown, and which edit it is."""

    item: int
    family: Family | None
    level: int
    key: int
    order: tuple[int, ...]
    replay: int = 0


Model = Callable[[Trial], int | None]


def cell(
    model: Model, n: int = 120, *, directional: bool = True, validated: bool = True, seed: int = 0
) -> Cell:
    """n items with three options each, gold balanced over options and positions."""
    rng = np.random.default_rng(seed)
    keys = np.arange(n) % OPTIONS
    orders = [tuple(rng.permutation(OPTIONS).tolist()) for _ in range(n)]
    original = _block(
        [[Trial(i, None, 0, int(keys[i]), orders[i], k) for i in range(n)] for k in range(2)], model
    )
    families = {}
    for family, levels in LEVELS.items():
        moves, rows = directional and family == Family.ATTRIBUTE, []
        for level in range(1, levels + 1):
            turned = int(family == Family.FORMAT and level == 3)
            rows.append(
                [
                    Trial(
                        i,
                        family,
                        level,
                        int(keys[i] + level * moves) % OPTIONS,
                        (*order[turned:], *order[:turned]),
                    )
                    for i, order in enumerate(orders)
                ]
            )
        families[family] = _block(rows, model, directional=moves, name=family)
    return Cell(
        model="made",
        benchmark="made",
        context="",
        question_ids=tuple(f"made/{i:03d}" for i in range(n)),
        cluster=np.arange(n),
        chance=np.full(n, 1 / OPTIONS),
        original=original,
        families=families,
        wanted=3,
        key_position=np.array([o.index(k) for o, k in zip(orders, keys, strict=True)]),
        scorer={**SCORER, "validated": validated},
        applicable=dict.fromkeys(Family, 1.0),
        shortcuts={
            "always the first shown": np.array(
                [float(o[0] == k) for o, k in zip(orders, keys, strict=True)]
            )
        },
    )


def changed(base: Cell, family: Family, **fields: np.ndarray) -> Cell:
    """The cell with other values in the block of this family."""
    return replace(
        base, families={**base.families, family: replace(base.families[family], **fields)}
    )


def unread(base: Cell, items: Any, *families: Family, why: str = "") -> Cell:
    """The cell without the answers to these items under the edits of the families; of none:
    everywhere."""

    def without(block: Block) -> Block:
        lost = np.isin(np.arange(base.n), np.arange(base.n)[items])
        return replace(
            block,
            response=np.where(lost, UNREAD, block.response),
            why=np.where(lost, why, block.why),
        )

    blocks = {
        f: without(b) if f in families or not families else b for f, b in base.families.items()
    }
    return replace(
        base, families=blocks, original=base.original if families else without(base.original)
    )


def _block(
    rows: list[list[Trial]], model: Model, *, directional: bool = False, name: str = ""
) -> Block:
    shape = (len(rows), len(rows[0]))
    response = np.full(shape, UNREAD, dtype=np.int64)
    key = response.copy()
    names, why = np.full(shape, "", dtype=object), np.full(shape, "", dtype=object)
    for i, row in enumerate(rows):
        for j, trial in enumerate(row):
            reply = model(trial)
            key[i, j] = trial.key
            names[i, j] = f"{name}_{trial.level}" if name else ""
            if reply is None:
                why[i, j] = "no answer"
            else:
                response[i, j] = reply
    return Block(
        name=names,
        requested=np.ones(shape, dtype=bool),
        same=np.zeros(shape, dtype=bool),
        directional=np.full(shape, directional),
        response=response,
        key=key,
        why=why,
    )


def _unit(*parts: object) -> float:
    """A number in [0, 1) from what it is of."""
    return zlib.crc32(repr(parts).encode()) / 2**32


def knows(trial: Trial, share: float = 0.9) -> int:
    """Right on `share` of what it is asked, the same in every wording of an item and of its edited
    twin."""
    construct = (trial.item, trial.key)
    return trial.key if _unit("knows", construct) < share else (trial.key + 1) % OPTIONS


def follower(trial: Trial) -> int | None:
    """Follows the contract: answers by the key of what it is asked, right nine times of ten."""
    return knows(trial)


def shaky(trial: Trial) -> int | None:
    """A follower that one surface edit in twenty-five upsets."""
    upset = (
        trial.family in (Family.FORMAT, Family.SEMANTIC)
        and _unit(trial.item, trial.family, trial.level) < 0.04
    )
    return (knows(trial) + 1) % OPTIONS if upset else knows(trial)


def ignores_input(trial: Trial) -> int | None:
    """Always the same response, whatever is asked."""
    return 1


def first_option(trial: Trial) -> int | None:
    """Always the option shown first."""
    return trial.order[0]


def falls_silent(trial: Trial) -> int | None:
    """Follows the contract, and cannot be read on half the items under the first format edit."""
    silent = trial.family == Family.FORMAT and trial.level == 1 and trial.item % 2 == 0
    return None if silent else knows(trial)


def positional(trial: Trial) -> int | None:
    """Knows two thirds; otherwise the option shown first."""
    return trial.key if _unit("bias", trial.item) < 0.67 else trial.order[0]


def surface_driven(trial: Trial) -> int | None:
    """Answers the original question by heart: edits of the construct change nothing, other words
    change much."""
    key = trial.item % OPTIONS
    surface = trial.family in (Family.FORMAT, Family.SEMANTIC)
    if surface and _unit("surface", trial.item, trial.family, trial.level) < 0.3:
        return (key + 1) % OPTIONS
    return key


def contrary(trial: Trial) -> int | None:
    """Moves under every attribute edit, and always to an option that is not the key."""
    key = trial.item % OPTIONS
    if trial.family != Family.ATTRIBUTE:
        return key
    return next(o for o in range(OPTIONS) if o not in (key, trial.key))


def prejudiced(trial: Trial) -> int | None:
    """Reacts to the attribute where nothing should move."""
    return knows(trial) if trial.family != Family.ATTRIBUTE else (knows(trial) + 1) % OPTIONS


def restless(trial: Trial) -> int | None:
    """Right half the time, at random at each request, so that nothing repeats."""
    u = _unit("restless", trial)
    return trial.key if u < 0.6 else int(u * 1e6) % OPTIONS
