"""Cells for the tests of the perturbation audit, out of its own simulation."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from audit.core.records import CellRows
from audit.judge.record import Settings
from audit.judging.world import World
from audit.perturb.analyse import RunVerdict, analyse
from audit.perturb.design import PerturbThresholds
from audit.perturb.record import PerturbCell, Wordings
from audit.perturb.worlds import PerturbDesign, simulate
from audit.shards.keys import RequestCounts
from audit.variants.arrow import find_library, write_library
from audit.variants.record import Library, State


def cell(
    n=600, variants=3, references=5, seed=1, checked=300, replicates=2, control=0, **world
) -> PerturbCell:
    """A simulated cell whose tested model answered its originals `replicates` times alike, and all
    variants reached."""
    made = simulate(
        PerturbDesign(n, variants, references, checked, control=control),
        World(**world),
        np.random.default_rng(seed),
    )
    original = made.tested.original
    if replicates == 2:
        repeat = original.copy()
        flipped = np.random.default_rng(seed).choice(n, n // 20, replace=False)
        repeat[0, flipped] = 1 - repeat[0, flipped]
        # as many changes to right as to wrong would need luck: take back what tips the balance
        original = np.concatenate(
            [original, np.where(np.cumsum(repeat - original)[None] == 0, repeat, original)]
        )
    tested = Wordings("m", original, made.tested.variants)
    # of as many families: references that are all of one other than the tested model's are not
    # compared with
    others = tuple(
        replace(w, model=f"{chr(97 + k) * 2} {k + 1}") for k, w in enumerate(made.references)
    )
    return replace(
        made,
        benchmark="b",
        tested=tested,
        references=others,
        requests=RequestCounts(n * variants, 0),
    )


LIMITS = PerturbThresholds()


def result(c: PerturbCell, limits: PerturbThresholds = LIMITS):
    """What is said of one cell."""
    return analyse([c], Settings(limits, 1, 400))[0]


def codes(reasons) -> dict:
    """Numbers by code."""
    return {reason.code: reason.numbers for reason in reasons}


def with_answers(base: PerturbCell, original=None, variants=None, mask=None) -> PerturbCell:
    w = base.tested
    new = Wordings(
        w.model,
        w.original if original is None else original,
        w.variants if variants is None else variants,
        mask,
    )
    return replace(base, tested=new)


LIBRARY = {
    "name": "l",
    "sha256": "a" * 64,
    "benchmark": "b",
    "strategy": "file",
    "window": (0.15, 0.45),
    "review": None,
    "candidates": {"accepted": 600},
}


def judged(*cells: PerturbCell, table=None) -> RunVerdict:
    """The verdict of these cells, or of one; table: of the calibration."""
    cells, thresholds = cells or (cell(n=200, references=0),), PerturbThresholds()
    return RunVerdict(
        seed=1,
        n_resamples=200,
        thresholds=thresholds.to_dict(),
        library=LIBRARY,
        control_library=LIBRARY,
        runs=({"models": []},),
        rows=(CellRows("m", "b", 10, 10),),
        cells=cells,
        results=analyse(cells, Settings(thresholds, 1, 200, table)),
    )


def thinned(keep: int, path: Path, every: int = 1) -> Path:
    """The shipped library with `keep` accepted variants for every `every`-th question, all for the
    others."""
    library = find_library("elementary")
    ids = sorted({v.question_id for v in library.variants})[::every]
    variants = [
        v if v.number <= keep or v.question_id not in ids else replace(v, state=State.TOO_FAR)
        for v in library.variants
    ]
    return write_library(Library(library.header, tuple(variants)), path)
