"""Seeds: the same for the same request anywhere, different where the draw must differ."""

from __future__ import annotations

import subprocess
import sys
from itertools import product
from typing import Any

from audit.prompting.seeds import request_seed
from audit.records import Arm, Draws, Role

BASE: dict[str, Any] = {
    "run_seed": 42,
    "model": "m",
    "benchmark": "b",
    "question_id": "q1",
    "arm": Arm.NOISY_REWRITE,
    "routers": 3,
    "replicate": 0,
    "role": Role.ROUTER,
    "draws": Draws.INDEPENDENT,
    "message_index": 1,
}


def seed(**changes: Any) -> int:
    return request_seed(**{**BASE, **changes})


def test_every_part_of_the_key_matters() -> None:
    changes: list[dict[str, Any]] = [
        {"run_seed": 43}, {"model": "m2"}, {"benchmark": "b2"}, {"question_id": "q2"}, {"arm": Arm.FORWARD_FULL},
        {"routers": 4}, {"replicate": 1}, {"role": Role.WORKER}, {"draws": Draws.NESTED}, {"message_index": 2},
    ]  # fmt: skip
    assert {key for change in changes for key in change} == set(BASE)
    seeds = [seed(), *(seed(**change) for change in changes)]
    assert len(set(seeds)) == len(seeds)


def test_nested_messages_do_not_depend_on_r_and_independent_ones_do() -> None:
    assert len({seed(draws=Draws.NESTED, routers=r) for r in range(2, 10)}) == 1
    assert len({seed(draws=Draws.INDEPENDENT, routers=r) for r in range(2, 10)}) == 8
    assert len({seed(draws=Draws.NESTED, role=Role.WORKER, message_index=0, routers=r) for r in range(1, 10)}) == 9


def test_clean_replicates_differ_under_both_draws() -> None:
    for draws in Draws:
        clean = [seed(arm=Arm.FORWARD_FULL, routers=1, message_index=0, replicate=k, draws=draws) for k in range(20)]
        assert len(set(clean)) == 20


def test_fields_do_not_run_together() -> None:
    assert seed(model="ab", benchmark="c") != seed(model="a", benchmark="bc")
    assert seed(question_id="1", routers=23) != seed(question_id="12", routers=3)


def test_the_values_are_fixed_and_fit_31_bits() -> None:
    grid = [seed(question_id=f"q{i}", message_index=j) for i, j in product(range(1000), range(9))]
    assert all(0 <= s < 2**31 for s in grid)
    assert max(grid) > 2**30
    # 9,000 draws from 2**31: 0.02 equal pairs are expected, and the values never change.
    assert len(set(grid)) == 9000


def test_another_process_with_another_hash_seed_gives_the_same() -> None:
    code = (
        "from audit.prompting.seeds import request_seed; from audit.records import *;"
        "print(request_seed(run_seed=42, model='m', benchmark='b', question_id='q1', arm=Arm.NOISY_REWRITE, routers=3,"
        " replicate=0, role=Role.ROUTER, draws=Draws.INDEPENDENT, message_index=1))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "7"}
    )
    assert int(done.stdout) == seed() == 1350391846
