import math
from argparse import Namespace

import numpy as np
import pytest
from commands_here import options_of

from audit.core.number_text import percent
from audit.core.package_data import shipped_table
from audit.judging.simulated import calibrate, run_calibration
from audit.judging.world import World
from audit.perturb import calibrate as perturb
from audit.perturb.analyse import JUDGE, nearest
from audit.perturb.calibrate import CORE, EVERYWHERE, SHIPPED, markdown, procedures
from audit.perturb.decide import decide
from audit.perturb.design import PerturbThresholds
from audit.perturb.evidence import grounds, run_tests
from audit.perturb.vocabulary import PerturbVerdict
from audit.perturb.worlds import LIKE_MEMORY, OTHERS, WORLDS, PerturbDesign, simulate

NO_DROP = PerturbVerdict.NO_DROP_DETECTED
DESIGN = PerturbDesign(2000, 3, 3)


def means(world, count, rng):
    """(models, 2) accuracies under the originals and the variants, of so many benchmarks."""
    cells = [simulate(DESIGN, world, rng) for _ in range(count)]
    models = zip(*((c.tested, *c.references) for c in cells), strict=True)
    return np.array(
        [np.mean([[np.nanmean(part) for part in w.pair] for w in same], axis=0) for same in models]
    )


def test_worlds_are_what_they_say():
    """Means over 20 benchmarks of 2000 items; standard error about .2 points."""
    rng = np.random.default_rng(1)

    def drop(world):
        return means(world, 20, rng) @ [1, -1]

    assert drop(World()) == pytest.approx([0] * 4, abs=0.01)
    # harder: 5 points at accuracy .7, in proportion at .6 and .8
    assert drop(WORLDS["harder"]) == pytest.approx(
        [0.05, 0.05 * 6 / 7, 0.05, 0.05 * 8 / 7], abs=0.01
    )
    # broken: 5 % of what is above chance .25, for every model
    assert drop(WORLDS["broken_5"]) == pytest.approx([0.0225, 0.0175, 0.0225, 0.0275], abs=0.01)
    # 15 % of the 30 % wrong originals of the tested model
    assert drop(WORLDS["memorised"]) == pytest.approx([0.045, 0, 0, 0], abs=0.01)
    # the smallest effect that matters, exactly: to clear these is wrong
    for name in ("memorised_5", "memorised_5_groups"):
        assert drop(WORLDS[name]) == pytest.approx([0.05, 0, 0, 0], abs=0.01)
    grouped = simulate(DESIGN, WORLDS["memorised_5_groups"], rng)
    assert (np.bincount(grouped.cluster) == 10).all()
    touchy = simulate(PerturbDesign(20_000, 2, 0, flip=0.3), World(), rng).tested.variants
    assert np.mean(touchy[0] != touchy[1]) == pytest.approx(0.3, abs=0.01)


def calibrated(design, worlds=None, *, simulations, seed=42):
    """The entry of one design."""
    arguments = Namespace(simulations=simulations, seed=seed, control=False)
    *_, ((entry,), complete) = calibrate(*procedures(arguments, [design], worlds))
    assert complete
    return entry


@pytest.mark.long
def test_a_drop_that_matters_is_hardly_ever_cleared_and_clean_models_are():
    """At most one in twenty of 80 models that lose the smallest effect that matters, and two
    standard errors and a half; alone and as one of a panel of twelve."""
    thresholds, rng = PerturbThresholds(), np.random.default_rng(4)

    def drawn(world, count):
        cells = [simulate(PerturbDesign(1000, 3, 0), WORLDS[world], rng) for _ in range(count)]
        tests = [run_tests(c, thresholds, rng=rng) for c in cells]
        return [
            grounds(c, t, thresholds, rng=rng, n_resamples=50)
            for c, t in zip(cells, tests, strict=True)
        ]

    losing, clean = drawn("memorised_5", 80), drawn("clean", 30)
    for factor in (1, 12):
        cleared = [
            np.mean(
                [
                    decide(g, (), thresholds, min(factor * g.tests.found_p, 1.0)).verdict == NO_DROP
                    for g in models
                ]
            )
            for models in (losing, clean)
        ]
        assert cleared[0] <= 0.05 + 2.5 * math.sqrt(0.05 * 0.95 / 80) and cleared[1] >= 0.5


