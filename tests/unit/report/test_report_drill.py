"""The packed drill-down: nothing lost, nothing escapes, the same questions kept everywhere."""

import base64
import json

import numpy as np
import panels
import pytest

from audit.sweep import drill as d
from audit.sweep.design import Arm


def _column(pack: d.DrillDown, name: str, kind: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(pack.head["columns"][name]), dtype=kind)


def _texts(pack: d.DrillDown) -> list[str]:
    return [text for chunk in pack.chunks for text in chunk]


def _bytes(pack: d.DrillDown) -> int:
    return sum(len(text.encode()) for text in _texts(pack))


def test_every_text_can_be_read_back() -> None:
    outcomes = panels.outcomes_of(2, 6)
    pack = panels.packed(outcomes, seed=1)
    texts = _texts(pack)
    assert len(texts) == len(set(texts))
    refs, offset = _column(pack, "refs", "<u4"), _column(pack, "offset", "<u4")
    count, question = _column(pack, "messages", "<u2"), _column(pack, "question", "<u4")
    model, arm = _column(pack, "model", "<u2"), _column(pack, "arm", "u1")
    routers, replicate = _column(pack, "routers", "<u2"), _column(pack, "replicate", "<u2")
    by_key = {o.key: o for o in outcomes}
    for i in range(pack.rows):
        q = pack.head["questions"][question[i]]
        row_texts = [texts[k] for k in refs[offset[i] : offset[i + 1]]]
        key = (
            pack.head["models"][model[i]],
            pack.head["benchmarks"][q[0]],
            q[1],
            Arm(d.ARMS[arm[i]]),
        )
        o = by_key.pop(type(outcomes[0].key)(*key, int(routers[i]), int(replicate[i])))
        assert tuple(row_texts[: count[i]]) == o.router_messages
        assert row_texts[count[i]] == o.response
        assert row_texts[count[i] + 1] == (o.error or "")
        assert "".join(row_texts[count[i] + 2 :]) == o.prompt
        assert texts[q[2]] == o.question
        assert tuple(texts[k] for k in q[3]) == o.options
        assert q[4] == o.gold
    assert not by_key


def test_transitions_follow_the_clean_baseline() -> None:
    """Only two answers can be compared; an unreadable one is neither improve nor degrade."""
    outcomes = panels.outcomes_of(2, 40)
    pack = panels.packed(outcomes, seed=1)
    base = [o for o in outcomes if (o.arm, o.routers) == (Arm.FORWARD_FULL, 1)]
    clean: dict[tuple[str, str], list[bool]] = {}
    for o in base:
        if o.correct is not None:
            clean.setdefault((o.model, o.question_id), []).append(o.correct)
    expected = {"improve": 0, "degrade": 0}
    for o in outcomes:
        before = clean.get((o.model, o.question_id), [])
        if o not in base and o.correct is not None and any(b != o.correct for b in before):
            expected["improve" if o.correct else "degrade"] += 1
    counts = np.bincount(_column(pack, "transition", "u1"), minlength=6)
    assert expected["improve"] > 0
    assert {name: int(counts[d.TRANSITIONS.index(name)]) for name in expected} == expected
    assert counts[d.TRANSITIONS.index("clean baseline")] == len(base)


def test_the_grid_is_coloured_against_every_clean_run() -> None:
    """Noisy against clean runs 0, 1, 2: 36 up and 21 down, 30 and 35, 26 and 36. Together 92 / 3 up
    and 92 / 3 down."""
    right = np.arange(100) < 60  # of noisy
    rows = [("noisy_rewrite", 3, 0, right)]
    for k, (up, down) in enumerate([(36, 21), (30, 35), (26, 36)]):
        clean = right.copy()
        clean[:up], clean[60 : 60 + down] = False, True
        rows.append(("forward_full", 1, k, clean))
    col = {
        "model": ["m"] * 400,
        "benchmark": ["b"] * 400,
        "question_id": [str(i) for _ in rows for i in range(100)],
        "arm": [a for a, *_ in rows for _ in range(100)],
        "routers": [r for _, r, *_ in rows for _ in range(100)],
    }
    state = [0 if good else 1 for *_, outcome in rows for good in outcome]
    change, weight = d._transitions(col, state)
    up, down = (int(weight[change == code].sum()) for code in (0, 1))
    assert up == pytest.approx(100 * 92 / 3, abs=20) and down == pytest.approx(
        up, abs=20
    )  # per cent, rounded
    assert not weight[100:].any() and (change[100:] == 5).all()


def test_the_order_of_the_shards_does_not_matter() -> None:
    outcomes = panels.outcomes_of(2, 5)
    first, second = (panels.packed(rows, seed=1) for rows in (outcomes, outcomes[::-1]))
    assert first == second


def test_beyond_the_limit_the_same_questions_keep_their_texts() -> None:
    outcomes = panels.outcomes_of(3, 20)
    whole = panels.packed(outcomes, seed=1)
    part = panels.packed(outcomes, seed=1, max_text_bytes=_bytes(whole) // 3)
    assert part.rows == whole.rows == whole.rows_with_text
    assert 0 < part.rows_with_text < part.rows
    assert _bytes(part) <= _bytes(whole) // 3
    has_text = np.diff(_column(part, "offset", "<u4")) > 0
    questions: dict[int, set[str]] = {0: set(), 1: set(), 2: set()}
    for model, question, has in zip(
        _column(part, "model", "<u2"), _column(part, "question", "<u4"), has_text, strict=True
    ):
        if has:
            questions[int(model)].add(part.head["questions"][question][1])
    assert len({frozenset(v) for v in questions.values()}) == 1
    other = panels.packed(outcomes, seed=2, max_text_bytes=_bytes(whole) // 3)
    assert [q[2] >= 0 for q in other.head["questions"]] != [
        q[2] >= 0 for q in part.head["questions"]
    ]


@pytest.mark.parametrize(
    ("prompt", "messages"),
    [
        ("", []),
        ("no message at all", ["something else entirely"]),
        ("Message 1:\n" + "a" * 20 + "\nMessage 2:\n" + "a" * 20 + "\n?", ["a" * 20, "a" * 20]),
        ("b" * 20 + "a" * 20, ["a" * 20, "b" * 20]),
        ("short", ["short"]),
    ],
)
def test_pieces_join_to_the_prompt(prompt: str, messages: list[str]) -> None:
    assert "".join(d.pieces(prompt, messages)) == prompt


def test_json_in_a_script_cannot_end_it() -> None:
    text = d.script_json({"a": panels.HOSTILE})
    for forbidden in ("<", ">", "&", "\u2028", "\u2029"):
        assert forbidden not in text
    assert json.loads(text) == {"a": panels.HOSTILE}
