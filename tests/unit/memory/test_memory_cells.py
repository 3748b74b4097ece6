"""Shards -> arrays: what the rows of a run become, by hand-made rows."""

import math
from pathlib import Path

import numpy as np
import pytest

from audit.memory.audit import SCHEMA, told
from audit.memory.cells import load_memory, neighbours
from audit.memory.gates import orders_reach_model
from audit.memory.items import shards_of
from audit.memory.present import Orders, shard_orders
from audit.memory.thresholds import MemoryThresholds
from audit.records import FinishReason, Generation, Question, Setting, TokenLogprobs
from audit.shards.attempt import start_attempt
from audit.shards.keys import RequestCounts, rows_to_table
from audit.shards.questions import write_questions
from audit.shards.write import write_shard

QUESTIONS = [Question(f"b/{k}", "b", f"Is this number {k}?", ("yes", "no", "maybe"), 1, f"b/{k}") for k in range(4)]
OWN = Orders("", 7, 4, 2, 1)


def row(model: str, q: Question, arm: str, level: int, **fields) -> dict:
    base = dict.fromkeys(SCHEMA.columns.names)
    return base | {
        "model": model, "model_revision": "r", "benchmark": q.benchmark, "question_id": q.id, "group": q.group,
        "arm": arm, "ordering": level, "replicate": 0, "reading": "text", "question": q.text, "options": q.options,
        "prompt": "", "response": "", "gold": q.gold, "parsed": True, "asked": True, "pieces": (),
        "option_logprobs": (), "token_logprobs": (), "token_ranks": (), "token_z": (), "token_pieces": (),
    } | fields  # fmt: skip


def run(folder: Path, rows: list[dict]) -> Path:
    write_questions(folder, QUESTIONS)
    (folder / "shards").mkdir()
    attempt = start_attempt(folder)
    write_shard(folder, rows_to_table(rows, SCHEMA), SCHEMA, attempt=attempt)
    return folder


def published(model: str, q: Question) -> dict:
    pieces = ("ab", "cd", "\nA.", " yes", "\nB.", " no", "\nC.", " maybe")
    totals = (-1.0, -2.0, -0.5, -4.0, -0.5, -3.0, -0.5, -6.0)
    return row(
        model, q, "published", 0, pieces=pieces, option_logprobs=totals, token_logprobs=(-1.0, -3.0),
        token_ranks=(1, 5), token_z=(0.0, -1.0), token_pieces=(0, 1),
    )  # fmt: skip


def test_an_order_that_was_sent_as_the_published_one_is_counted(tmp_path):
    """Two other orders of the shard: one is sent as the published order is, one is not (though both begin with the
    same item alone). Two items' other order of options: one is the very request of the item as published. 1 + 1 of 4.
    """
    rows = []
    for k, q in enumerate(QUESTIONS):
        rows.append(published("m", q) | {"request_sha256": f"text:item {k}"})
        for level in range(3):
            sent = f"text:after {k if level != 2 else 3 - k}" if k else "text:alone"
            rows.append(row("m", q, "order", level, shard=0, option_logprobs=(None, -1.0), request_sha256=sent))
    for k, sent in ((1, "text:item 1"), (2, "text:other")):
        rows.append(row("m", QUESTIONS[k], "options", 1, option_logprobs=(-3.0, -20.0), request_sha256=sent))
    (cell,) = load_memory(run(tmp_path, rows), ["m"], [], "b", None, OWN)
    assert cell.tested[0].requests == RequestCounts(4, 2, 0, ("b/0", "b/1"))
    gate = orders_reach_model(cell, MemoryThresholds())
    assert (gate.status, gate.number, gate.withholds, gate.items) == ("fail", 0.5, True, ("b/0", "b/1"))
    assert orders_reach_model(cell, MemoryThresholds(noop_share_max=0.5)).status == "pass"


def rows_of(model: str, skip: tuple = ()) -> list[dict]:
    found = []
    for k, q in enumerate(QUESTIONS):
        found.append(row(model, q, "score", 0, reading="letter", correct=k != 2, parsed=k != 3))
        found.append(published(model, q))
        found.append(row(model, q, "options", 1, option_logprobs=(-3.0, -20.0)))
        for level in range(3):
            one = row(model, q, "order", level, shard=0, option_logprobs=(None, -10.0 - level))
            found.append(one if (k, level) not in skip else one | {"error": "prompt too long", "option_logprobs": ()})
    found[2] |= {"asked": False, "error": "no such order", "option_logprobs": ()}
    return found


def test_rows_become_arrays(tmp_path):
    folder = run(tmp_path, [*rows_of("m"), *rows_of("ref", skip=((1, 2),))])
    (cell,) = load_memory(folder, ["m"], [], "b", None, OWN)
    own, nothing = cell.tested
    assert nothing is None and [one[0].model for one in cell.references] == ["ref"]
    assert own.score.tolist()[:3] == [1.0, 1.0, 0.0] and math.isnan(own.score[3])  # unread is not wrong
    assert np.flatnonzero(own.unread).tolist() == [3]
    # -17.5 nats of 5 + 8 + ... bytes: "abcd" 4, three letters 9, " yes" 4, " no" 3, " maybe" 6
    assert own.texts["item"] == pytest.approx(-17.5 / 26)
    assert own.texts["half"] == pytest.approx(-2.0 / 2)
    assert own.texts["wrong"] == pytest.approx((-4.0 - 6.0) / 10)
    assert own.tokens["mean"] == pytest.approx(-2.0) and own.tokens["min_k"] == pytest.approx(-3.0)
    assert own.ranks == pytest.approx(0.5)
    assert own.options[1].tolist() == [-14.5, -20.0] and math.isnan(own.options[0, 1])
    assert own.order.tolist() == [[-40.0, -44.0, -48.0]]  # four items of one shard, added up
    assert own.reads["options"].not_asked == 1 and own.reads["options"].share == 1
    assert own.reads["score"].share == 0.75
    theirs = cell.references[0][0]
    assert theirs.order[0, :2].tolist() == [-40.0, -44.0] and math.isnan(theirs.order[0, 2])  # not of three items
    assert theirs.reads["order"].read == 11


def test_neighbours_are_compared_in_the_orders_that_are_asked():
    texts = ("red fox", "red fox", "blue sea", "blue sea")
    qs = [Question(f"b/{k}", "b", text, (), -1, f"b/{k}", target=1.0) for k, text in enumerate(texts)]
    own = Orders("", 7, 4, 23, 1)
    found = neighbours(shards_of(qs, 4), own)
    assert found["words"].shape == (1, 24) and found["words"][0, 0] == pytest.approx(2 / 3)
    assert np.nanmax(found["words"][0]) == found["words"][0, 0]
    assert shard_orders(qs, own)[0] == (0, 1, 2, 3)


def test_tokens_are_kept_of_the_published_text_alone():
    reply = Generation(finish_reason=FinishReason.SCORED, tokens=TokenLogprobs((-1.0,), (3,), (0.5,), (0,)))
    assert told(Setting("published", 0), reply)["token_ranks"] == (3,)
    assert told(Setting("order", 0), reply) == dict.fromkeys(
        ("token_logprobs", "token_ranks", "token_z", "token_pieces"), ()
    )
    assert told(Setting("score", 0), Generation(text="A"))["token_logprobs"] == ()
