"""One simulated model in the terms of every audit: what it knows, and that its verdicts follow."""

import json
from argparse import Namespace
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from commands_here import calibrate as calibrate_command
from commands_here import options_of
from documents import cell_of, typed_cell

from audit.core.package_data import shipped_table
from audit.judging.forms import AUDITS, Judged, any_found, scope, sentences
from audit.judging.ladder import Grade
from audit.judging.simulated import calibrate, run_calibration
from audit.judging.world import World
from audit.memory.design import MemoryThresholds
from audit.memory.record import TEXT_SCORES
from audit.perturb.design import PerturbThresholds
from audit.report.joint import SUITE_TABLE
from audit.suite import calibrate as suite
from audit.suite.calibrate import judge, procedures
from audit.suite.worlds import REFERENCES, WORLDS, Simulated, SuiteDesign, simulate
from audit.sweep.design import Arm, SweepThresholds

LARGE = SuiteDesign(n=20_000, fresh=20_000)


@pytest.fixture(scope="module")
def half() -> Simulated:
    """Half of the answers, half of the wordings and half of the texts are known: the same half."""
    return simulate(LARGE, World(answers=0.5, text=0.5), np.random.default_rng(1))


def test_what_is_known_shows_in_every_audit_alike(half: Simulated) -> None:
    """Accuracy .7, and half known: .5 + .5 x .7 = .85 in every wording, and .7 on held-out
    items."""
    score = half.memory.tested[0].score
    assert np.mean(score) == pytest.approx(0.85, abs=0.02) and half.memory.tested[1] is not None
    assert np.mean(half.memory.tested[1].score) == pytest.approx(0.70, abs=0.03)
    assert np.mean(half.perturb.tested.variants) == pytest.approx(0.85, abs=0.02)
    settings = half.sweep.settings
    noisy = [
        half.sweep.state[k].mean() for k, s in enumerate(settings) if s.arm == Arm.NOISY_REWRITE
    ]
    assert np.mean(noisy) == pytest.approx(0.84, abs=0.02)
    # What is known is always right: where the perturbation audit sees a wrong answer, nothing was
    # known.
    wrong = half.perturb.tested.original[0] == 0
    assert np.mean(score[wrong]) < 0.6  # of items that are not known, and harder than others
    read = half.memory.tested[0].options[:, 0] > half.memory.references[0][0].options[:, 0] + 0.75
    assert (
        np.mean(read[wrong]) < 0.1 < 0.5 < np.mean(read[~wrong])
    )  # the items that were read are those that are known


def test_memory_of_the_wording_is_lost_with_it() -> None:
    known = simulate(LARGE, World(wording=0.5), np.random.default_rng(2))
    assert np.mean(known.perturb.tested.original) == pytest.approx(0.85, abs=0.02)
    assert np.mean(known.perturb.tested.variants) == pytest.approx(0.69, abs=0.03)
    direct = known.sweep.state[[s.arm == Arm.DIRECT for s in known.sweep.settings]]
    noisy = known.sweep.state[[s.arm == Arm.NOISY_REWRITE for s in known.sweep.settings]]
    assert direct.mean() - noisy.mean() > 0.12


def test_references_know_nothing_and_lie_on_both_sides() -> None:
    model = simulate(LARGE, World(answers=0.5, wording=0.5, text=0.5), np.random.default_rng(3))
    means = [float(reference.variants.mean()) for reference in model.perturb.references]
    assert len(means) == len(REFERENCES) and min(means[:3]) < 0.69 < max(means[:3])
    for published, held_out in model.memory.references:
        assert (
            held_out is not None and abs(np.mean(published.score) - np.mean(held_out.score)) < 0.08
        )
        leads = [
            (published.texts[name] - held_out.texts[name]).mean() / 0.15 for name in TEXT_SCORES
        ]
        assert leads == pytest.approx([0.3] * len(leads), abs=0.15)  # in spreads of .15 nats a byte
    three = model.with_references(3)
    assert (
        three.perturb.references == model.perturb.references[:3]
        and len(three.memory.references) == 3
    )


