"""Published against held-out items, a model against its references."""

import numpy as np
import pytest
import scipy
from scipy import stats

from audit.core.errors import DataError
from audit.statistics.fresh_gap import fresh_gap, unparsed_imputed
from audit.statistics.priors import PRIORS
from audit.statistics.set_difference import apartness, beside, in_own_spread, set_difference


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_with_one_reference_it_is_welch_on_the_differences_of_models():
    r = rng(1)
    tested, ref = (r.normal(1, 2, 50), r.normal(0, 1, 30)), (r.normal(0, 1, 50), r.normal(0, 1, 30))
    result = set_difference(tested, [ref])
    expected = stats.ttest_ind(
        tested[0] - ref[0], tested[1] - ref[1], equal_var=False, alternative="greater"
    )
    two_sided = stats.ttest_ind(tested[0] - ref[0], tested[1] - ref[1], equal_var=False)
    assert (result.pvalue, result.df) == pytest.approx((expected.pvalue, expected.df))
    assert (result.low, result.high) == pytest.approx(tuple(two_sided.confidence_interval()))
    assert np.isnan(result.tau) and (result.n, result.m) == (50, 30)
    assert result.own == pytest.approx(tested[0].mean() - tested[1].mean())


def test_how_much_models_differ_is_known_from_the_references_alone():
    """Gaps of models that differ much more than items explain: t of one case against few controls,
    R - 1 degrees."""
    r = rng(7)
    suits = np.array([0.5, -0.4, 0.1, 0.3])
    models = [(s + 0.001 * r.normal(size=200), 0.001 * r.normal(size=200)) for s in suits]
    result = set_difference(models[0], models[1:])
    others = suits[1:]
    t = (suits[0] - others.mean()) / (others.std(ddof=1) * np.sqrt(1 + 1 / 3))
    assert result.df == 2 and result.pvalue == pytest.approx(stats.t.sf(t, 2), rel=0.01)
    assert result.gaps == pytest.approx(others, abs=1e-3) and result.tau == pytest.approx(
        others.std(ddof=1), rel=0.01
    )
    # where three references lie together by chance, that they differ by nothing is not taken for
    # certain
    noise = [r.normal(size=(2, 200)) for _ in range(3)]
    alike = [(a - a.mean(), b - b.mean()) for a, b in noise]
    close = set_difference(models[0], alike)
    assert close.tau == 0 and close.df == 2


def test_items_of_one_cluster_count_once():
    r = rng(3)
    once = r.normal(size=40), r.normal(size=30)
    twice = tuple(np.repeat(x, 2) for x in once)
    clusters = tuple(np.repeat(np.arange(x.size), 2) for x in once)
    a, b = set_difference(once), set_difference(twice, (), clusters)
    assert (a.difference, a.se, a.df) == pytest.approx((b.difference, b.se, b.df))


def test_an_item_that_one_model_lacks_is_left_out_of_all():
    tested = np.array([1.0, 2.0, 3.0, 9.0]), np.array([0.0, 1.0, 5.0])
    ref = np.array([0.0, 0.0, 1.0, np.nan]), np.array([0.0, 1.0, 1.0])
    result = set_difference(tested, [ref])
    assert (result.n, result.m, result.own) == (3, 3, pytest.approx(2.0 - 2.0))
    with pytest.raises(DataError, match="two such items in different clusters"):
        set_difference((np.array([1.0, np.nan]), tested[1]))


def test_matching_is_an_exact_test_within_the_references_levels():
    # The reference has 4 published and 4 held-out items right; of these the model has 4 and 0, of
    # the others none.
    ref = np.array([1.0] * 4 + [0.0] * 4), np.array([1.0] * 4 + [0.0] * 4)
    tested = np.array([1.0] * 4 + [0.0] * 4), np.zeros(8)
    gap = fresh_gap(tested and (tested[0], tested[1]), [ref], rng=rng(), n_resamples=20_000)
    assert gap.matched.strata == ((4, 4), (4, 4)) and gap.matched.share == 1
    assert gap.matched.difference == pytest.approx(0.5)
    assert gap.matched.pvalue == pytest.approx(1 / 70, abs=0.003)  # 1 of 8 choose 4 splits
    assert gap.pvalue == max(gap.did.pvalue, gap.matched.pvalue)
    assert gap.reference_gap == 0 and (gap.published, gap.fresh) == (0.5, 0.0)
    assert (
        2.4 < gap.detectable / gap.did.se < 2.8
    )  # quantiles of t: (1.645 + 0.842 of the normal) and a little


