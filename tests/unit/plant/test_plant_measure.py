"""What is read of a model, from the scripted engine and from replies by hand."""

import asyncio
import math
from dataclasses import replace

import pytest
from plant_items import items

from audit.audits import Work
from audit.config import load_group
from audit.engines.config import ModelConfig, SamplingConfig, ScriptedConfig
from audit.engines.scripted import ScriptedEngine
from audit.memory.audit import MEMORY
from audit.memory.design import Arm as MemoryArm
from audit.memory.present import Orders
from audit.plant import measure
from audit.plant.measure import Reading, Row
from audit.prompting.templates import load_protocol
from audit.records import Design, Generation, Part, Presentation, Setting
from audit.records import Reading as How
from audit.shards.questions import write_questions
from audit.sweep.audit import SWEEP
from audit.sweep.config import TEMPLATES
from audit.sweep.design import Draws, make_design

QUESTIONS = items(12)
PROTOCOL = load_protocol(load_group("protocol", "song2026"), TEMPLATES)


def work(design: Design, own: object = None) -> Work:
    some = SamplingConfig(16, 0.0, 1.0)
    return Work(design, PROTOCOL, "m", How.OPTION_TEXT, some, some, 42, own)


def engine(**script):
    config = ModelConfig(name="m", engine="scripted", scripted=ScriptedConfig(**script))
    one = ScriptedEngine(config, "m/0", {q.id: q for q in QUESTIONS})
    seen = []

    def ask(requests):
        seen.extend(requests)
        return asyncio.run(one.run(requests))

    return ask, seen


def test_a_models_answers_come_back_by_item_and_setting():
    ask, seen = engine(accuracy={"direct": 1.0, "forward_full": 1.0, "noisy_rewrite": 0.0},
                       replies={"forward_full/router": "echo", "noisy_rewrite/router": "noise"})  # fmt: skip
    design = make_design((1, 2), draws=Draws.NESTED, ensemble_control=True)
    prepared = measure.prepare(ask, SWEEP, work(design), QUESTIONS)
    # two messages of each kind
    assert len(seen) == 12 * 4 and not any(r.adapter for r in seen)
    seen.clear()
    rows = measure.answers(ask, SWEEP, work(design), QUESTIONS, "/plants/qa-4", prepared)
    assert {r.adapter for r in seen} == {"/plants/qa-4"} and len(seen) == 12 * 5
    correct = measure.scores(rows, QUESTIONS, work(design), "none")
    assert correct == {
        "direct/0": [1.0] * 12, "forward_full/1": [1.0] * 12, "forward_full/2": [1.0] * 12,
        "noisy_rewrite/1": [0.0] * 12, "noisy_rewrite/2": [0.0] * 12,
    }  # fmt: skip
    assert measure.failures(rows) == 0


def test_a_failure_is_no_answer():
    ask, _ = engine(accuracy={"direct": 1.0})

    def failing(requests):
        replies = ask(requests)
        return [Generation(error="too long"), *replies[1:]]

    design = make_design((1,), arms=("direct",))
    rows = measure.answers(failing, SWEEP, work(design), QUESTIONS)
    correct = measure.scores(rows, QUESTIONS, work(design), "none")["direct/0"]
    assert math.isnan(correct[0]) and correct[1:] == [1.0] * 11
    assert measure.failures(rows) == 1
    assert math.isnan(measure.margins(rows, 12)[0])


def test_the_margin_is_gold_less_the_best_other_option():
    shown = Presentation("p", ("a", "b", "c"), 1)
    reply = Generation(option_logprobs=(-3.0, -1.5, -2.0), option_tokens=(1, 1, 1))
    rows = [Row(0, Setting("score", 0), shown, reply), Row(1, Setting("score", 0), shown, None)]
    margin = measure.margins(rows, 2)
    assert margin[0] == 0.5 and math.isnan(margin[1])


def test_likelihoods_are_a_byte_and_by_part_of_the_item():
    question = QUESTIONS[0]  # its gold option is the first
    pieces = ("what is", " thing 0 ?", "\nA.", " red 0", "\nB.", " blue 0", "\nC.", " green 0")
    told = (-2.0, -4.0, -1.0, -8.0, -1.0, -6.0, -1.0, -2.0)
    reply = Generation(option_logprobs=told, option_tokens=(2, 2, 1, 1, 1, 2, 1, 1))
    shown = Presentation("p", question.options, 0, pieces=pieces)
    found = measure.likelihoods([Row(0, Setting("published", 0), shown, reply)], 1)
    assert found["item"] == [pytest.approx(-25 / (7 + 10 + 3 + 6 + 3 + 7 + 3 + 8))]
    assert found["half"] == [-0.4]
    # " blue 0" and " green 0"
    assert found["wrong"] == [pytest.approx(-8 / (7 + 8))]


def test_a_shards_likelihood_is_that_of_its_items_and_lacks_none(tmp_path):
    write_questions(tmp_path, QUESTIONS)
    own = Orders(str(tmp_path), 42, 4, 2, 1)
    design = Design(tuple(Part(MemoryArm.ORDER, (k,)) for k in range(3)))

    def ask(requests):
        return [Generation(option_logprobs=(-9.0, -2.0), option_tokens=(3, 4)) for _ in requests]

    rows = measure.answers(ask, MEMORY, work(design, own), QUESTIONS)
    assert measure.shard_orders(rows, 2) == [[-8.0] * 3] * 3  # shards of four items, -2 each
    lost = [replace(rows[0], reply=Generation(error="x")), *rows[1:]]
    assert math.isnan(measure.shard_orders(lost, 2)[0][0])


def test_a_reading_survives_its_file_with_what_is_missing(tmp_path):
    reading = Reading(correct={"score/0": [1.0, math.nan]}, margin=[0.5, math.nan], text={"item": [-1.0, -2.0]},
                      order={"learnt": [[-1.0, math.nan]]}, options=[[-1.0, -2.0]], errors=1)  # fmt: skip
    reading.save(tmp_path / "deep" / "one.json")
    again = Reading.load(tmp_path / "deep" / "one.json")
    assert repr(again) == repr(reading)
    assert "NaN" not in (tmp_path / "deep" / "one.json").read_text()
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["one.json"]
