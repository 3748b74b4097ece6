"""Shards -> arrays: what the rows of a run become, by hand-made rows."""

import math
from pathlib import Path

import numpy as np
import pytest
from memory_cells import cell, changed, judged

from audit.core.records import NO_OPTION, FinishReason, Generation, Item, Setting, TokenLogprobs
from audit.memory import items
from audit.memory.audit import SCHEMA, Orders, reply_columns, shard_orders
from audit.memory.cells import load_memory, neighbours
from audit.memory.design import MemoryThresholds
from audit.memory.gates import orders_reach_model
from audit.memory.items import (
    item_pieces,
    item_text,
    natural_order,
    option_orders,
    orders_of,
    shards_of,
)
from audit.memory.without import ranked, ranked_csv
from audit.shards.attempt import start_attempt
from audit.shards.keys import RequestCounts, rows_to_table
from audit.shards.questions import write_questions
from audit.shards.write import write_shard

QUESTIONS = [
    Item(f"b/{k}", "b", f"Is this number {k}?", ("yes", "no", "maybe"), 1, f"b/{k}")
    for k in range(4)
]
OWN = Orders("", 7, 4, 2, 1)


def row(model: str, q: Item, arm: str, level: int, **fields) -> dict:
    base = dict.fromkeys(SCHEMA.columns.names)
    return (
        base
        | {
            "model": model,
            "model_revision": "r",
            "benchmark": q.benchmark,
            "question_id": q.id,
            "group": q.group,
            "arm": arm,
            "ordering": level,
            "replicate": 0,
            "reading": "text",
            "question": q.text,
            "options": q.options,
            "prompt": "",
            "response": "",
            "gold": q.gold,
            "parsed": True,
            "asked": True,
            "pieces": (),
            "option_logprobs": (),
            "token_logprobs": (),
            "token_ranks": (),
            "token_z": (),
            "token_pieces": (),
        }
        | fields
    )


def run(folder: Path, rows: list[dict]) -> Path:
    write_questions(folder, QUESTIONS)
    (folder / "shards").mkdir()
    attempt = start_attempt(folder)
    write_shard(folder, rows_to_table(rows, SCHEMA), SCHEMA, attempt=attempt)
    return folder


def published(model: str, q: Item) -> dict:
    pieces = ("ab", "cd", "\nA.", " yes", "\nB.", " no", "\nC.", " maybe")
    totals = (-1.0, -2.0, -0.5, -4.0, -0.5, -3.0, -0.5, -6.0)
    return row(
        model,
        q,
        "published",
        0,
        pieces=pieces,
        option_logprobs=totals,
        token_logprobs=(-1.0, -3.0),
        token_ranks=(1, 5),
        token_z=(0.0, -1.0),
        token_pieces=(0, 1),
    )


def test_an_order_that_was_sent_as_the_published_one_is_counted(tmp_path):
    """Two other orders of the shard: one is sent as the published order is, one is not (though both
    begin with the same item alone). Two items' other order of options: one is the very request of
    the item as published. 1 + 1 of 4."""
    rows = []
    for k, q in enumerate(QUESTIONS):
        rows.append(published("m", q) | {"request_sha256": f"text:item {k}"})
        for level in range(3):
            sent = f"text:after {k if level != 2 else 3 - k}" if k else "text:alone"
            rows.append(
                row(
                    "m",
                    q,
                    "order",
                    level,
                    shard=0,
                    option_logprobs=(None, -1.0),
                    request_sha256=sent,
                )
            )
    for k, sent in ((1, "text:item 1"), (2, "text:other")):
        rows.append(
            row("m", QUESTIONS[k], "options", 1, option_logprobs=(-3.0, -20.0), request_sha256=sent)
        )
    (cell,) = load_memory(run(tmp_path, rows), ["m"], [], "b", None, OWN)
    assert cell.tested[0].requests == RequestCounts(4, 2, 0, ("b/0", "b/1"))
    gate = orders_reach_model(cell, MemoryThresholds())
    assert (gate.status, gate.number, gate.withholds, gate.items) == (
        "fail",
        0.5,
        True,
        ("b/0", "b/1"),
    )
    assert orders_reach_model(cell, MemoryThresholds(noop_share_max=0.5)).status == "pass"


def rows_of(model: str, skip: tuple = ()) -> list[dict]:
    rows = []
    for k, q in enumerate(QUESTIONS):
        rows.append(row(model, q, "score", 0, reading="letter", correct=k != 2, parsed=k != 3))
        rows.append(published(model, q))
        rows.append(row(model, q, "options", 1, option_logprobs=(-3.0, -20.0)))
        for level in range(3):
            order = row(model, q, "order", level, shard=0, option_logprobs=(None, -10.0 - level))
            rows.append(
                order
                if (k, level) not in skip
                else order | {"error": "prompt too long", "option_logprobs": ()}
            )
    rows[2] |= {"asked": False, "error": "no such order", "option_logprobs": ()}
    return rows