def test_rates_are_reproducible_and_written():
    design = PerturbDesign(150, 3, 1)
    worlds = {k: WORLDS[k] for k in ("clean", "memorised")}
    first = calibrated(design, worlds, simulations=6)
    assert first == calibrated(design, worlds, simulations=6)
    rates = first["rates"]
    assert set(rates) >= {
        "clean_beyond",
        "clean_beyond_se",
        "memorised_unknown",
        "clean_article_blocked",
        "clean_panel",
    }
    assert "clean_curve" not in rates  # one reference gives none
    assert rates["clean_simulations"] == 6  # a third from each of three seeds
    assert rates["memorised_simulations"] == 6  # a third of 4, rounded up, from each
    verdicts = ("beyond", "unknown", "cleared", "withheld", "underpowered")
    assert sum(rates[f"memorised_{verdict}"] for verdict in verdicts) == pytest.approx(1, abs=1e-5)
    assert calibrated(design, worlds, simulations=6, seed=45) != first
    assert "| 150 | 3 | 1 | 1 |" in markdown([first])
    every = calibrated(design, simulations=6)  # half as many, of the worlds for every design
    simulated = {
        name.removesuffix("_simulations")
        for name in every["rates"]
        if name.endswith("_simulations")
    }
    assert simulated == set(CORE) and every["rates"]["clean_simulations"] == 3


def test_the_other_worlds_are_what_they_say():
    """Means over 12 benchmarks of 2000 items; standard error about .3 points."""
    rng = np.random.default_rng(2)

    abler = means(OTHERS["abler_10"], 12, rng)
    assert abler[:, 0] == pytest.approx([0.65, 0.75, 0.85, 0.95], abs=0.012)
    drops = abler[:, 0] - abler[:, 1]
    assert drops[0] == pytest.approx(0.105, abs=0.015) and np.all(
        np.diff(drops) < 0
    )  # a common shift of log-odds
    assert np.all(np.diff(drops / abler[:, 0]) < 0)  # and no common share
    weaker = means(OTHERS["weaker"], 12, rng)
    assert weaker[0, 0] == pytest.approx(0.80, abs=0.012) and weaker[1:, 0].mean() == pytest.approx(
        0.60, abs=0.012
    )
    tainted = means(OTHERS["tainted"], 12, rng)
    assert tainted[1, 0] - tainted[1, 1] > 0.05 > 0.01 > abs(tainted[0, 0] - tainted[0, 1])
    alone = means(OTHERS["broken_alone"], 12, rng)
    assert (alone[0, 0] - alone[0, 1]) > 1.5 * (alone[1:, 0] - alone[1:, 1]).mean() > 0
    unparsed = simulate(DESIGN, WORLDS["clean_unparsed"], rng)
    for w in (unparsed.tested, *unparsed.references):
        assert np.isnan(w.variants).mean() == pytest.approx(0.04, abs=0.01)
    assert {w.model.split()[0] for w in simulate(DESIGN, OTHERS["family"], rng).references} == {
        "kin"
    }
    assert (
        2
        * (lambda v: np.mean(v[0] != v[1]))(simulate(DESIGN, OTHERS["logit"], rng).tested.variants)
        > 0.3
    )