def test_items_without_a_fresh_counterpart_are_told():
    ref = np.array([1.0, 1.0, 1.0, 0.0]), np.array([0.0, 0.0, 0.0])
    tested = np.array([1.0, 0.0, 1.0, 1.0]), np.array([0.0, 1.0, 0.0])
    gap = fresh_gap(tested, [ref], rng=rng(), n_resamples=99)
    assert gap.matched.share == 0.25 and gap.matched.strata == ((1, 3),)
    assert gap.reference_gap == 0.75


def test_an_item_of_several_trials_finds_its_like_among_items_of_one():
    """Published items were asked eight times, held-out ones once: 88 % of sound runs were withheld
    as unmatched."""
    r = rng(14)
    easy = [1.5 + 1.6 * r.standard_normal(n) for n in (1000, 500)]
    chances = [
        [scipy.special.expit(side + able) for side in easy] for able in (0, -0.6, -0.3, 0, 0.3, 0.6)
    ]
    models = [(r.binomial(8, a) / 8, r.binomial(1, b) * 1.0) for a, b in chances]
    gap = fresh_gap(models[0], models[1:], rng=r, n_resamples=99)
    assert gap.matched.share == 1 and sum(a for a, _ in gap.matched.strata) == 1000
    once = [((x > 0.5) * 1.0, y) for x, y in models]
    assert fresh_gap(once[0], once[1:], rng=r, n_resamples=99).matched.share == 1


def test_one_large_passage_of_held_out_items_makes_no_matched_gap():
    """Half of the held-out items are one passage, on which a model is right or wrong together: 17 %
    were below .05."""
    rng, sizes, rejections = np.random.default_rng(2), [60] + [1] * 60, 0
    cluster = np.arange(300), np.repeat(np.arange(61), sizes)
    for _ in range(200):
        models = [[], [], [], []]
        for groups in cluster:
            easy = 0.8 * rng.standard_normal(groups.size)
            for model in models:
                specific = 0.55 * rng.standard_normal(groups.max() + 1)[
                    groups
                ] + 0.84 * rng.standard_normal(groups.size)
                model.append((easy + specific < 0.67).astype(float))
        gap = fresh_gap(
            tuple(models[0]), [tuple(m) for m in models[1:]], cluster, rng=rng, n_resamples=99
        )
        rejections += gap.matched.pvalue <= 0.05
    assert rejections <= 0.08 * 200


def test_clusters_widen_the_matched_test_and_scores_are_right_or_wrong():
    r = rng(5)
    base = (r.random(60) < 0.7) * 1.0, (r.random(60) < 0.4) * 1.0
    ref = (r.random(60) < 0.6) * 1.0, (r.random(60) < 0.6) * 1.0
    pairs = np.repeat(np.arange(60), 3)
    wide = [tuple(np.repeat(x, 3) for x in pair) for pair in (base, ref)]
    alone = fresh_gap(base, [ref], rng=r)
    clustered = fresh_gap(wide[0], [wide[1]], (pairs, pairs), rng=r)
    assert clustered.matched.difference == pytest.approx(alone.matched.difference)
    assert clustered.matched.pvalue == pytest.approx(alone.matched.pvalue, rel=1.0)
    assert fresh_gap(wide[0], [wide[1]], rng=r).matched.pvalue < clustered.matched.pvalue
    with pytest.raises(DataError, match="outside 0 to 1"):
        fresh_gap((base[0] * 2, base[1]), [ref], rng=r)


def test_without_references_nothing_is_shown_and_where_nothing_varies_the_interval_is_the_difference():
    gap = fresh_gap((np.ones(50), np.zeros(50)), [], rng=rng())
    assert gap.pvalue == 1.0 and gap.matched is None and gap.did.difference == 1.0
    assert (gap.did.low, gap.did.high) == (1.0, 1.0)


