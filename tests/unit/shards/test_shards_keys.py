from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from outcome_tables import Outcome, OutcomeKey, digests_of_keys, outcomes_to_table
from shard_rows import row

from audit.records import Setting
from audit.shards.keys import KeySet, digest_grid, digests_of_table
from audit.sweep.audit import SCHEMA
from audit.sweep.design import Arm

KEYS = st.builds(
    OutcomeKey, st.text(max_size=3), st.text(max_size=3), st.text(max_size=3), st.sampled_from(Arm), st.integers(0, 9),
    st.integers(0, 3),
)  # fmt: skip
# Few values, so that equal halves (the ties a 64-bit coincidence would make) are common.
DIGESTS = arrays(np.uint64, st.tuples(st.integers(0, 30), st.just(2)), elements=st.integers(0, 3))


@given(st.sets(KEYS, max_size=30))
def test_different_keys_have_different_digests(keys: set[OutcomeKey]) -> None:
    assert len({d.tobytes() for d in digests_of_keys(keys)}) == len(keys)


def test_shifting_text_between_columns_changes_the_digest() -> None:
    one, two = OutcomeKey("ab", "c", "d", Arm.DIRECT, 1, 0), OutcomeKey("a", "bc", "d", Arm.DIRECT, 1, 0)
    swapped = OutcomeKey("ab", "c", "d", Arm.DIRECT, 0, 1)
    assert len({d.tobytes() for d in digests_of_keys([one, two, swapped])}) == 3


def test_digests_do_not_change_between_versions() -> None:
    """Shard names of runs on disk depend on them."""
    (one,) = digests_of_keys([OutcomeKey("m", "b", "q0", Arm.NOISY_REWRITE, 3, 0)])
    assert one.tobytes().hex() == "c0f2dd2450da7c16379005f30c7dafcb"


def test_all_builders_agree() -> None:
    settings = [Setting(Arm.DIRECT, 0), Setting(Arm.FORWARD_FULL, 1, 2), Setting(Arm.NOISY_REWRITE, 9)]
    ids = ["q0", "q\ud800", "Ω"]
    keys = [OutcomeKey("m", "b", q, s.arm, s.level, s.replicate) for q in ids for s in settings]
    rows = [_with_key(k) for k in keys]
    expected = digests_of_keys(keys)
    assert np.array_equal(expected, digest_grid("m", "b", ids, settings).reshape(-1, 2))
    assert np.array_equal(expected, digests_of_table(outcomes_to_table(rows), SCHEMA))


def _with_key(key: OutcomeKey) -> Outcome:
    return replace(
        row(), model=key.model, benchmark=key.benchmark, question_id=key.question_id, arm=key.arm, routers=key.level,
        replicate=key.replicate,
    )  # fmt: skip


@given(DIGESTS, DIGESTS)
def test_key_set_is_a_set(members: np.ndarray, asked: np.ndarray) -> None:
    plain = {tuple(pair) for pair in members.tolist()}
    keys = KeySet.of(members)
    assert len(keys) == len(plain)
    assert [tuple(pair) for pair in keys.digests().tolist()] == sorted(plain)
    assert keys.contains(asked).tolist() == [tuple(pair) in plain for pair in asked.tolist()]
    assert keys.common(KeySet.of(asked)) == len(plain & {tuple(pair) for pair in asked.tolist()})


def test_key_set_answers_for_grids() -> None:
    keys = [OutcomeKey("m", "b", f"q{i}", Arm.DIRECT, 0, 0) for i in range(5)]
    some = KeySet.of(digests_of_keys(keys[:3]))
    assert some.contains(digests_of_keys(keys).reshape(5, 1, 2)).tolist() == [[True]] * 3 + [[False]] * 2
