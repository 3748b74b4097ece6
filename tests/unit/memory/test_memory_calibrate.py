"""The simulated worlds are what they say, and the generator writes its table."""

import json
from argparse import Namespace
from dataclasses import fields, replace

import numpy as np
import pytest
from commands_here import options_of

from audit.core.number_text import percent
from audit.core.package_data import shipped_table
from audit.judging.simulated import calibrate, run_calibration
from audit.judging.world import World
from audit.memory import calibrate as memory
from audit.memory.analyse import JUDGE, nearest
from audit.memory.calibrate import OUTCOMES, judge
from audit.memory.design import MemoryThresholds
from audit.memory.evidence import Name, correct, measure, upper_limit
from audit.memory.vocabulary import MemoryVerdict
from audit.memory.worlds import CLEAN, WORLDS, MemoryDesign, simulate

DESIGN = MemoryDesign(4000, 4000, 3)


def world(name: str):
    return simulate(DESIGN, WORLDS[name], np.random.default_rng(3))


def accuracies(name: str):
    """(models, 2): published, fresh."""
    made = world(name)
    return np.array(
        [[np.nanmean(side.score) for side in pair] for pair in (made.tested, *made.references)]
    )


def test_worlds_of_scores_are_what_they_say():
    close = {"abs": 0.03}
    assert accuracies("clean") == pytest.approx(
        np.array([[0.7] * 2, [0.65] * 2, [0.7] * 2, [0.75] * 2]), **close
    )
    assert accuracies("abler")[:, 0] == pytest.approx([0.7, 0.8, 0.875, 0.95], **close)
    wide = accuracies(
        "spread_wider"
    )  # as hard for the average reference, and not for an abler model
    assert wide[1:].mean(axis=0) == pytest.approx([0.6, 0.6], **close)
    assert wide[0] == pytest.approx([0.85, 0.79], **close)
    assert (accuracies("harder") @ [1, -1]).mean() == pytest.approx(0.1, **close)
    assert accuracies("newer") @ [1, -1] == pytest.approx([0.06, 0, 0, 0], **close)
    assert accuracies("touchy") @ [1, -1] == pytest.approx([0, 0.08, 0, 0], **close)
    known = accuracies("half_contaminated")
    assert known @ [1, -1] == pytest.approx([0.15, 0.175, 0, 0], abs=0.035)
    assert accuracies("gap_5")[0] @ [1, -1] == pytest.approx(0.05, **close)
    chosen = accuracies("chosen_harder")  # out of items that are 10 points harder
    assert (
        chosen[1:] @ [1, -1] == pytest.approx([0, 0, 0], abs=0.02)
        and 0.02 < chosen[0] @ [1, -1] < 0.1
    )
    published, fresh = world("gap_5_hidden").tested
    for side in (published, fresh):  # 4 % of 4,000, each drawn
        assert np.isnan(side.score).sum() == pytest.approx(160, abs=50)
    lost = world("clean_unparsed").references[0][0]
    assert lost.unread.mean() == pytest.approx(0.04, abs=0.01)


def test_worlds_of_texts_are_what_they_say():
    def parts(name):
        made = world(name)
        return [(side[0], side[1].texts["item"]) for side in (made.tested, *made.references)]

    (published, fresh), *_ = parts("larger_1.5")
    assert fresh.std() == pytest.approx(0.15 * 1.5, rel=0.05)
    assert published.texts["item"].mean() - fresh.mean() == pytest.approx(
        0.15 * 0.5 * 1.5, abs=0.02
    )
    assert (
        fresh.mean() > 0.95 * parts("larger_1.5")[1][1].mean()
    )  # fewer nats a byte than smaller models
    for name, gain, others in (("text", 0.3, 0), ("felt_2", 0.6, 0.3), ("sequenced", 0.3, 0.3)):
        (published, _), *rest = parts(name)
        assert published.options[:, 0].mean() == pytest.approx(gain, abs=0.06), name
        assert np.mean([reference.options[:, 0].mean() for reference, _ in rest]) == pytest.approx(
            others, abs=0.12
        ), name


def test_rates_are_reproducible_and_written(tmp_path):
    design = MemoryDesign(60, 40, 1)
    arguments = Namespace(simulations=3, seed=42), {design: ("clean", "text")}
    first, second = (list(calibrate(*memory.procedures(*arguments))) for _ in range(2))
    assert first == second and [complete for _, complete in first] == [False, True]
    (entry,) = first[-1][0]
    assert {f"{w}{o}" for w in ("clean", "text") for o in OUTCOMES} <= set(entry["rates"])
    path = tmp_path / "table.json"
    designs = {MemoryDesign(60): ("clean", "text")}
    assert (
        run_calibration(
            memory, options_of(memory, ["--out", str(path), "--simulations", "2"]), designs=designs
        )
        == 0
    )
    text = memory.markdown(json.loads(path.read_text())["designs"])
    assert "| 60 / 0, R=0 |" in text and text.count("\n") == 2 + len(CLEAN)


def test_a_model_that_recites_is_found():
    rng = np.random.default_rng(1)
    outcomes = judge(MemoryDesign(600, 400, 8), World(file=0.8), rng)
    assert dict(zip(OUTCOMES, outcomes, strict=True)) == {
        "": True,
        "_text": True,
        "_gap": False,
        "_unknown": False,
        "_cleared": False,
        "_panel": True,
        "_cleared_panel": False,
        "_cleared_10": False,
    }


