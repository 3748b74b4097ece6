"""Batches of whole groups in random order, and looks over a run directory's shards."""

import numpy as np

from audit.runtime.early import batch_numbers


def test_batches_are_random_complete_and_repeatable():
    groups = [str(i) for i in range(95)]
    found = batch_numbers(groups, 20, np.random.default_rng(1))
    assert np.bincount(found).tolist() == [20, 20, 20, 20, 15]
    assert found.tolist() == batch_numbers(groups, 20, np.random.default_rng(1)).tolist()
    assert found.tolist() != batch_numbers(groups, 20, np.random.default_rng(2)).tolist()
    assert found.tolist() != sorted(found)  # not in the benchmark's order


def test_a_group_is_never_spread_over_two_batches():
    groups = ["large"] * 50 + [str(i) for i in range(50)]
    found = batch_numbers(groups, 10, np.random.default_rng(3))
    assert len(set(found[:50])) == 1
    assert sorted(set(found.tolist())) == list(range(max(found) + 1))  # no batch is empty
