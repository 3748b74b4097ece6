"""One world, whatever is asked of it: every audit sees the same memory, and every fact acts."""

from typing import Any

import numpy as np
import pytest

from audit.judging.world import World
from audit.memory import worlds as memory
from audit.perturb import worlds as perturb
from audit.suite import worlds as suite
from audit.sweep import simulation as sweep
from audit.sweep.design import Arm

N = 8_000
ACCURACY = 0.7  # of every design without memory
FORMS = {
    "answers": World(answers=0.5),
    "wording": World(wording=0.5),
    "both": World(answers=0.2, wording=0.5),
}
RIGHT = {  # a known item is right, of the others ACCURACY: as published, and in other words
    "answers": (0.85, 0.85),
    "wording": (0.85, 0.70),
    "both": (0.85, 0.76),
}


def _of_sweep(world: World) -> tuple[float, float]:
    design = sweep.Design(N, 1, reference=None)
    cell = sweep.simulate(design, world, np.random.default_rng(1)).cell
    arms = (Arm.FORWARD_FULL, Arm.NOISY_REWRITE)
    published, noisy = (np.mean([cell.row(s) for s in cell.settings_of(arm)]) for arm in arms)
    return float(published), float(noisy)


def _of_perturb(world: World) -> tuple[float, float]:
    cell = perturb.simulate(perturb.PerturbDesign(N, 2, 2), world, np.random.default_rng(2))
    for reference in cell.references:
        assert reference.original.mean() - reference.variants.mean() == pytest.approx(0, abs=0.02)
    return float(cell.tested.original.mean()), float(cell.tested.variants.mean())


def _of_memory(world: World) -> tuple[float, float]:
    design = memory.MemoryDesign(N, N, 2, score_alone=True)
    published, fresh = memory.simulate(design, world, np.random.default_rng(3)).tested
    assert fresh is not None and fresh.score.mean() == pytest.approx(ACCURACY, abs=0.03)
    return float(published.score.mean()), float("nan")  # nothing is asked in other words


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ask", [_of_sweep, _of_perturb, _of_memory])
def test_every_audit_meets_the_same_memory(ask: Any, form: str) -> None:
    """Half known: .5 + .5 x .7 = .85; a fifth known in any words: .2 + .8 x .7 = .76."""
    published, reworded = ask(FORMS[form])
    assert published == pytest.approx(RIGHT[form][0], abs=0.03)
    assert np.isnan(reworded) or reworded == pytest.approx(RIGHT[form][1], abs=0.03)


def test_what_was_read_is_likelier() -> None:
    design = memory.MemoryDesign(N, 0, 1)
    made = memory.simulate(design, World(text=0.3), np.random.default_rng(4)).tested[0]
    assert made.options[:, 0].mean() == pytest.approx(0.3 * memory.READ, abs=0.05)
    assert made.order[:, 0].mean() == pytest.approx(0, abs=0.1)  # only items were read


def test_the_smaller_share_lies_in_the_larger_one() -> None:
    known = World(answers=0.2, wording=0.5, text=0.3, group=10).known(
        1000, np.random.default_rng(5)
    )
    assert np.all(known.published[known.read]) and np.all(known.read[known.anyhow])
    assert set(known.published.reshape(-1, 10).sum(axis=1)) == {0, 10}


class _Recorded(World):
    """A world that notes which of its facts were read."""

    def __getattribute__(self, name: str) -> Any:
        object.__getattribute__(self, "__dict__").setdefault("read", set()).add(name)
        return object.__getattribute__(self, name)


CASES = [
    *((sweep.simulate, sweep.Design(200, 2, reference=None), w) for _, _, w in sweep.WORLDS),
    *(
        (perturb.simulate, perturb.PerturbDesign(200, 2, 3, control=100), w)
        for w in (*perturb.WORLDS.values(), *perturb.OTHERS.values())
    ),
    *(
        (perturb.simulate, perturb.PerturbDesign(200, 2, 3, control=100), w)
        for w in (*perturb.LIKE_MEMORY.values(), *perturb.CONTROL_WORLDS.values())
    ),
    *((memory.simulate, memory.MemoryDesign(200, 100, 3), w) for w in memory.WORLDS.values()),
    *((suite.simulate, suite.SuiteDesign(200, 100), w) for w in suite.WORLDS.values()),
]


def test_every_fact_of_a_shipped_world_is_read_by_the_audit_that_simulates_it() -> None:
    """A fact that an audit never reads would be a rate of a world that was not simulated.

    With no hint reference: `dataclasses.replace`, which makes the reference's world, reads all."""
    assert len(CASES) > 100
    for simulate, design, world in CASES:
        recorded = _Recorded(**world.facts())
        simulate(design, recorded, np.random.default_rng(6))
        unread = set(world.facts()) - vars(recorded)["read"]
        assert not unread, (simulate.__module__, world.facts())


def test_only_what_acts_is_stored() -> None:
    assert World().facts() == {}
    assert World(noisy_shock=0.03, grouped=False).facts() == {"noisy_shock": 0.03, "grouped": False}
    assert World(**World(others=(0.5, 0.7)).facts()) == World(others=(0.5, 0.7))
