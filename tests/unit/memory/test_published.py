"""An order that its author drew: the order tests are exact without references, and the record is
held to the items."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from commands_here import publish

from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.load import open_benchmark
from audit.core.errors import ConfigError
from audit.core.records import Item
from audit.judging.world import World
from audit.memory.audit import Orders, item_orders
from audit.memory.cells import neighbours
from audit.memory.config import from_hydra
from audit.memory.decide import decide
from audit.memory.design import MemoryThresholds
from audit.memory.evidence import correct, measure
from audit.memory.gates import order_exchangeable
from audit.memory.items import draw_order, natural_order, order_sha256, shards_of
from audit.memory.plan import resolve_memory
from audit.memory.vocabulary import MemoryVerdict
from audit.memory.worlds import MemoryDesign, simulate
from audit.statistics.order_test import order_test

ELEMENTARY = list(open_benchmark(BenchmarkConfig()).iter_questions())
OWN = Orders("", 3, 5, 10, 5)
LIMITS = MemoryThresholds()


def words_p(questions: list[Item], seed: int) -> float:
    """p of the order test where the words that neighbours share stand for a model's likelihood."""
    values = neighbours(shards_of(questions, OWN.shard_items), OWN)["words"]
    return order_test(values, rng=np.random.default_rng(seed), n_resamples=199).pvalue


def options_p(questions: list[Item], seed: int) -> float:
    """The same of options; what stands for a likelihood is how many neighbours are in alphabetical
    order."""
    rows = []
    for question in questions:
        orders = [tuple(range(len(question.options))), *item_orders(question, OWN)]
        ascents = [
            float(sum(question.options[a] < question.options[b] for a, b in pairwise(order)))
            for order in orders
        ]
        rows.append(ascents + [np.nan] * (1 + OWN.option_orders - len(ascents)))
    return order_test(np.array(rows), rng=np.random.default_rng(seed), n_resamples=199).pvalue


@pytest.mark.long
def test_a_drawn_order_says_nothing_whatever_the_items_say() -> None:
    """As the embedded exam was written, its words tell the order (p = .0002). Drawn, they do so by
    chance alone."""
    assert words_p(ELEMENTARY, 0) <= 0.01
    drawn = [draw_order(ELEMENTARY, seed)[0] for seed in range(100)]
    for pvalue_of in (words_p, options_p):
        rejected = sum(pvalue_of(items, seed) <= 0.05 for seed, items in enumerate(drawn))
        assert rejected <= 11  # of 100 at 5 %: P(more than 11) = .004


def test_what_is_drawn_is_the_same_exam() -> None:
    items, places = draw_order(ELEMENTARY, 7)
    assert sorted(places) == list(range(len(ELEMENTARY))) and places != sorted(places)
    moved = 0
    for item, place in zip(items, places, strict=True):
        source = ELEMENTARY[place]
        assert (item.id, item.text) == (source.id, source.text) and sorted(item.options) == sorted(
            source.options
        )
        assert item.options[item.gold] == source.options[source.gold]
        if natural_order(source.options):
            assert item.options == source.options
        moved += item.options != source.options
    assert moved > 150
    assert draw_order(ELEMENTARY, 7) == (items, places) and draw_order(ELEMENTARY, 8)[1] != places


def test_sections_stay_together() -> None:
    items = [
        Item(f"q{k}", "b", f"text {k}", (), -1, f"passage {k // 5}", target=1.0) for k in range(20)
    ]
    groups = [item.group for item in draw_order(items, 1)[0]]
    assert sum(a != b for a, b in pairwise(groups)) == 3


def rate(world: World, design: MemoryDesign, models: int) -> float:
    """Share of models in which memory of the text is found."""
    n = 0
    for seed in range(models):
        rng = np.random.default_rng([seed, 5])
        cell = replace(simulate(design, world, rng), recorded=True)
        (evidence,) = correct(
            [measure(cell, LIMITS, rng=rng, n_resamples=199, gammas=(), describe=False)]
        )
        n += any(indicator.seen(LIMITS.alpha) for indicator in evidence.indicators)
    return n / models


