"""What the run of the memory audit refuses before an engine loads, and its design."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from audit.benchmarks.fresh import shared_items
from audit.benchmarks.rows import words_alone
from audit.config import command_line
from audit.config.dry_run import dry_run
from audit.config.short_forms import one_call
from audit.core.errors import AuditError
from audit.core.records import Item, Setting
from audit.memory.config import MemoryConfig, design_of
from audit.memory.design import make_design
from audit.memory.plan import _missing, cautions, describe, resolve_memory


def configured(*overrides: str) -> MemoryConfig:
    return command_line.configured("memory", ["model=scripted", *overrides])


def fresh_file(folder: Path, *rows: tuple[str, str]) -> Path:
    path = folder / "fresh.jsonl"
    lines = [
        {"id": f"new/{k}", "domain": "d", "question": q, "choices": ["w", "x", "y", z], "answer": 3}
        for k, (q, z) in enumerate(rows)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def fresh(path: Path) -> tuple[str, ...]:
    return (
        "control_benchmark=elementary",
        "control_benchmark.name=fresh",
        f"control_benchmark.path={path}",
    )


def test_the_design_has_the_order_test_only_where_every_item_is_asked():
    whole = make_design(5, 2, 1, whole=True).settings
    assert Setting("order", 2) in whole and len(whole) == 2 + 1 + 3
    assert {s.arm for s in make_design(5, 2, 1, whole=False).settings} == {
        "score",
        "published",
        "options",
    }


def test_of_an_endpoint_the_score_alone_is_asked(tmp_path):
    words = fresh(fresh_file(tmp_path, ("What is new here?", "all")))
    for overrides in (("model=openai_compatible",), ("orders=0", "option_orders=0")):
        config = configured(*overrides, *words)
        assert [s.arm for s in design_of(config).settings] == [
            "score"
        ] and config.orders == config.option_orders == 0
        assert "likelihood" in _missing(config, whole=False)[0]


def test_the_plan_names_the_missing_dates_and_references_of_one_family(tmp_path):
    held_out = fresh(fresh_file(tmp_path, ("What is new here?", "all")))
    served = ["endpoint=http://127.0.0.1:1/v1", "model_id=mine", "references=[ref-1,ref-2]"]
    words = [*served, "benchmark=elementary", *held_out, "control_benchmark.date=2026-05"]

    def notes(*more: str) -> list[str]:
        with one_call():
            config = command_line.configured("memory", [*words, *more])
            return cautions(resolve_memory(config), config)

    mine = "model.mine.released=2025-12"
    dates, families = notes(mine)
    assert dates.endswith("Missing: model.ref-1.released, model.ref-2.released.")
    assert "model.ref-1.family=oak model.ref-2.family=pine" in families
    assert notes()[0].endswith(
        "Missing: model.mine.released, model.ref-1.released, model.ref-2.released."
    )
    dated = [mine, "model.ref-1.released=2025-10"]
    assert notes(*dated)[0].endswith("Missing: model.ref-2.released.")
    both = [*dated, "model.ref-2.released=2025-09"]
    assert notes(*both) == [families]
    oaks = notes(*both, "model.ref-1.family=oak", "model.ref-2.family=oak")
    assert len(oaks) == 1 and "(oak)" in oaks[0] and "model." not in oaks[0]
    assert notes(*both, "model.ref-1.family=oak") == []


def test_a_plan_with_prices_ends_in_the_sum_of_all_models(tmp_path):
    held_out = fresh(fresh_file(tmp_path, ("What is new here?", "all")))
    served = ["endpoint=http://127.0.0.1:1/v1", "model_id=mine", "references=[ref-1]"]
    prices = [
        f"+cost.prices.{name}={{prompt: 0, generated: 1000000}}" for name in ("mine", "ref-1")
    ]

    def plan(*more: str) -> tuple[list[str], int, int]:
        with one_call():
            config = command_line.configured(
                "memory", [*served, "benchmark=elementary", *held_out, *more]
            )
            resolved = resolve_memory(config)
            estimates = dry_run(resolved)
            calls = sum(estimate.planned.calls for estimate in estimates)
            generated = sum(estimate.planned.tokens.generated for estimate in estimates)
            return describe(resolved, config, estimates), calls, generated

    lines, calls, generated = plan(*prices)  # a generated token costs 1 USD
    assert lines[-1].startswith(f"in all: about {calls:,} calls")
    assert lines[-1].endswith(f"at most {generated:,.2f} USD")
    plain, *_ = plan()
    assert not any(line.startswith("in all") for line in plain)
    unknown = [line for line in plain if "+cost.prices." in line]
    assert len(unknown) == 4 and "+cost.prices.ref-1=" in unknown[-1]  # two models, two sets


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("shard_items=1", "shard_items is 1"),
        ("orders=0", "orders is 0"),
        ("option_orders=5000", "option_orders is 5000"),
        ("references=[nobody]", "nobody"),
        ("references=[scripted]", "no model is judged"),
        ("verdict.alpha=2", "0 < alpha < 1"),
        ("+shards=3", "shards"),
        ("model=openai_compatible", "control_benchmark"),
        ("n=0", "n: 0"),
    ],
)
def test_what_the_configuration_alone_tells_is_refused(override, message):
    with pytest.raises(AuditError, match=message):
        configured(override)


def test_fresh_items_may_be_a_file(tmp_path):
    path = fresh_file(tmp_path, ("What is new here?", "all"), ("And what is not?", "none"))
    resolved = resolve_memory(configured(*fresh(path), f"run_dir={tmp_path / 'run'}"))
    assert [s.benchmark.name for s in resolved.samples] == ["elementary", "fresh"]
    assert [q.id for q in resolved.samples[1].questions()] == ["new/0", "new/1"]
    other = fresh_file(tmp_path, ("What else is new?", "all"))
    changed = resolve_memory(configured(*fresh(other), f"run_dir={tmp_path / 'run'}"))
    assert changed.identity != resolved.identity  # the file's content is part of the run


def test_a_fresh_set_that_shares_an_item_is_refused_whatever_its_marks(tmp_path):
    path = fresh_file(
        tmp_path, ("New?", "all"), ("which ANIMAL barks, and is kept to guard   houses", "dog")
    )
    with pytest.raises(
        AuditError, match=r"1 items of fresh have the same text .* new/1 and elementary/animals/01"
    ):
        resolve_memory(configured(*fresh(path)))


def test_items_that_ask_one_question_of_several_lists_are_told_apart_by_these():
    def item(id_: str, *options: str) -> Item:
        return Item(id_, "b", "Which of these is a fruit?", options, 0, id_)

    two = [item("1", "apple", "chair"), item("2", "pear", "table")]
    assert shared_items(two, [item("3", "plum", "spoon")]) == []
    assert shared_items(two, [item("3", "Table", "pear")]) == [("2", "3")]
    assert shared_items(two[:1], [item("3", "plum", "spoon")]) == [("1", "3")]
    assert words_alone("  It’s “ＡＢＣ” — isn't_it? ") == "it s abc isn t it"


def plan_of(config):
    resolved = resolve_memory(config)
    return "\n".join(describe(resolved, config, dry_run(resolved)))


def test_the_plan_counts_calls_and_says_what_cannot_be_judged():
    lines = plan_of(configured("orders=2"))
    # 208 items; published and two other orders each; of their options the plan counts those that
    # there are
    assert "208 score, 208 published" in lines and "624 order" in lines
    assert (
        "they need held-out items (control_benchmark=) and references (" in lines
        and "n=all" not in lines
    )
    words = ("control_benchmark=contrast", "n=20")
    assert "they need references (" in "\n".join(_missing(configured(*words), whole=True))
    partial = plan_of(configured("n=20"))
    assert "n=all" in partial


def test_the_plan_prints_the_command_of_a_design_that_clears_models(tmp_path):
    path = fresh_file(tmp_path, *((f"What is new in {k}?", f"all {k}") for k in range(3_100)))
    words = (f"benchmark.path={path}", "n=20")
    lines = plan_of(configured("benchmark=elementary", *words))
    assert "audit memory" in lines and "n=3000" in lines and "8 references" in lines


def test_the_plan_says_that_few_references_do_not_find_answers(tmp_path):
    path = fresh_file(tmp_path, ("What is new here?", "all"), ("And what is not?", "none"))

    def plan(count: int) -> str:
        names = [f"r{k}" for k in range(count)]
        config = configured(*fresh(path), "n=2")
        config.model.update({name: replace(config.model["scripted"], name=name) for name in names})
        config.references = names
        return plan_of(config)

    assert [f"\n  {n} references " in plan(n) for n in (1, 3, 5)] == [False, True, False]
