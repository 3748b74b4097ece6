"""Halves, doses and forms."""

from dataclasses import replace

import pytest
from plant_items import items

from audit.errors import BenchmarkError, ConfigError
from audit.plant.texts import Form, halve, parse_doses, parse_forms


def test_the_halves_share_nothing_miss_nothing_and_keep_the_published_order():
    questions = items(41)
    halves = halve(questions, seed=1)
    assert (len(halves.learnt), len(halves.others)) == (20, 21)
    assert sorted(q.id for q in halves.questions) == [q.id for q in questions]
    for half in (halves.learnt, halves.others):
        assert [q.id for q in half] == sorted(q.id for q in half)


def test_the_seed_alone_decides_the_halves():
    assert halve(items(60), 1) == halve(items(60), 1)
    assert halve(items(60), 1) != halve(items(60), 2)
    assert halve(items(60), 1).learnt_sha256 != halve(items(60), 2).learnt_sha256


def test_an_item_that_stands_twice_is_never_in_both_halves():
    once = items(40)
    again = tuple(replace(q, id=f"{q.id}b", group=f"{q.id}b") for q in once)
    halves = halve(once + again, seed=3)
    assert not {q.text for q in halves.learnt} & {q.text for q in halves.others}
    assert len(halves.learnt) == len(halves.others) == 40


def test_too_few_items_are_refused():
    with pytest.raises(BenchmarkError, match=r"39 different questions: too few to halve. Expected at least 40"):
        halve(items(39), seed=1)
    assert len(halve(items(40), seed=1).learnt) == 20


def test_doses_always_hold_the_unspoilt_model():
    assert parse_doses([4, 1, 4]) == (0, 1, 4)
    for wrong in ([0], []):
        with pytest.raises(ConfigError, match="nothing would be planted"):
            parse_doses(wrong)
    for wrong in ([-1], [65], [1.5], [True]):
        with pytest.raises(ConfigError, match="Invalid dose"):
            parse_doses(wrong)


def test_forms_are_known_and_stand_once():
    assert parse_forms(["raw", "qa"]) == (Form.RAW, Form.QA)
    with pytest.raises(ConfigError, match="Did you mean 'raw'"):
        parse_forms(["rav"])
    for wrong in ([], ["qa", "qa"]):
        with pytest.raises(ConfigError, match="each once"):
            parse_forms(wrong)