@pytest.mark.long
def test_without_references_a_clean_model_is_not_found_and_a_reader_is() -> None:
    """300 clean models: 5 % and two standard errors (1.3 points). Orders .3 spreads likelier:
    nearly all are found."""
    alone = MemoryDesign(208)
    assert rate(World(), alone, 300) <= 0.076
    assert rate(World(popular=0.5, uses=1.5), alone, 100) <= 0.094
    assert rate(World(file=0.3), alone, 30) > 0.9


def test_a_recorded_order_is_a_finding_and_its_gate_says_why() -> None:
    cell = simulate(MemoryDesign(208), World(file=0.5), np.random.default_rng(1))
    verdicts = []
    for recorded in (False, True):
        (evidence,) = correct(
            [measure(replace(cell, recorded=recorded), LIMITS, rng=np.random.default_rng(1))]
        )
        verdicts.append(decide(evidence, (), LIMITS).verdict)
    assert verdicts == [MemoryVerdict.CAUSE_UNKNOWN, MemoryVerdict.MEMORY_OF_TEXT]
    gate = order_exchangeable(evidence, LIMITS, recorded=True)
    assert gate.status == "not_applicable" and "recorded" in gate.detail


# --- the command, and a run that names its record


@pytest.fixture
def exam(tmp_path: Path) -> Path:
    path = tmp_path / "exam.jsonl"
    rows = [
        {
            "id": f"x{k}",
            "question": f"What is {k}?",
            "choices": ["b", "d", "a", f"c{k}"],
            "answer": k % 4,
        }
        for k in range(40)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def resolved(folder: Path, *words: str) -> dict[str, object]:
    from audit.config.command_line import compose_command
    from audit.memory.config import MemoryConfig

    given = [
        "model=scripted",
        "benchmark=mcq_file",
        f"benchmark.path={folder}/exam.jsonl",
        "benchmark.id_column=id",
        "benchmark.answer_as=index",
        *words,
    ]
    return dict(resolve_memory(from_hydra(compose_command("memory", given, MemoryConfig))).analysis)


def test_publish_and_name_the_record(
    exam: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert (
        publish([str(exam), "id_column=id", "answer_as=index", "--out", str(out), "--seed", "4"])
        == 0
    )
    record = json.loads((out / "exam.order.json").read_text())
    assert record["seed"] == 4 and (out / "exam.order.json").stat().st_mode & 0o077 == 0
    assert "published_order=" in capsys.readouterr().out
    published = [json.loads(line) for line in (out / "exam.jsonl").read_text().splitlines()]
    assert [row["id"] for row in published] == [f"x{k}" for k in record["order"]]
    named = f"published_order={out}/exam.order.json"
    assert len(str(resolved(out, named)["published_order"])) == 64
    assert "published_order" not in resolved(out)
    (out / "exam.jsonl").write_text("".join(json.dumps(row) + "\n" for row in published[::-1]))
    with pytest.raises(ConfigError, match="another order"):
        resolved(out, named)
    with pytest.raises(ConfigError, match="Expected a record"):
        resolved(out, f"published_order={out}/exam.jsonl")


def test_a_seed_is_drawn_where_none_is_given(exam: Path, tmp_path: Path) -> None:
    for name in "ab":
        assert (
            publish([str(exam), "id_column=id", "answer_as=index", "--out", str(tmp_path / name)])
            == 0
        )
    first, second = (json.loads((tmp_path / name / "exam.order.json").read_text()) for name in "ab")
    assert first["seed"] != second["seed"] and first["order"] != second["order"]
    assert publish([str(tmp_path / "nowhere.jsonl"), "--out", str(tmp_path)]) == 1
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.json*")}
    for out in (
        exam.parent,
        tmp_path / name,
    ):  # over the exam itself, and over an order that may be published by now
        assert publish([str(exam), "id_column=id", "answer_as=index", "--out", str(out)]) == 1
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.json*")} == before


def test_where_a_section_begins_is_part_of_the_hash() -> None:
    items = [Item(f"q{k}", "b", f"text {k}", (), -1, f"q{k}", target=1.0) for k in range(4)]
    grouped = [replace(item, group=f"g{k // 2}") for k, item in enumerate(items)]
    assert order_sha256(items) != order_sha256(grouped)
