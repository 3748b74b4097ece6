"""Edits: contracts, look-ups in the real files, what changes nothing is replaced, how far they are
from originals."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scripted_models as models
from published_items import items_of
from tokenizers import Tokenizer
from tokenizers.models import BPE
from validity_runs import edits_of, plan_with

from audit.benchmarks.items import ContrastFacts, CrowsFacts, bbq_facts
from audit.core.errors import ShardError
from audit.core.records import Item
from audit.engines.config import ModelConfig
from audit.engines.embedder import Embedding
from audit.engines.weights import Weights
from audit.scoring.reference import find_scorer
from audit.shards.files import make_folder
from audit.validity.edits.file import (
    TOKENS_FILE,
    EditFile,
    as_array,
    distances,
    read_edits,
    read_token_distances,
    to_table,
    write_edits,
    write_token_distances,
)
from audit.validity.edits.plan import Partners, mask, request_of, show
from audit.validity.edits.record import PLAIN_LABELS, Contract, Family
from audit.validity.edits.surface import distance, format_edit, placebo_edit, refilled, words
from audit.validity.evidence import measure
from audit.variants.build import Gates, build_variants, once
from audit.variants.config import Policy
from audit.variants.record import Candidate

PATHS = {
    "bbq": "data/Sexual_orientation.jsonl",
    "xstest": "xstest_prompts.csv",
    "toxigen": "safenlp/toxiGen.json",
    "crows_pairs": "crows_pairs_anonymized.csv",
}


@pytest.fixture
def real(shared_data):
    """real("bbq"): the items of the published file."""
    return lambda name: items_of(name, shared_data / name / PATHS[name])


def plan_of(name: str, items, n: int | None = None):
    scorer = find_scorer("crows_causal_full" if name == "crows_pairs" else name)
    sampled = items[:: max(1, len(items) // (n or 1))][:n]
    return scorer, plan_with(scorer, sampled, Partners(items, 42), per_family=3)


@pytest.fixture(scope="module")
def contrast():
    return items_of("contrast")


def test_contrast_is_balanced_and_its_contracts_are_as_declared(contrast):
    assert Counter(item.condition for item in contrast) == {"fact": 36, "story": 24}
    for kind, each in (("fact", 12), ("story", 8)):
        assert set(Counter(item.key for item in contrast if item.condition == kind).values()) == {
            each
        }
    for kind in ("fact", "story"):
        items = [item for item in contrast if item.condition == kind]
        for rule in (min, max):  # neither the shortest nor the longest option is a way to the key
            right = [item.options.index(rule(item.options, key=len)) == item.key for item in items]
            assert sum(right) / len(items) < 0.4
    _, plan = plan_of("contrast", contrast, len(contrast))
    for item in plan.items:
        assert {f: len(e) for f, e in item.edits.items()} == {
            Family.FORMAT: 4,
            Family.SEMANTIC: 3,
            Family.ATTRIBUTE: 2,
            Family.PLACEBO: 1,
        }
        wanted = Contract.DIRECTIONAL if item.item.condition == "fact" else Contract.INVARIANT
        assert {e.contract for e in item.edits[Family.ATTRIBUTE]} == {wanted}
        assert all(
            (e.item.key != item.item.key) == (wanted == Contract.DIRECTIONAL)
            for e in item.edits[Family.ATTRIBUTE]
        )
        for family in (Family.FORMAT, Family.SEMANTIC, Family.PLACEBO):
            assert all(
                e.contract == Contract.INVARIANT and e.item.key == item.item.key
                for e in item.edits[family]
            )
    assert plan.replaced == {}


def test_no_two_requests_of_an_item_are_the_same(contrast):
    scorer, plan = plan_of("contrast", contrast, len(contrast))
    for item in plan.items:
        requests = [
            request_of(scorer, e.item, e.label_style)
            for edits in item.edits.values()
            for e in edits
        ]
        requests.append(request_of(scorer, item.item, PLAIN_LABELS))
        assert len(set(requests)) == len(requests)


def test_an_edit_that_changes_nothing_is_replaced_by_one_that_does_and_counted(contrast):
    shouting = contrast[0].reworded(contrast[0].text.upper())
    scorer = find_scorer("contrast")
    plan = plan_with(scorer, [shouting], formats=("upper_case", "quotes", "preamble"), spares=0)
    assert [e.name for e in plan.items[0].edits[Family.FORMAT]] == ["quotes", "preamble"]
    assert plan.replaced == {"upper_case": 1}
    assert plan.applicable(Family.FORMAT) == {"fact": 1.0}


def test_label_style_and_order_are_nothing_where_no_option_is_shown(contrast):
    hidden, shown = find_scorer("contrast_cloze"), find_scorer("contrast_letters")
    edit = format_edit("label_style", contrast[0])
    assert request_of(hidden, edit.item, edit.label_style) == request_of(
        hidden, contrast[0], PLAIN_LABELS
    )
    assert request_of(shown, edit.item, edit.label_style) != request_of(
        shown, contrast[0], PLAIN_LABELS
    )


def test_a_format_edit_keeps_what_the_options_are_and_is_on_both_sentences_of_a_pair():
    item = Item("a/1", "made", "Which?", ("x", "y", "z"), 1, "a/1")
    turned = format_edit("option_order", item).item
    assert (turned.options, turned.shown, turned.key) == (("y", "z", "x"), (1, 2, 0), 1)
    assert (
        turned.published == item.options and turned.options[turned.shown.index(turned.key)] == "y"
    )
    assert format_edit("upper_case", PAIR).item.options == (
        "ONE IS HERE.",
        "TWO IS HERE.",
    )  # both sentences


PAIR = Item("crows_pairs/1", "crows_pairs", "", ("One is here.", "Two is here."), 0, "g")


def test_a_placebo_has_the_distance_of_the_attribute_edit():
    item = Item("a/1", "made", "What is a young dog called?", ("x", "y"), 0, "a/1")
    for count in (1, 3, 8, 40):
        assert distance(words(item), words(placebo_edit(item, count).item)) == (count, count)
    assert placebo_edit(item, 60).name == "placebo_48"
    assert (
        distance(words(PAIR), words(placebo_edit(PAIR, 6).item))[0] == 6
    )  # three in each sentence


def test_a_library_rewords_what_a_pair_shares_and_leaves_the_groups_words_as_they_are():
    """Through the library's own gates: the question of a pair is its shared words, with blanks."""

    class Embedder:
        name, revision = "made", "made"

        def embed(self, texts):
            angles = np.arccos(1 - np.array([0.3 * (k > 0) for k, _ in enumerate(texts)]))
            return [
                Embedding(np.array([np.cos(a), np.sin(a)], dtype=np.float32), 3) for a in angles
            ]

    item = Item(
        "crows_pairs/1",
        "crows_pairs",
        "",
        ("The tall man ran, and we saw it.", "The small man ran, and we saw it."),
        0,
        "crows_pairs/1",
        facts=CrowsFacts("height"),
    )
    assert item.text == "The ___ man ran, and we saw it."
    texts = (
        "We saw that the ___ man was running.",
        "We saw the man run.",
        "The man whom we saw run was ___",
    )
    proposed = [Candidate(item.id, k, text, "made") for k, text in enumerate(texts, start=1)]
    made = build_variants(
        [item], once(proposed), Gates(Policy(), Embedder()), num_variants=3, max_attempts=1
    )
    assert [variant.state for variant in made] == ["accepted"] * 3, [
        variant.rules for variant in made
    ]
    scorer = find_scorer("crows_causal_full")
    plan = plan_with(scorer, [item], formats=(), library={item.id: made}, per_family=3, spares=0)
    semantic = plan.items[0].edits[Family.SEMANTIC]
    assert [edit.item.options for edit in semantic] == [
        ("We saw that the tall man was running.", "We saw that the small man was running."),
        ("The man whom we saw run was tall", "The man whom we saw run was small"),
    ]  # the one without a blank is not taken, and the family is short of one
    assert plan.applicable(Family.SEMANTIC) == {"": pytest.approx(2 / 3)}
    assert {edit.contract for edit in semantic} == {Contract.INVARIANT}


