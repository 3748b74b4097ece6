"""How often the construct-validity audit accuses or clears a scripted model wrongly, in worlds that
are not its null.

    PYTHONPATH=. python tests/golden/statistics/validity_worlds.py 200      # models a world; a panel counts as twelve

Evidence, Holm over the panel, gates and decision are the audit's own; G6 is taken as passed. Words:
nothing reacts to the content, and any words before an item move 10 % of the answers. Guessers: the
same request has the same answer, and any other request another guess about what is not known."""

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from audit.judging.result import Gate, Status
from audit.statistics.contracts import UNREAD
from audit.statistics.paired import IntArray
from audit.validity.analyse import over_panel
from audit.validity.decide import decide
from audit.validity.design import ValidityThresholds
from audit.validity.edits.record import Family
from audit.validity.evidence import measure
from audit.validity.gates import all_gates
from audit.validity.record import Block, Cell

LEVELS = {Family.FORMAT: 4, Family.SEMANTIC: 3, Family.ATTRIBUTE: 1, Family.PLACEBO: 1}
SCORER = {
    "name": "made",
    "reference_of": "made",
    "evidence": (),
    "validated": True,
    "lettered": False,
    "self_test": {"passed": True, "faults": []},
}
T = ValidityThresholds()
CAUGHT = Gate("G6_repair_regression", Status.PASS, 0.0, 0.0, "", "", "", True)
Rng = np.random.Generator


def block(response: IntArray, key: IntArray, directional: bool = False) -> Block:
    shape = response.shape
    name = np.repeat([[f"edit_{k}"] for k in range(shape[0])], shape[1], axis=1).astype(object)
    return Block(
        name=name,
        requested=np.ones(shape, dtype=bool),
        same=np.zeros(shape, dtype=bool),
        response=response,
        key=key,
        directional=np.full(shape, directional),
        why=np.where(response == UNREAD, "no answer", "").astype(object),
    )


def cell(before: IntArray, key: IntArray, families: dict[Family, Block], options: int) -> Cell:
    n = key.size
    return Cell(
        model="m",
        benchmark="made",
        context="",
        question_ids=tuple(f"i{k}" for k in range(n)),
        cluster=np.arange(n),
        chance=np.full(n, 1 / options),
        key_position=np.zeros(n, dtype=np.int64),
        original=block(np.stack([before, before]), np.stack([key, key])),
        families=families,
        wanted=3,
        scorer=SCORER,
        applicable=dict.fromkeys(Family, 1.0),
    )


def words(
    rng: Rng, n: int = 200, *, content: float = 0.1, placebo: float = 0.1, lost: int = 0
) -> Cell:
    """Nothing should move. lost: answers to the placebo that are unparsed, of those that moved."""
    key = np.arange(n) % 3
    before = np.where(rng.random(n) < 0.8, key, (key + 1) % 3)
    shares = {
        Family.FORMAT: 0.03,
        Family.SEMANTIC: 0.02,
        Family.ATTRIBUTE: content,
        Family.PLACEBO: placebo,
    }
    families = {}
    for family, levels in LEVELS.items():
        moved = rng.random((levels, n)) < shares[family]
        response = np.where(moved, (before + 1) % 3, before)
        if family == Family.PLACEBO:
            response[0, np.flatnonzero(moved[0])[:lost]] = UNREAD
        families[family] = block(response, np.broadcast_to(key, (levels, n)))
    return cell(before, key, families, 3)


def guesser(rng: Rng, n: int = 200, *, knows: float = 0.15, options: int = 3) -> Cell:
    """The key moves; what is known is followed."""
    key = np.arange(n) % options
    known = rng.random(n) < knows

    def answers(keys: IntArray) -> IntArray:
        return np.where(known, keys, rng.integers(0, options, keys.shape))

    families = {}
    for family, levels in LEVELS.items():
        moves = family == Family.ATTRIBUTE
        keys = np.broadcast_to((key + moves) % options, (levels, n))
        families[family] = block(answers(keys), keys, moves)
    return cell(answers(key), key, families, options)


def by_heart(rng: Rng, n: int = 200, surface: float = 0.2, content: float = 0.02) -> Cell:
    """The key moves, and the content moves fewer answers than the form does."""
    base = words(rng, n, content=content, placebo=0.02)
    key = (base.original.key[0] + 2) % 3
    families = dict(base.families)
    for family in (Family.FORMAT, Family.SEMANTIC):
        moved = rng.random((LEVELS[family], n)) < surface
        families[family] = block(
            np.where(moved, (base.before + 2) % 3, base.before), families[family].key
        )
    families[Family.ATTRIBUTE] = block(
        families[Family.ATTRIBUTE].response, key[None], directional=True
    )
    return replace(base, families=families)


def by_order(rng: Rng) -> Cell:
    """Nothing should move, and one format edit of three, such as the order of options, moves 30
    %."""
    base = words(rng, 400, content=0.12, placebo=0.02)
    form = base.families[Family.FORMAT]
    response = form.response.copy()
    response[2] = np.where(rng.random(base.n) < 0.3, (base.before + 1) % 3, response[2])
    return replace(
        base, families={**base.families, Family.FORMAT: replace(form, response=response)}
    )


WORLDS: dict[str, tuple[Callable[[Rng], Cell], int]] = {  # and models of a panel
    "clean: any words move 10 %": (words, 1),
    "clean: the same, twelve models": (words, 12),
    "clean: any words move 12 %, 8 of the placebo's moves unparsed": (
        lambda rng: words(rng, content=0.12, placebo=0.12, lost=8),
        1,
    ),
    "reacts: content 13 %, placebo 3 %": (lambda rng: words(rng, content=0.13, placebo=0.03), 1),
    "reacts: content 18 %, placebo 8 %": (lambda rng: words(rng, content=0.18, placebo=0.08), 1),
    "reacts: content 8 %, placebo 3 %, 400 items": (
        lambda rng: words(rng, 400, content=0.08, placebo=0.03),
        1,
    ),
    "reacts: content 12 %, placebo 2 %, 400 items, order of options 30 %": (by_order, 1),
    "follows: guesses 85 %, three options": (guesser, 1),
    "follows: guesses 70 %, five options": (lambda rng: guesser(rng, knows=0.3, options=5), 1),
    "by heart: form moves 20 %, content 2 %": (by_heart, 1),
    "by heart: form moves 30 %, content 15 %": (
        lambda rng: by_heart(rng, surface=0.3, content=0.15),
        1,
    ),
}


def statuses(cells: list[Cell]) -> list[str]:
    evidence = [
        measure(cell, margin=T.margin, rng=np.random.default_rng(0), n_resamples=2)
        for cell in cells
    ]
    decided = [
        decide(e, (*all_gates(cell, e, T), CAUGHT), T, *p)
        for cell, e, p in zip(cells, evidence, over_panel(evidence), strict=True)
    ]
    return [decision.verdict.value for decision in decided]


def main(models: int) -> None:
    for name, (make, panel) in WORLDS.items():
        rng = np.random.default_rng(42)
        runs = [statuses([make(rng) for _ in range(panel)]) for _ in range(max(1, models // panel))]
        seen = Counter(status for run in runs for status in set(run))
        print(
            f"{name:70}",
            {status: f"{100 * count / len(runs):.0f} %" for status, count in sorted(seen.items())},
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
