"""Edits: contracts, look-ups in the real files, what changes nothing is replaced; all five through the engine port."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from audit.audits import Work
from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.items import Item, question_of, shuffle_item
from audit.benchmarks.load import open_benchmark
from audit.config import load_group, load_model_config
from audit.engines.config import SamplingConfig
from audit.engines.scripted import ScriptedEngine
from audit.errors import ConfigError, ShardError
from audit.prompting.templates import load_protocol
from audit.records import Reading
from audit.runtime.stages import answer_request
from audit.scoring.reference import find_scorer
from audit.shards.files import make_folder
from audit.validity.design import Arm, make_design
from audit.validity.edits.file import digest, read_edits, to_table, write_edits
from audit.validity.edits.partners import Partners
from audit.validity.edits.plan import build_plan, request_of
from audit.validity.edits.record import PLAIN_LABELS, Contract, Family
from audit.validity.edits.show import mask, show
from audit.validity.edits.surface import FORMATS, changed_words, format_edit, placebo_edit
from audit.validity.edits.table import archetype_of, check_attribute, formats_of
from audit.validity.present import present, read

DATA = Path("../shared/data")
here = pytest.mark.skipif(not DATA.is_dir(), reason="../shared/data is not here")
PATHS = {
    "bbq": "bbq/data/Sexual_orientation.jsonl",
    "xstest": "xstest/xstest_prompts.csv",
    "toxigen": "toxigen/safenlp/toxiGen.json",
    "crows_pairs": "crows_pairs/crows_pairs_anonymized.csv",
    "truthfulqa": "truthfulqa/mc_task.json",
}
SCORERS = {"truthfulqa": "truthfulqa_lettered", "crows_pairs": "crows_causal_full"}


def items_of(name: str, path: str | None = None):
    config = BenchmarkConfig(name=name, format=name, path=path and str(DATA / path))
    return open_benchmark(config).read_items().items


def plan_of(name: str, items, n: int | None = None):
    scorer = find_scorer(SCORERS.get(name, name))
    sampled = [
        shuffle_item(one, 7) if name == "truthfulqa" else one for one in items[:: max(1, len(items) // (n or 1))]
    ]
    return scorer, build_plan(
        sampled[:n], scorer, Partners(items, 42), formats=formats_of(scorer), library=None, per_family=3, spares=1
    )


@pytest.fixture(scope="module")
def contrast():
    return items_of("contrast")


def test_contrast_is_balanced_and_its_contracts_are_as_declared(contrast):
    assert Counter(one.condition for one in contrast) == {"fact": 36, "story": 24}
    for kind, each in (("fact", 12), ("story", 8)):
        assert set(Counter(one.key for one in contrast if one.condition == kind).values()) == {each}
    for kind in ("fact", "story"):
        own = [one for one in contrast if one.condition == kind]
        for rule in (min, max):  # neither the shortest nor the longest option is a way to the key
            right = [one.options.index(rule(one.options, key=len)) == one.key for one in own]
            assert sum(right) / len(own) < 0.4
    _, plan = plan_of("contrast", contrast, len(contrast))
    for one in plan.items:
        assert {f: len(e) for f, e in one.edits.items()} == {
            Family.FORMAT: 4, Family.SEMANTIC: 3, Family.ATTRIBUTE: 2, Family.PLACEBO: 1,
        }  # fmt: skip
        wanted = Contract.DIRECTIONAL if one.item.condition == "fact" else Contract.INVARIANT
        assert {e.contract for e in one.edits[Family.ATTRIBUTE]} == {wanted}
        assert all(
            (e.item.key != one.item.key) == (wanted == Contract.DIRECTIONAL) for e in one.edits[Family.ATTRIBUTE]
        )
        for family in (Family.FORMAT, Family.SEMANTIC, Family.PLACEBO):
            assert all(e.contract == Contract.INVARIANT and e.item.key == one.item.key for e in one.edits[family])
    assert plan.replaced == {}


def test_no_two_requests_of_an_item_are_the_same(contrast):
    scorer, plan = plan_of("contrast", contrast, len(contrast))
    for one in plan.items:
        asked = [request_of(scorer, e.item, e.label_style) for edits in one.edits.values() for e in edits]
        asked.append(request_of(scorer, one.item, PLAIN_LABELS))
        assert len(set(asked)) == len(asked)


def test_an_edit_that_changes_nothing_is_replaced_by_one_that_does_and_counted(contrast):
    shouting = replace(contrast[0], text=contrast[0].text.upper())
    scorer = find_scorer("contrast")
    plan = build_plan(
        [shouting], scorer, Partners([shouting], 0), formats=("upper_case", "quotes", "preamble"), library=None,
        per_family=2, spares=0,
    )  # fmt: skip
    assert [e.name for e in plan.items[0].edits[Family.FORMAT]] == ["quotes", "preamble"]
    assert plan.replaced == {"upper_case": 1}
    assert plan.applicable(Family.FORMAT) == {"fact": 1.0}


def test_label_style_and_order_are_nothing_where_no_option_is_shown(contrast):
    hidden, shown = find_scorer("contrast_cloze"), find_scorer("contrast_letters")
    for name in ("label_style",):
        edit = format_edit(name, contrast[0])
        assert request_of(hidden, edit.item, edit.label_style) == request_of(hidden, contrast[0], PLAIN_LABELS)
        assert request_of(shown, edit.item, edit.label_style) != request_of(shown, contrast[0], PLAIN_LABELS)


def test_the_order_of_options_keeps_what_they_are():
    item = Item("a/1", "made", "Which?", ("x", "y", "z"), 1, "a/1")
    turned = format_edit("option_order", item).item
    assert (turned.options, turned.shown, turned.key) == (("y", "z", "x"), (1, 2, 0), 1)
    assert turned.published == item.options and turned.options[turned.shown.index(turned.key)] == "y"


def test_a_format_edit_of_a_pair_is_on_both_sentences():
    pair = Item("crows_pairs/1", "crows_pairs", "", ("One is here.", "Two is here."), 0, "g")
    assert format_edit("upper_case", pair).item.options == ("ONE IS HERE.", "TWO IS HERE.")


def test_a_placebo_has_the_distance_of_the_attribute_edit():
    item = Item("a/1", "made", "What is a young dog called?", ("x", "y"), 0, "a/1")
    other = replace(item, text="What is a young cat called?")
    assert changed_words(item, other) == 1
    for words in (1, 3, 8):
        assert changed_words(item, placebo_edit(item, words).item) == words
    assert placebo_edit(item, 40).name == "placebo_8"


def test_an_unknown_edit_and_a_scorer_without_attribute_edits_are_refused():
    item = Item("a/1", "made", "Which?", ("x", "y"), 0, "a/1")
    with pytest.raises(ConfigError, match=r"lower_case.*upper_case"):
        format_edit("lower_case", item)
    with pytest.raises(ConfigError, match="truthfulqa_lettered"):
        check_attribute(find_scorer("truthfulqa_mc1"))


def test_archetypes():
    assert [archetype_of(x) for x in ([], [True], [False, False], [True, False])] == [
        None, "diagnostic", "invariance", "mixed",
    ]  # fmt: skip


@here
def test_bbq_partners_are_those_of_the_file():
    items = items_of("bbq", PATHS["bbq"])
    partners = Partners(items, 42)
    found = {item.id: list(partners.edits(item)) for item in items}
    assert all(len(edits) == 1 for edits in found.values())  # 864 of 864
    for item in items:
        (edit,) = found[item.id]
        directional = item.condition == "disambig"
        assert (edit.contract == Contract.DIRECTIONAL) == directional == (edit.item.key != item.key)
        assert edit.item.options == item.options and edit.item.text == item.text
        assert edit.item.context != item.context
        if not directional:
            assert edit.item.key == item.bbq.unknown


@here
def test_xstest_toxigen_and_crows_partners():
    xstest = items_of("xstest", PATHS["xstest"])
    found = [list(Partners(xstest, 1).edits(item)) for item in xstest]
    assert sum(map(bool, found)) == 400 and max(map(len, found)) == 1  # 50 safe items have none
    assert all(e.item.key != item.key for item, edits in zip(xstest, found, strict=True) for e in edits)
    toxigen = items_of("toxigen", PATHS["toxigen"])
    partners = Partners(toxigen, 1)
    for item in toxigen[::97]:
        for edit in partners.edits(item):
            assert edit.item.key != item.key and edit.item.facts == item.facts
    crows = items_of("crows_pairs", PATHS["crows_pairs"])
    partners = Partners(crows, 1)
    edited = [(item, edit) for item in crows[::25] for edit in partners.edits(item)]
    assert edited and all(e.contract == Contract.INVARIANT and e.item.key == item.key for item, e in edited)
    for item, edit in edited:  # never relabelled: no word that told the two sentences apart stands on the other side
        (more, less), (new_more, new_less) = ([t.lower() for t in one.options] for one in (item, edit.item))
        assert new_more != less and new_less != more and (new_more, new_less) != (more, less)


@here
@pytest.mark.parametrize("name", PATHS)
def test_each_benchmark_goes_through_the_engine_port(name, tmp_path):
    items = items_of(name, PATHS[name])
    scorer, plan = plan_of(name, items, 20)
    table = to_table(plan, scorer.name)
    make_folder(tmp_path)
    path = write_edits(table, tmp_path)
    assert digest(read_table := to_table(plan, scorer.name)) == digest(table) and read_table.num_rows == table.num_rows
    file = read_edits(path)
    assert set(file.items) == {one.item.id for one in plan.items}
    design = make_design(3, 1, 1)
    limits = SamplingConfig(16, 0.0, 1.0)
    protocol = load_protocol(load_group("protocol", "song2026"), {})
    work = Work(design, protocol, "scripted", Reading.OPTION_TEXT, limits, limits, 1, str(path))
    questions = {one.item.id: question_of(one.item) for one in plan.items}
    engine = ScriptedEngine(load_model_config("scripted"), "scripted-0", questions)
    states = Counter()
    for id_, question in questions.items():
        for part in design.parts:
            for setting, one in zip(part.settings, present(work, question, part, ()), strict=True):
                if one.error is not None:
                    assert not one.extras["asked"]
                    states["not asked"] += 1
                    continue
                request = answer_request(work, question, setting, one)
                (reply,) = asyncio.run(engine.run([request]))
                score, own = read(work, question, setting, one, reply)
                states["read" if score.answer.parsed else own["unread_why"]] += 1
                if setting.arm == Arm.ORIGINAL:
                    assert one.extras["key_after"] == file.items[id_].key
    assert states["read"] > 0.8 * (sum(states.values()) - states["not asked"]), states


def test_edits_of_another_version_are_refused_in_a_sentence(contrast, tmp_path):
    scorer, plan = plan_of("contrast", contrast, 4)
    make_folder(tmp_path)
    path = write_edits(to_table(plan, scorer.name).drop_columns(["facts"]), tmp_path)
    with pytest.raises(ShardError, match="Type the run's command again"):
        read_edits(path)


@here
@pytest.mark.parametrize("name", ["toxigen", "xstest"])
def test_what_is_shown_of_benchmarks_with_slurs_is_masked(name):
    items = items_of(name, PATHS[name])
    _, plan = plan_of(name, items, 10)
    text = "\n".join(show(plan, name))
    words = {
        w for one in plan.items for w in one.item.text.split() if len(w) > 5 and w.isalpha() and set(w.lower()) != {"x"}
    }
    lines = [line.split("] ")[0] for line in text.splitlines() if ": " in line and "[key" in line]
    assert lines and not any(word in line.split(": ", 1)[1] for word in words for line in lines)
    assert mask("Ab  c1!") == "Xx  x1!"


def test_every_format_edit_is_named_once():
    assert set(formats_of(find_scorer("contrast"))) | set(formats_of(find_scorer("contrast_letters"))) <= set(FORMATS)


def test_a_list_of_benchmarks_is_a_run_each():
    from audit.validity.__main__ import _panel

    assert _panel(["n=4", "benchmark=bbq"]) == [["n=4", "benchmark=bbq"]]
    assert _panel(["benchmark=[bbq, xstest]", "run_dir=out", "n=4"]) == [
        ["benchmark=bbq", "run_dir=out/bbq", "n=4"],
        ["benchmark=xstest", "run_dir=out/xstest", "n=4"],
    ]
    judged = _panel(["benchmark=[bbq,xstest]", "judge=m", "labels=f.csv"])
    assert judged == [["benchmark=bbq"], ["benchmark=xstest", "judge=m", "labels=f.csv"]]
    assert _panel(["benchmark=[bbq,toxigen]", "judge=m"])[0] == ["benchmark=bbq", "judge=m"]  # it is refused there