@pytest.mark.parametrize(
    ("name", "within_one"), [("toxigen", 0.95), ("crows_pairs", 0.7), ("bbq", 0.95)]
)
def test_the_placebo_is_as_far_as_the_attribute_edits_in_the_real_files(real, name, within_one):
    """In words, on average within one half; a pair has it in both sentences, so that an odd number
    cannot be met."""
    items = real(name)
    _, plan = plan_of(name, items, 120)
    by_place = {
        (item.item.id, f, k): e
        for item in plan.items
        for f, edits in item.edits.items()
        for k, e in enumerate(edits)
    }
    by_item = distances(EditFile({item.item.id: item.item for item in plan.items}, by_place, {}))
    gaps = np.array([placebo - attribute for placebo, attribute, *_ in by_item.values()])
    assert len(gaps) > 80 and abs(gaps.mean()) < 0.5 and np.mean(np.abs(gaps) <= 1) > within_one


def test_every_pair_of_the_file_comes_back_from_what_it_shares(real):
    for item in real("crows_pairs"):
        assert refilled(item.options, item.text) == tuple(" ".join(t.split()) for t in item.options)


def test_bbq_partners_are_those_of_the_file(real):
    items = real("bbq")
    partners = Partners(items, 42)
    by_item = {item.id: list(partners.edits(item)) for item in items}
    assert all(len(edits) == 1 for edits in by_item.values())  # 864 of 864
    for item in items:
        (edit,) = by_item[item.id]
        directional = item.condition == "disambig"
        assert (edit.contract == Contract.DIRECTIONAL) == directional == (edit.item.key != item.key)
        assert edit.item.options == item.options and edit.item.stem == item.stem
        assert edit.item.context != item.context
        if not directional:
            assert edit.item.key == bbq_facts(item).unknown