def test_unparsed_answers_are_held_against_a_gap_and_for_one():
    """Means by hand: 4 items a set; the tested model lacks one answer of each, the reference one
    published."""
    nan = np.nan
    models = [([1, 1, 0, nan], [0, 1, 0, nan]), ([1, 0, 1, nan], [1, 0, 1, 0])]
    lost = [tuple(np.isnan(side) for side in model) for model in models]

    def gap(gamma, against, prior=None):
        filled, heights = unparsed_imputed(models, lost, gamma, against=against)
        return fresh_gap(
            filled[0], filled[1:], rng=rng(1), n_resamples=99, heights=heights, prior=prior
        )

    against, favour = gap(np.inf, True), gap(np.inf, False)
    assert (against.published, against.fresh) == (
        0.5,
        0.5,
    ) and against.reference_gap == pytest.approx(0.75 - 0.5)
    assert (favour.published, favour.fresh) == (
        0.75,
        0.25,
    ) and favour.reference_gap == pytest.approx(0.5 - 0.5)
    assert against.matched.strata == favour.matched.strata  # difficulty is told by what was read
    against, favour = (
        [gap(g, a).did.difference for g in (np.inf, 3.0, 1.0)] for a in (True, False)
    )
    assert (
        against[0] < against[1] < against[2] == pytest.approx(favour[2])
        and favour[2] < favour[1] < favour[0]
    )


def test_an_unparsed_answer_counts_as_often_right_as_the_model_is_where_items_are_alike():
    """The reference is right everywhere, so no item is harder: (2 + 1/2) / (3 + 1) of the tested
    model's were right."""
    tested, ref = np.array([1.0, 1.0, 0.0, np.nan]), np.ones(4)
    lost = [(np.isnan(tested),) * 2, (np.zeros(4, bool),) * 2]
    filled, heights = unparsed_imputed([(tested, tested), (ref, ref)], lost, 1.0, against=True)
    assert [side.tolist() for side in heights] == [
        [1, 1, 1, 1]
    ] * 2  # what the reference scored on each item
    assert [side.tolist() for side in filled[0]] == [pytest.approx([1, 1, 0, 0.625])] * 2


