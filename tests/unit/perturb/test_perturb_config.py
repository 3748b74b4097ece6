"""What the run of the perturbation audit refuses before an engine loads, and its design."""

import json
import re
from dataclasses import replace

import pytest
from fresh_exam import fresh_exam
from perturb_cells import thinned

from audit.config import command_line
from audit.config.dry_run import dry_run
from audit.core.errors import ConfigError, LibraryError
from audit.core.records import Setting
from audit.judging.document import Library
from audit.perturb.config import PerturbConfig
from audit.perturb.design import make_design
from audit.perturb.plan import describe, resolve_perturb
from audit.registry.entry import comparable
from audit.shards.manifest import Manifest
from audit.variants.arrow import find_library


def configured(*overrides: str) -> PerturbConfig:
    return command_line.configured("perturb", ["model=scripted", "n=10", *overrides])


def test_the_design_is_the_originals_and_the_variants():
    design = make_design(2, 3)
    assert design.settings == (
        Setting("original", 0, 0),
        Setting("original", 0, 1),
        Setting("original", 0, 2),
        Setting("variant", 1, 0),
        Setting("variant", 2, 0),
    )
    assert all(len(part.levels) == 1 for part in design.parts)  # each is run again alone


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("num_variants=0", "num_variants: 0"),
        ("original_replicates=0", "original_replicates: 0"),
        ("short=never", "short"),
        ("references=[nobody]", "nobody"),
        ("references=[scripted]", "no model is judged"),
        (
            "control_variants=elementary",
            "control_variants is elementary, and control_benchmark is not set",
        ),
        ("+verdict.alpa=0.1", "alpa"),
        ("verdict.alpha=2", "0 < alpha < 1"),
    ],
)
def test_what_the_configuration_alone_tells_is_refused(override, message):
    with pytest.raises(ConfigError, match=message):
        configured(override)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("variants=nowhere", r"nowhere.*elementary"),
        ("num_variants=4", "num_variants=3 or less"),
        ("control_benchmark=elementary", "control_benchmark is the benchmark itself"),
    ],
)
def test_what_the_library_and_the_items_tell_is_refused(override, message):
    with pytest.raises((ConfigError, LibraryError), match=message):
        resolve_perturb(configured(override))


def test_questions_with_fewer_variants_are_kept_or_dropped_as_asked(tmp_path):
    path = thinned(1, tmp_path / "variants.arrow", every=2)  # 104 of 208 questions have one variant
    whole = resolve_perturb(configured(f"variants={path}", "n=all"))
    dropped = resolve_perturb(configured(f"variants={path}", "n=all", "short=drop"))
    assert [run.resolved.samples[0].sample.n for run in (whole, dropped)] == [208, 104]
    assert whole.resolved.identity != dropped.resolved.identity


def test_the_library_is_in_the_fingerprint_by_its_hash_however_it_was_named(tmp_path):
    sha = find_library("elementary").sha256
    other = thinned(3, tmp_path / "a" / "variants.arrow")
    by_name, by_hash, by_path = (
        resolve_perturb(configured(f"variants={v}")).resolved
        for v in ("elementary", sha[:12], other)
    )
    assert (
        by_name.identity == by_hash.identity == by_path.identity
    )  # the same rows have the same hash
    assert by_name.plain["variants"] == sha
    thin = resolve_perturb(
        configured(f"variants={thinned(2, tmp_path / 'b' / 'variants.arrow')}", "num_variants=2")
    )
    same = resolve_perturb(configured("variants=elementary", "num_variants=2"))
    assert thin.resolved.identity != same.resolved.identity


def test_fresh_items_are_drawn_from_those_with_a_variant_and_their_library_is_in_the_fingerprint(
    tmp_path,
):
    fresh = fresh_exam(tmp_path, 8)
    run = resolve_perturb(configured(*fresh))
    benchmark, control = run.resolved.samples
    # fewer than n=10: all of them
    assert (benchmark.sample.n, control.sample.n, control.benchmark.name) == (10, 8, "fresh")
    assert all(id_.startswith("f/elementary/") for id_ in control.sample.ids)
    assert run.resolved.plain["control_variants"] == run.control.library.sha256
    assert set(run.resolved.work("scripted").state) == {"elementary", "fresh"}
    alone = resolve_perturb(configured())
    assert alone.control is None and alone.resolved.identity != run.resolved.identity
    assert run.unlike == ""
    other = replace(run.control.library.header, window=(0.2, 0.5), judge=None)
    assert run.benchmark.library.header.made_unlike(other) == ("window",)


def test_what_fresh_items_cannot_be_is_refused(tmp_path):
    fresh = fresh_exam(tmp_path, 8)
    with pytest.raises(
        LibraryError,
        match=r"(?s)variant library.*fresh.*need rewordings too.*control_variants=",
    ):
        resolve_perturb(configured(*fresh[:-1]))
    with pytest.raises(LibraryError, match="rewords elementary, not fresh"):
        resolve_perturb(configured(*fresh[:-1], "control_variants=elementary"))
    twin = {
        "id": "f/x",
        "question": "Which  ANIMAL barks, and is kept to guard houses?",
        "choices": ["cow", "dog"],
    }
    with (tmp_path / "fresh.jsonl").open("a") as file:
        file.write(json.dumps({**twin, "answer": 1}) + "\n")
    with pytest.raises(
        ConfigError, match=r"1 items of fresh have the same text .* f/x and elementary/animals/01"
    ):
        resolve_perturb(configured(*fresh))


def test_the_plan_counts_calls_and_what_could_be_found(tmp_path):
    config = configured("n=100", "plan=true", *fresh_exam(tmp_path, 50))
    run = resolve_perturb(config)
    counts = dry_run(run.resolved)
    text = "\n".join(describe(run, config, counts))
    assert "500  200 original, 300 variant" in text and "250  100 original, 150 variant" in text
    # (1.960 + 0.842) * sqrt(0.2 / 2 * (1 + 1/3) / 100) = 10.23 points; with 1/100 + 1/50 in place
    # of 1/100: 17.72
    assert "10.2  points" in text and re.search(r"held-out items +17\.7 ", text)
    assert text.count("article: ") == 4 and "There are no references" in text
    assert [(count.planned.benchmark, count.planned.calls) for count in counts] == [
        ("elementary", 500),
        ("fresh", 250),
    ]


def test_another_library_of_the_fresh_items_is_another_control_in_a_registry():
    facts = {"elementary": {"revision": "r"}, "fresh": {"revision": "f", "ids_sha256": "1"}}

    def fields(**config: str) -> dict[str, str]:
        return comparable(
            Manifest("f", config, audit="perturb", benchmark=facts),
            "m",
            "elementary",
            Library(name="l", sha256="c" * 64),
        )

    first, other, sweep = (
        fields(control_variants="a" * 64),
        fields(control_variants="b" * 64),
        fields(),
    )
    assert len({first["control"], other["control"], sweep["control"]}) == 3
    assert first["design"] == other["design"]