def test_the_same_seed_gives_the_same_counts() -> None:
    small = SuiteDesign(n=200, fresh=100)
    arguments = Namespace(simulations=3, seed=42)
    ((entries, _),), repeats = (
        list(calibrate(*procedures(arguments, (small,), ("text_50",), references=(3, 5))))
        for _ in range(2)
    )
    first = [entry["counts"]["text_50"] for entry in entries]
    assert repeats == [(entries, True)] and len(first) == 2
    assert all(
        sum(counts.values()) == 3 and all(len(key) == len(AUDITS) for key in counts)
        for counts in first
    )


def test_gross_contamination_is_found_by_the_audit_that_looks_for_it() -> None:
    """Half of the texts read, 1.5 spreads likelier: memory finds it. Half of the wordings: perturb
    does."""
    rng = np.random.default_rng(4)
    text = Counter(judge(SuiteDesign(), WORLDS["text_50"], rng, (8,))[0][2] for _ in range(3))
    wording = Counter(judge(SuiteDesign(), WORLDS["wording_50"], rng, (8,))[0][1] for _ in range(3))
    assert text == {"F": 3} and wording == {"F": 3}


@pytest.mark.long  # a calibration from end to end
def test_the_command_writes_its_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "t.json"
    designs = (SuiteDesign(n=200, fresh=100),)
    assert (
        run_calibration(
            suite, options_of(suite, ["--simulations", "2", "--out", str(out)]), designs=designs
        )
        == 0
    )
    assert "any finding" in capsys.readouterr().out and set(
        json.loads(out.read_text())["thresholds"]
    ) == set(AUDITS)
    with pytest.raises(SystemExit):  # help: `audit calibrate` knows the suite
        calibrate_command(["audit=suite", "--help"])
    assert "--worlds" not in capsys.readouterr().out  # of the sweep


def test_the_shipped_table_is_of_these_worlds_and_of_the_thresholds_that_hold() -> None:
    table = shipped_table(SUITE_TABLE)
    defaults = {
        "sweep": SweepThresholds(),
        "perturb": PerturbThresholds(),
        "memory": MemoryThresholds(),
    }
    for name, thresholds in defaults.items():
        fields = thresholds.to_dict()
        assert {key: table["thresholds"][name][key] for key in ("alpha", "effect_of_interest")} == {
            key: fields[key] for key in ("alpha", "effect_of_interest")
        }
    assert [entry["design"]["references"] for entry in table["designs"]] == [3, 5, 8]
    for entry in table["designs"]:
        assert set(entry["counts"]) == set(WORLDS)
        for name, counts in entry["counts"].items():
            assert sum(counts.values()) == table["simulations"]
            if name.startswith("clean"):  # 5 % is not refuted, whatever audits the suite has
                assert any_found(counts, AUDITS).limits[0] <= 0.05


def test_a_clean_run_of_the_shipped_design_passes_wording_and_half_of_the_answers() -> None:
    sizes = {"n_questions": 1000, "references": ["r"] * 8}
    perturb = typed_cell(cell_of("no_drop_detected", "perturb", **sizes), "perturb")
    memory = typed_cell(
        cell_of("nothing_seen_by_this_instrument", "memory", **sizes, n_fresh=500), "memory"
    )
    judged = [
        Judged("perturb", perturb, frozenset({"wording"}), PerturbThresholds().to_dict()),
        Judged("memory", memory, frozenset({"answers", "text"}), MemoryThresholds().to_dict()),
    ]
    assert {cell.grade for cell in judged} == {Grade.CLEARED}
    result = scope(judged, shipped_table(SUITE_TABLE))
    assert result is not None and result.error is not None and result.not_examined == ()
    doses = {form.form: form.dose for form in result.passed}
    assert doses["answers"] == 0.5  # 15 % of the answers are a gap of 4.5 points: seldom found
    assert doses["text"] == 0.15 and result.error.design["references"] == 8
    assert sum("simulated" in line for line in sentences(result)) >= 2