def test_imputed_chances_keep_the_level_of_the_matched_test():
    """A tenth of the tested model's answers are chances: the test of matched items is a t then, and
    no exact one."""
    r = rng(9)

    def pvalue() -> float:
        sets = [r.beta(2, 1, 200), r.beta(2, 1, 150)]
        ref = tuple((r.random(x.size) < x).astype(float) for x in sets)
        tested = [(r.random(x.size) < x).astype(float) for x in sets]
        for side in tested:
            side[: side.size // 10] = r.beta(4, 2, side.size // 10)
        return fresh_gap((tested[0], tested[1]), [ref], rng=r, n_resamples=1).matched.pvalue

    p = np.array([pvalue() for _ in range(400)])
    for level in (0.05, 0.2):
        assert abs(np.mean(p <= level) - level) <= 3 * np.sqrt(level * (1 - level) / p.size), level


def test_what_is_known_of_how_models_differ_finds_with_three_references_what_they_alone_cannot():
    r = rng(11)
    sets = [r.beta(2, 1, 1000), r.beta(2, 1, 500)]
    models = [tuple((r.random(x.size) < x).astype(float) for x in sets) for _ in range(4)]
    learnt = (np.maximum(models[0][0], r.random(1000) < 0.7), models[0][1])
    alone = fresh_gap(learnt, models[1:], rng=r, n_resamples=999)
    known = fresh_gap(learnt, models[1:], rng=r, n_resamples=999, prior=PRIORS["held_out"])
    assert alone.predicted is None and (alone.low, alone.high) == (alone.did.low, alone.did.high)
    assert known.did == alone.did  # the rule without it stands beside
    assert known.pvalue == max(known.predicted.pvalue, known.matched.pvalue)
    assert (
        known.pvalue < 0.05 / 6 < alone.pvalue and known.high - known.low < alone.high - alone.low
    )


def test_a_model_that_uses_what_makes_a_text_likely_more_has_no_more_of_its_own_spread():
    r = rng(12)
    shared = (
        r.normal(0.5, 1, 400),
        r.normal(0, 1, 300),
    )  # the published texts are half a spread more popular
    models = [
        tuple(k * x + 0.3 * r.normal(size=x.size) for x in shared)
        for k in (1.5, 1.0, 1.1, 0.9, 1.0, 1.05)
    ]
    nats = set_difference(models[0], models[1:])
    scaled = [in_own_spread(model) for model in models]
    standardised = set_difference(scaled[0], scaled[1:])
    assert nats.pvalue < 0.01 < 0.05 < standardised.pvalue
    assert all(model[1].std(ddof=1) == pytest.approx(1) for model in scaled)
    assert np.isnan(in_own_spread((np.arange(3.0), np.ones(3)))[0]).all()


def test_a_bend_that_length_gives_one_model_is_taken_off_beyond_the_held_out_lengths():
    lengths = np.linspace(1, 4, 40), np.linspace(0, 2, 30)
    text = tuple(1 - 0.5 * x + 0.2 * x**2 for x in lengths)
    published, held_out = beside((text[0] + 0.1, text[1]), lengths)
    assert published == pytest.approx(held_out[0] + 0.1) and np.ptp(held_out) == pytest.approx(
        0, abs=1e-12
    )
    nothing = beside((text[0], np.full(30, np.nan)), lengths)
    assert nothing[0] is text[0] and np.isnan(nothing[1]).all()


def test_a_model_stands_apart_from_references_that_are_alike():
    """By its spread over items, twice that among five references: the spread between models counts
    twice."""
    r = rng(15)
    shared = r.normal(size=(2, 4000))
    models = [shared + sd * r.normal(size=shared.shape) for sd in (0.4, *[0.2] * 5)]
    for model, suits in zip(models, (0.3, -0.2, -0.1, 0.0, 0.1, 0.2), strict=True):
        model[0] += suits
    sets = [tuple(model) for model in models]
    ratio = apartness(sets[0], sets[1:])
    others = 0.2 * np.sqrt(1 + 1 / 4)
    assert ratio == pytest.approx(
        np.hypot(0.4, 0.2 / np.sqrt(5)) / np.sqrt(1 + 1 / 5) / (others / np.sqrt(1 + 1 / 4)),
        rel=0.03,
    )
    assert (
        apartness(sets[1], sets[2:]) == pytest.approx(1, abs=0.05)
        and apartness(sets[0], sets[1:3]) == 1
    )
    alone, widened = (
        set_difference(sets[0], sets[1:], tau_factor=factor) for factor in (1.0, ratio)
    )
    of_models = [result.se**2 - result.items_se**2 for result in (alone, widened)]
    assert of_models[1] == pytest.approx(ratio**2 * of_models[0]) and widened.pvalue > alone.pvalue


def test_the_gap_keeps_its_level_and_finds_learnt_answers():
    r = rng(4)

    def pvalue(known: float) -> float:
        sets = [r.beta(2, 1, 150), r.beta(2, 1, 100)]
        ref = tuple((r.random(x.size) < x).astype(float) for x in sets)
        tested = [(r.random(x.size) < x).astype(float) for x in sets]
        tested[0] = np.maximum(tested[0], r.random(150) < known)
        return fresh_gap((tested[0], tested[1]), [ref], rng=r, n_resamples=199).pvalue

    assert np.mean([pvalue(0.0) <= 0.05 for _ in range(150)]) <= 0.05 + 2 * np.sqrt(
        0.05 * 0.95 / 150
    )
    assert np.mean([pvalue(0.8) <= 0.05 for _ in range(30)]) >= 0.9


def test_models_that_suit_the_sets_differently_are_not_accused_at_the_small_levels_that_holm_asks_for():
    r = rng(8)
    shared = r.normal(size=100), r.normal(size=100)

    def pvalue() -> float:
        models = [
            (a + s + 0.3 * r.normal(size=100), b + 0.3 * r.normal(size=100))
            for s in 0.1 * r.normal(size=4)
            for a, b in (shared,)
        ]
        return set_difference(models[0], models[1:]).pvalue

    p = np.array([pvalue() for _ in range(600)])
    for level in (0.05, 0.01):
        assert np.mean(p <= level) <= level + 2.5 * np.sqrt(level * (1 - level) / p.size), level