def test_rows_become_arrays(tmp_path):
    folder = run(tmp_path, [*rows_of("m"), *rows_of("ref", skip=((1, 2),))])
    (cell,) = load_memory(folder, ["m"], [], "b", None, OWN)
    tested, nothing = cell.tested
    assert nothing is None and [reference[0].model for reference in cell.references] == ["ref"]
    assert tested.score.tolist()[:3] == [1.0, 1.0, 0.0] and math.isnan(
        tested.score[3]
    )  # unread is not wrong
    assert np.flatnonzero(tested.unread).tolist() == [3]
    # -17.5 nats of 5 + 8 + ... bytes: "abcd" 4, three letters 9, " yes" 4, " no" 3, " maybe" 6
    assert tested.texts["item"] == pytest.approx(-17.5 / 26)
    assert tested.texts["half"] == pytest.approx(-2.0 / 2)
    assert tested.texts["wrong"] == pytest.approx((-4.0 - 6.0) / 10)
    assert tested.tokens["mean"] == pytest.approx(-2.0) and tested.tokens["min_k"] == pytest.approx(
        -3.0
    )
    assert tested.ranks == pytest.approx(0.5)
    assert tested.options[1].tolist() == [-14.5, -20.0] and math.isnan(tested.options[0, 1])
    assert tested.order.tolist() == [[-40.0, -44.0, -48.0]]  # four items of one shard, added up
    assert tested.reads["options"].not_asked == 1 and tested.reads["options"].share == 1
    assert tested.reads["score"].share == 0.75
    other = cell.references[0][0]
    assert other.order[0, :2].tolist() == [-40.0, -44.0] and math.isnan(
        other.order[0, 2]
    )  # not of three items
    assert other.reads["order"].read == 11


def test_neighbours_are_compared_in_the_orders_that_are_asked():
    texts = ("red fox", "red fox", "blue sea", "blue sea")
    qs = [Item(f"b/{k}", "b", text, (), -1, f"b/{k}", target=1.0) for k, text in enumerate(texts)]
    orders = Orders("", 7, 4, 23, 1)
    measures = neighbours(shards_of(qs, 4), orders)
    assert measures["words"].shape == (1, 24) and measures["words"][0, 0] == pytest.approx(2 / 3)
    assert np.nanmax(measures["words"][0]) == measures["words"][0, 0]
    assert shard_orders(qs, orders)[0] == (0, 1, 2, 3)


def test_tokens_are_kept_of_the_published_text_alone():
    reply = Generation(
        finish_reason=FinishReason.SCORED, tokens=TokenLogprobs((-1.0,), (3,), (0.5,), (0,))
    )
    assert reply_columns(Setting("published", 0), reply)["token_ranks"] == (3,)
    assert set(reply_columns(Setting("order", 0), reply).values()) == {()}
    assert set(reply_columns(Setting("score", 0), Generation(text="A")).values()) == {()}


def question(
    id_="q",
    options=("cow", "hen", "dog", "ant"),
    gold=2,
    text="Which animal barks at night?",
    **fields,
):
    return Item(id_, "b", text, options, gold, fields.pop("group", id_), **fields)


def rng():
    return np.random.default_rng(5)


def test_an_item_is_its_stem_and_its_lettered_options_as_published():
    shuffled = question(options=("dog", "cow", "ant", "hen"), gold=0, order=(2, 0, 3, 1))
    for q in (question(), shuffled):
        assert item_text(q) == "Which animal barks at night?\nA. cow\nB. hen\nC. dog\nD. ant"
        pieces = item_pieces(q)
        assert pieces[:4] == ("Which animal barks", " at night?", "\nA.", " cow")
        likelihoods = items.likelihoods_a_byte(
            pieces, [-float(k) for k in range(len(pieces))], q.options, q.gold
        )
        assert [pieces[k] for k in (3, 5, 9)] == [" cow", " hen", " ant"]
        assert likelihoods["wrong"] == -(3 + 5 + 9) / 12 and likelihoods["half"] == -1 / len(
            pieces[1]
        )
    assert item_pieces(question(text="Why?"))[:2] == ("Why?", "")
    number = Item("n", "b", "How many?", (), NO_OPTION, "n", target=3.0)
    assert item_text(number) == "How many?"
    assert set(items.likelihoods_a_byte(("How", " many?"), (-1.0, -2.0), (), NO_OPTION)) == {
        "item",
        "half",
    }


@pytest.mark.parametrize(
    ("options", "natural"),
    [
        (("3", "5", "9", "12"), True),
        (("9", "5", "3"), True),
        (("5", "3", "9"), False),
        (("2 cm", "10 cm", "30 cm"), True),
        (("$1,5", "$2", "$3"), True),
        (("ant", "Bee", "cow"), True),
        (("cow", "bee", "ant"), True),
        (("bee", "ant", "cow"), False),
        (("red", "blue", "all of the above"), True),
        (("red", "None of these", "blue"), True),
        (("red", "blue", "both red and blue"), True),
        (("A and B", "dog", "C only"), True),
        (("call of the sea", "bee", "dog"), False),
    ],
)
def test_natural_orders_are_known(options, natural):
    assert natural_order(options) is natural