def test_xstest_toxigen_and_crows_partners(real):
    xstest = real("xstest")
    edit_lists = [list(Partners(xstest, 1).edits(item)) for item in xstest]
    assert (
        sum(map(bool, edit_lists)) == 400 and max(map(len, edit_lists)) == 1
    )  # 50 safe items have none
    assert all(
        e.item.key != item.key
        for item, edits in zip(xstest, edit_lists, strict=True)
        for e in edits
    )
    toxigen = real("toxigen")
    partners = Partners(toxigen, 1)
    for item in toxigen[::97]:
        for edit in partners.edits(item):
            assert edit.item.key != item.key and edit.item.facts == item.facts
    crows = real("crows_pairs")
    partners = Partners(crows, 1)
    edited = [(item, edit) for item in crows[::25] for edit in partners.edits(item)]
    assert edited and all(
        e.contract == Contract.INVARIANT and e.item.key == item.key for item, e in edited
    )
    for (
        item,
        edit,
    ) in (
        edited
    ):  # never relabelled: no word that told the two sentences apart stands on the other side
        (more, less), (new_more, new_less) = (
            [t.lower() for t in version.options] for version in (item, edit.item)
        )
        assert new_more != less and new_less != more and (new_more, new_less) != (more, less)


def test_a_pair_s_own_words_are_replaced_and_no_letters_before_them():
    """In "The" stands "he", and a group may stand in what both sentences share: 10 of 2,532 were
    edited there."""
    pairs = [
        ("The tall nurse said he was late.", "The tall nurse said she was late."),
        ("A black cat likes black people.", "A black cat likes white people."),
        ("Then Mary left.", "Then John left."),
    ]
    items = [
        Item(
            f"crows_pairs/{k}",
            "crows_pairs",
            "",
            pair,
            0,
            f"{k}",
            (0, 1),
            condition="stereo",
            facts=CrowsFacts("x"),
        )
        for k, pair in enumerate(pairs)
    ]
    partners = Partners(items, 1)
    option_sets = [{edit.item.options for edit in partners.edits(item)} for item in items]
    assert (
        "The tall nurse said mary was late.",
        "The tall nurse said john was late.",
    ) in option_sets[0]
    assert ("A black cat likes he people.", "A black cat likes she people.") in option_sets[1]


def test_edits_of_another_version_are_refused_in_a_sentence(contrast, tmp_path):
    scorer, plan = plan_of("contrast", contrast, 4)
    make_folder(tmp_path)
    path = write_edits(to_table(plan, scorer.name).drop_columns(["facts"]), tmp_path)
    with pytest.raises(ShardError, match="Run the same command again"):
        read_edits(path)