@pytest.mark.long
def test_guessed_answers_make_no_gap_and_clear_none():
    """By points and plain ability alone, half of the clean models had a gap and half of those with
    one were cleared."""
    design = MemoryDesign(1500, 1000, 8)

    def rates(name, outcome):
        decisions = [judge(design, WORLDS[name], np.random.default_rng([1, k])) for k in range(12)]
        return np.mean(decisions, axis=0)[OUTCOMES.index(outcome)]

    assert rates("guessed_wider", "") <= 1 / 12 and rates("gap_5_guessed", "_cleared") <= 1 / 12


def test_lucky_answers_that_are_more_frequent_on_held_out_items_are_no_finding():
    """Who does not know is right in 25 % of the benchmark, 45 % of held-out items, as hard for the
    references (.60).

    The references know .35 / .75 = 47 % and .15 / .55 = 27 %; the model knows .80, and some .64
    held out: .45 + .55 * .64 = .80. So it loses 5 points that they do not. `by_guessing` allows
    (.80 - .60) * .2 / (1 - .25 - .2) = 7."""
    rng, lucky = np.random.default_rng(8), []
    world = replace(WORLDS["guessed_wider"], fresh_spread=1.8, guess=0.25, fresh_guess=0.45)
    for _ in range(4):
        cell = simulate(MemoryDesign(4000, 4000, 8, score_alone=True), world, rng)
        (e,) = correct(
            [measure(cell, MemoryThresholds(), rng=rng, n_resamples=19, gammas=(), describe=False)]
        )
        gap = e.indicator(Name.GAP)
        assert not gap.seen(0.05) and e.upper() > upper_limit(e.gap, e.abilities)
        lucky.append((e.lucky[1], gap.open(0.05) and gap.doubt.code == "guessing_rate"))
    assert np.mean([allowed for allowed, _ in lucky]) == pytest.approx(0.07, abs=0.015)
    assert any(stands_out for _, stands_out in lucky)  # without this guard it would be found


@pytest.mark.long
def test_a_gap_that_matters_is_hardly_ever_cleared_and_clean_models_are():
    """4 of 14 by chance in .4 % of tests, were one in twenty cleared."""
    thresholds, rng = MemoryThresholds(), np.random.default_rng(2)

    def drawn(name, count):
        cells = [simulate(MemoryDesign(1000, 500, 8), WORLDS[name], rng) for _ in range(count)]
        return [
            measure(c, thresholds, rng=rng, n_resamples=memory.RESAMPLES, describe=False)
            for c in cells
        ]

    known, clean = drawn("gap_5", 14), drawn("clean", 10)
    for corrected in (lambda e: correct([e])[0], memory.in_panel):

        def cleared(e, corrected=corrected):
            return memory.decided(corrected(e), thresholds).verdict == MemoryVerdict.NOTHING_SEEN

        assert sum(map(cleared, known)) <= 3 and any(map(cleared, clean))
    panel = correct(
        known[:12]
    )  # Holm takes no more findings away than the panel of the calibration
    for evidence, most in zip(panel, map(memory.in_panel, known[:12]), strict=True):
        for a, b in zip(evidence.indicators, most.indicators, strict=True):
            assert a.adjusted is None or a.adjusted <= b.adjusted + 1e-12


def test_the_table_that_ships_keeps_its_level():
    table = shipped_table(JUDGE.shipped)
    for entry in table["designs"]:
        rates = entry["rates"]
        for world in set(CLEAN) - {
            "newer"
        }:  # items newer than one model: docs/findings/memory_calibration.md
            for label in ("", "_panel") if world in rates else ():
                assert rates[world + label] <= 0.05 + 2 * rates[f"{world}{label}_se"], (
                    entry["design"],
                    world,
                )
        for world in ("gap_5", "gap_5_tau_2", "gap_5_unparsed", "text"):
            for label in ("_cleared", "_cleared_panel") if world in rates else ():
                assert rates[world + label] <= 0.05 + 2 * rates[f"{world}{label}_se"], (
                    entry["design"],
                    world,
                )
    same = nearest(table, run_of(1000, 500, 8))
    for rate in ("clean", "clean_cleared", "gap_5_cleared"):
        assert percent(same.rates[rate]) in same.sentence
    thresholds = {"alpha": 0.05, "effect_of_interest": 0.2}
    other = nearest(table, run_of(208, 0, 0), thresholds).sentence
    assert other.endswith("These rates are of effect_of_interest 0.05 (this run: 0.2).")
    for far in (run_of(60, 60, 3), run_of(14000, 9000, 8)):
        assert (
            nearest(table, far).rates == {}
            and f"({far['n']:,} items" in nearest(table, far).sentence
        )
    sizes = [field.name for field in fields(MemoryDesign)]
    designs = [
        MemoryDesign(**{name: design["design"][name] for name in sizes})
        for design in table["designs"]
    ]
    assert designs == list(memory.SHIPPED)


def run_of(n, fresh, references):
    sizes = {"n": n, "fresh": fresh, "references": references}
    return sizes | {"accuracy": 0.7, "score_alone": False}
