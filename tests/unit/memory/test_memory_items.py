"""The texts that are read: an item as published, its options in other orders, shards of neighbours."""

import numpy as np
import pytest

from audit.memory.items import (
    item_pieces,
    item_text,
    likelihoods_a_byte,
    natural_order,
    option_orders,
    orders_of,
    shard_pieces,
    shards_of,
)
from audit.records import NO_OPTION, Question


def question(id_="q", options=("cow", "hen", "dog", "ant"), gold=2, text="Which animal barks at night?", **fields):
    return Question(id_, "b", text, options, gold, fields.pop("group", id_), **fields)


def rng():
    return np.random.default_rng(5)


def test_an_item_is_its_stem_and_its_lettered_options_as_published():
    shuffled = question(options=("dog", "cow", "ant", "hen"), gold=0, order=(2, 0, 3, 1))
    for q in (question(), shuffled):
        assert item_text(q) == "Which animal barks at night?\nA. cow\nB. hen\nC. dog\nD. ant"
        pieces = item_pieces(q)
        assert pieces[:4] == ("Which animal barks", " at night?", "\nA.", " cow")
        told = likelihoods_a_byte(pieces, [-float(k) for k in range(len(pieces))], q.options, q.gold)
        assert [pieces[k] for k in (3, 5, 9)] == [" cow", " hen", " ant"]
        assert told["wrong"] == -(3 + 5 + 9) / 12 and told["half"] == -1 / len(pieces[1])
    assert item_pieces(question(text="Why?"))[:2] == ("Why?", "")
    number = Question("n", "b", "How many?", (), NO_OPTION, "n", target=3.0)
    assert item_text(number) == "How many?"
    assert set(likelihoods_a_byte(("How", " many?"), (-1.0, -2.0), (), NO_OPTION)) == {"item", "half"}


@pytest.mark.parametrize(
    ("options", "natural"),
    [
        (("3", "5", "9", "12"), True), (("9", "5", "3"), True), (("5", "3", "9"), False),
        (("2 cm", "10 cm", "30 cm"), True), (("$1,5", "$2", "$3"), True),
        (("ant", "Bee", "cow"), True), (("cow", "bee", "ant"), True), (("bee", "ant", "cow"), False),
        (("red", "blue", "all of the above"), True), (("red", "None of these", "blue"), True),
        (("red", "blue", "both red and blue"), True), (("A and B", "dog", "C only"), True),
        (("call of the sea", "bee", "dog"), False),
    ],
)  # fmt: skip
def test_natural_orders_are_known(options, natural):
    assert natural_order(options) is natural


def test_wrong_options_change_places_and_the_right_one_stays():
    q = question(options=("hen", "cow", "dog", "ant"))
    orders = option_orders(q, 5, rng())
    # 3! - 1 others; of them (ant, cow, dog, hen) is alphabetical and so no candidate.
    assert len(orders) == len(set(orders)) == 4
    assert (0, 1, 2, 3) not in orders and (3, 1, 2, 0) not in orders
    assert all(order[2] == 2 and sorted(order) == [0, 1, 2, 3] for order in orders)
    assert option_orders(q, 2, rng()) == option_orders(q, 2, rng()) and len(option_orders(q, 2, rng())) == 2
    assert option_orders(question(options=("1", "2", "3", "4")), 5, rng()) == []
    assert option_orders(question(options=("yes", "no"), gold=0), 5, rng()) == []
    many = question(options=tuple("bcadefghkj"), gold=2)
    assert len(option_orders(many, 5, rng())) == 5


def test_shards_are_neighbours_of_one_section():
    qs = [question(f"b/{s}/{k}") for s, n in (("x", 13), ("y", 5), ("z", 1)) for k in range(n)]
    shards = shards_of(qs, 5)
    assert [len(shard) for shard in shards] == [5, 4, 4, 5]  # 13 in nearly equal parts; the last one has no neighbour
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
    before, last = shard_pieces(shard, order, 2)
    assert before + last == whole and last == item_text(shard[1])
    assert shard_pieces(shard, order, 0) == ("", item_text(shard[2]))