def test_wrong_options_change_places_and_the_right_one_stays():
    q = question(options=("hen", "cow", "dog", "ant"))
    orders = option_orders(q, 5, rng())
    # 3! - 1 others; of them (ant, cow, dog, hen) is alphabetical and so no candidate.
    assert len(orders) == len(set(orders)) == 4
    assert (0, 1, 2, 3) not in orders and (3, 1, 2, 0) not in orders
    assert all(order[2] == 2 and sorted(order) == [0, 1, 2, 3] for order in orders)
    assert (
        option_orders(q, 2, rng()) == option_orders(q, 2, rng())
        and len(option_orders(q, 2, rng())) == 2
    )
    assert option_orders(question(options=("1", "2", "3", "4")), 5, rng()) == []
    assert option_orders(question(options=("yes", "no"), gold=0), 5, rng()) == []
    many = question(options=tuple("bcadefghkj"), gold=2)
    assert len(option_orders(many, 5, rng())) == 5


def test_shards_are_neighbours_of_one_section():
    qs = [question(f"b/{s}/{k}") for s, n in (("x", 13), ("y", 5), ("z", 1)) for k in range(n)]
    shards = shards_of(qs, 5)
    assert [len(shard) for shard in shards] == [
        5,
        4,
        4,
        5,
    ]  # 13 in nearly equal parts; the last one has no neighbour
    assert [q.id for shard in shards for q in shard] == [q.id for q in qs[:-1]]
    grouped = [question(str(k), group=f"g{k // 3}") for k in range(6)]
    assert [len(shard) for shard in shards_of(grouped, 5)] == [3, 3]


def test_orders_are_different_and_the_first_is_as_published():
    assert orders_of(2, 10, rng()) == [(0, 1), (1, 0)]
    assert len(set(orders_of(5, 10, rng()))) == 11 and orders_of(5, 10, rng())[0] == (0, 1, 2, 3, 4)
    assert len(set(orders_of(12, 10, rng()))) == 11


def test_the_items_of_a_shard_add_up_to_its_text():
    shard = (question("1", text="One?"), question("2", text="Two?"), question("3", text="Three?"))
    order = (2, 0, 1)
    whole = "\n\n".join(item_text(shard[i]) for i in order)
    before, last = items.shard_pieces(shard, order, 2)
    assert before + last == whole and last == item_text(shard[1])
    assert items.shard_pieces(shard, order, 0) == ("", item_text(shard[2]))


def of(made):
    return judged(made, n_resamples=199)[0]


def test_the_headline_begins_with_score_and_score_without_memory():
    made = cell(n=600, fresh=400, answers=0.5)
    result = of(made)
    estimates = result.without.estimate
    assert result.headline.startswith(result.without.sentence)
    assert (
        result.without.reason.code == "without" and result.without.reason.numbers["references"] == 3
    )
    assert result.without.reason.numbers["score"].estimate == made.tested[0].score.mean()
    assert estimates.without.high < estimates.score.estimate  # half of the answers is seen
    assert estimates.share.low < 0.5 < estimates.share.high
    assert (
        estimates.alone.high - estimates.alone.low > estimates.without.high - estimates.without.low
    )


@pytest.mark.parametrize(
    ("made", "needs"),
    [
        ({"fresh": 0, "references": 0}, ("held_out", "references")),
        ({"fresh": 0}, ("held_out",)),
        ({"references": 0}, ("references",)),
    ],
)
def test_without_held_out_items_or_references_it_is_not_identified(made, needs):
    without = of(cell(**made)).without
    assert without.estimate is None and without.items is None
    assert without.reason.code == "not_identified" and without.needs == needs
    assert without.score.low < without.score.estimate < without.score.high


def test_unparsed_answers_widen_it():
    """One in fifteen, whatever it was."""
    made = cell(n=600, fresh=400)
    scores = (
        np.where(np.arange(side.score.size) % 15 == 0, np.nan, side.score) for side in made.tested
    )
    lost = changed(made, *({"score": score} for score in scores))
    whole, other = of(made).without.estimate, of(lost).without.estimate
    assert other.without.high - other.without.low > whole.without.high - whole.without.low


def test_items_are_ranked_and_those_of_a_text_that_was_read_are_named():
    made = cell(n=400, fresh=300)
    model, read = made.tested[0], np.arange(400) < 80
    texts = {**model.texts, "item": model.texts["item"] + 3.0 * read}
    result = of(changed(made, {"texts": texts, "score": np.where(read, 1.0, model.score)}))
    questions = {
        ("exam", id_): Item(id_, "exam", f"Stem {id_}\nmore", ("a", "b"), 0, id_)
        for id_ in made.published.question_ids
    }
    rows = ranked(made, result, questions)
    named = [int(r.question_id) for r in rows if r.named]
    assert len(rows) == 400
    assert len(named) > 40 and np.mean([i < 80 for i in named]) > 0.8
    assert [r.named for r in rows] == sorted((r.named for r in rows), reverse=True)
    assert rows[0].stem == f"Stem {rows[0].question_id}" and rows[0].right.endswith(" of 3")
    head, *lines = (line.split(",") for line in ranked_csv(rows).splitlines())
    assert head[-1] == "named" and [line[-1] for line in lines] == [str(int(r.named)) for r in rows]