@pytest.mark.parametrize("name", ["toxigen", "xstest"])
def test_what_is_shown_of_benchmarks_with_slurs_is_masked(real, name):
    items = real(name)
    _, plan = plan_of(name, items, 10)
    text = "\n".join(show(plan, name))
    words = {
        w
        for item in plan.items
        for w in item.item.text.split()
        if len(w) > 5 and w.isalpha() and set(w.lower()) != {"x"}
    }
    lines = [line.split("] ")[0] for line in text.splitlines() if ": " in line and "[key" in line]
    assert lines and not any(word in line.split(": ", 1)[1] for word in words for line in lines)
    assert mask("Ab  c1!") == "Xx  x1!"


# Two attribute edits: one word of six, and three of six.
ITEM = Item(
    "contrast/1",
    "contrast",
    "What does the old dog eat?",
    ("Hay.", "Bones.", "Stones."),
    1,
    "contrast/1",
    condition="fact",
    facts=ContrastFacts(
        (), (("What does the old cow eat?", 0), ("What might this old pig eat?", 0))
    ),
)


@pytest.fixture(scope="module")
def edits(tmp_path_factory: pytest.TempPathFactory) -> EditFile:
    return edits_of(tmp_path_factory.mktemp("edits"), [ITEM], "contrast", spares=0)


def test_distance_by_hand():
    assert distance("abcdef", "abcdef") == (0, 0)
    assert distance("abcdef", "aXcdeYZ") == (3, 6)  # one and two replaced, three between them
    assert distance("abc", "xyabc") == (2, 2)


def test_the_placebo_has_as_many_words_as_the_attribute_edits_on_average(edits: EditFile) -> None:
    # Changed: 1 and 3, so 2; spans 1 and 4 ("might this old pig").
    assert distances(edits) == {"contrast/1": [2.0, 2.0, 2.0, 2.5]}


def test_each_model_s_tokenizer_is_asked_and_a_file_that_is_damaged_is_refused(
    edits: EditFile, tmp_path: Path
) -> None:
    """A tokenizer of single letters: "Now then, " has ten of them; "dog" to "cow" changes two or
    three."""
    folder = tmp_path / "model"
    folder.mkdir()
    texts = "".join(edit.item.text for edit in edits.edits.values()) + ITEM.text
    Tokenizer(BPE({c: i for i, c in enumerate(sorted(set(texts)))}, [])).save(
        str(folder / "tokenizer.json")
    )
    resolved = SimpleNamespace(
        answering={
            name: ModelConfig(name=name, engine=engine, path=str(folder))
            for name, engine in (("m", "vllm"), ("endpoint", "openai"))
        },
        weights={"m": Weights(str(folder), "sha256:0", None), "endpoint": None},
    )
    write_token_distances(tmp_path, resolved, edits)
    per_model = read_token_distances(tmp_path)
    assert set(per_model) == {"m"}
    placebo, attribute, span, _ = per_model["m"]["contrast/1"]
    assert placebo == span == len("Now then, ") and 2 <= attribute < 10
    (tmp_path / TOKENS_FILE).write_text("[]")
    with pytest.raises(ShardError, match="cannot be read"):
        read_token_distances(tmp_path)
    assert read_token_distances(tmp_path / "model") == {}


def test_the_difference_is_stated_for_the_items_that_have_both():
    base = models.cell(models.follower, n=30)
    by_item = {
        id_: [4.0, 5.0 if i % 2 else 3.0, 4.0, 9.0]
        for i, id_ in enumerate(base.question_ids)
        if i < 20
    }
    measured = replace(base, distances=as_array(by_item, base.question_ids), distance_unit="tokens")
    match = measure(measured, rng=np.random.default_rng(0), n_resamples=10).placebo_match
    assert match is not None and match.unit == "tokens" and match.changed.n == 20
    assert (match.placebo_changed, match.attribute_changed, match.attribute_span) == (4.0, 4.0, 9.0)
    assert match.changed.estimate == 0 and match.equal == 1.0 and match.span.estimate == -5.0
    assert measure(base, rng=np.random.default_rng(0), n_resamples=10).placebo_match is None
