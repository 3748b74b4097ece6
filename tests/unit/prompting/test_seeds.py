"""Seeds: the same for the same request anywhere, different where the draw must differ."""

import subprocess
import sys
from itertools import product
from typing import Any

from audit.prompting.prompts import request_seed

BASE: dict[str, Any] = {
    "run_seed": 42,
    "model": "m",
    "benchmark": "b",
    "question_id": "q1",
    "arm": "noisy_rewrite",
    "level": 3,
    "replicate": 0,
    "role": "router",
    "index": 1,
    "kind": "independent",
}


def seed(**changes: Any) -> int:
    return request_seed(**{**BASE, **changes})


def test_every_part_of_the_key_matters() -> None:
    changes: list[dict[str, Any]] = [
        {"run_seed": 43}, {"model": "m2"}, {"benchmark": "b2"}, {"question_id": "q2"}, {"arm": "forward_full"},
        {"level": 4}, {"replicate": 1}, {"role": "worker"}, {"kind": "nested"}, {"index": 2},
    ]  # fmt: skip
    assert {key for change in changes for key in change} == set(BASE)
    seeds = [seed(), *(seed(**change) for change in changes)]
    assert len(set(seeds)) == len(seeds)


def test_a_design_of_one_kind_has_no_kind_in_its_seeds() -> None:
    assert seed(kind="") != seed()


def test_replicates_differ() -> None:
    assert len({seed(arm="original", level=0, replicate=k) for k in range(20)}) == 20


def test_fields_do_not_run_together() -> None:
    assert seed(model="ab", benchmark="c") != seed(model="a", benchmark="bc")
    assert seed(question_id="1", level=23) != seed(question_id="12", level=3)


def test_the_values_are_fixed_and_fit_31_bits() -> None:
    grid = [seed(question_id=f"q{i}", index=j) for i, j in product(range(1000), range(9))]
    assert all(0 <= s < 2**31 for s in grid)
    assert max(grid) > 2**30
    # 9,000 draws from 2**31: 0.02 equal pairs are expected, and the values never change.
    assert len(set(grid)) == 9000


def test_another_process_with_another_hash_seed_gives_the_same() -> None:
    code = (
        "from audit.prompting.prompts import request_seed;"
        "print(request_seed(run_seed=42, model='m', benchmark='b', question_id='q1', arm='noisy_rewrite', level=3,"
        " replicate=0, role='router', kind='independent', index=1))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "7"}
    )
    assert int(done.stdout) == seed() == 1350391846