def test_the_table_that_ships_holds_what_is_claimed():
    table = shipped_table(JUDGE.shipped)
    assert table is not None and len(table["designs"]) == len(SHIPPED)
    designs = {
        tuple(e["design"][k] for k in ("n", "variants", "references", "replicates")): e["rates"]
        for e in table["designs"]
    }
    everywhere = [
        e["rates"] for e in table["designs"] if PerturbDesign(**e["design"]) in EVERYWHERE
    ]
    assert len(everywhere) == len(EVERYWHERE)
    clean = [
        name for name, world in {**WORLDS, **OTHERS, **LIKE_MEMORY}.items() if not world.wording
    ]
    for rates in everywhere:
        level = 0.05 + 2.5 * math.sqrt(0.05 * 0.95 / rates["clean_simulations"])
        # by itself, and as one of a panel of twelve
        assert not [
            name
            for name in clean
            if rates[f"{name}_beyond"] > level or rates[f"{name}_panel"] > 0.02
        ]
    for entry in table["designs"]:  # a strong finding blocks: in no clean world above the level
        rates = entry["rates"]
        names = [key.removesuffix("_simulations") for key in rates if key.endswith("_simulations")]
        assert all(rates[f"{name}_strong"] <= rates[f"{name}_beyond"] for name in names)
        strong = [rates[f"{name}_strong"] for name in names if name in clean]
        assert max(strong) <= 0.05 + 2.5 * math.sqrt(0.05 * 0.95 / rates["clean_simulations"])
    assert designs[1000, 3, 3, 1]["memorised_half_strong"] >= 0.9
    missed = set()
    for (n, variants, references, _), rates in designs.items():
        level = 0.05 + 2.5 * math.sqrt(0.05 * 0.95 / rates["clean_simulations"])
        assert (
            max(rates[f"{name}_beyond"] for name in ("clean", "clean_unparsed", "harder", "uneven"))
            <= level
        )
        if not references:
            assert rates["clean_beyond"] == rates["memorised_beyond"] == 0
        for name in ("harder", "memorised_5"):
            allowed = 0.08 + 2.5 * math.sqrt(0.08 * 0.92 / rates["memorised_simulations"])
            assert rates[f"{name}_cleared"] <= allowed, (n, references, name)
        if n >= 1000:  # references take no clearance away, and unparsed answers few
            assert rates["clean_cleared"] >= 0.9
            if rates["clean_unparsed_cleared"] < 0.85 * rates["clean_cleared"]:
                missed.add((n, variants, references))
    assert missed == EXPECTED_MISSED
    assert (
        designs[1000, 3, 3, 1]["memorised_half_beyond"] >= 0.9
    )  # half of the exam, with three references


# One variant keeps 84.5 % of its clearances with unparsed answers where 85 are the target: the
# documentation says so.
EXPECTED_MISSED = {(1000, 1, 5)}


RUN = {
    "n": 1000,
    "variants": 3,
    "references": 5,
    "checked": 150,
    "accuracy": 0.7,
    "unparsed": 0.0,
    "replicates": 1,
    "control": False,
}


def test_the_nearest_design_is_printed():
    table = shipped_table(JUDGE.shipped)
    run = RUN | {"n": 900, "references": 6, "checked": 140}
    quote = nearest(table, run)
    assert (quote.design["n"], quote.design["references"], quote.design["checked"]) == (
        1000,
        5,
        150,
    )
    for rate in (
        "clean_cleared",
        "memorised_half_strong",
        "memorised_5_cleared",
        "memorised_5_cleared_panel",
    ):  # both errors, beside each other
        assert percent(quote.rates[rate]) in quote.sentence
    same = nearest(table, run, PerturbThresholds().to_dict())
    other = nearest(table, run, PerturbThresholds(alpha=0.01).to_dict())
    assert same.sentence == quote.sentence and "alpha 0.05 (this run: 0.01)" in other.sentence
    for more in (
        {"control": True},
        {"checked": 0},
    ):  # what these rates do not say is said beside them
        sentence = nearest(table, run | more).sentence
        assert sentence.startswith(quote.sentence) and len(sentence) > len(quote.sentence)
    for runs in (1, 2):  # two designs differ by nothing else
        assert nearest(table, RUN | {"replicates": runs}).design["replicates"] == runs
    assert nearest(table, RUN | {"n": 900, "references": 0, "checked": 0}).design["references"] == 0
    assert nearest(None, RUN) is None


@pytest.mark.parametrize(
    "far",
    [
        {"n": 60},
        {"n": 14000},
        {"accuracy": 0.1},
        {"references": 40},
        {"unparsed": 0.2},
        {"variants": 60},
    ],
)
def test_no_rate_is_quoted_where_no_design_is_near(far):
    assert nearest(shipped_table(JUDGE.shipped), RUN).rates
    quote = nearest(shipped_table(JUDGE.shipped), RUN | far)
    assert not quote.rates and quote.sentence.startswith("No calibrated design is near")


def test_the_table_of_the_control_is_printed_whole(capsys):
    designs = (PerturbDesign(60, 2, 1, control=40), PerturbDesign(60, 2, 0))
    assert (
        run_calibration(
            perturb, options_of(perturb, ["--control", "--simulations", "2"]), designs=designs
        )
        == 0
    )
    lines = capsys.readouterr().out.splitlines()
    assert (
        len(lines) == 2 + 3 + 3
        and "| both |" in lines[2]
        and "| 60 | 0 | 0 | held-out items | - |" in lines[-1]
    )
