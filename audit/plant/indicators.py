"""Compute the indicators of memory for a model that learnt one half of a benchmark.

The input is the model's answers and likelihoods. There are two kinds of indicators:

- Indicators that need held-out items compare the two halves. The learnt half serves as the
  benchmark, the other half as the held-out items.
- All other indicators are computed on each half separately. A significant result on the half that
  was not learnt is a false positive.

The module does no I/O.
"""

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import compress

import numpy as np
from numpy.typing import ArrayLike

from audit.memory.record import TEXT_SCORES
from audit.perturb.design import PerturbThresholds
from audit.perturb.evidence import run_tests
from audit.perturb.record import BrokenShare, PerturbCell, Wordings
from audit.plant.measure import Reading
from audit.statistics.completion import Auc, membership_auc
from audit.statistics.fresh_gap import fresh_gap
from audit.statistics.mcnemar import mcnemar_exact
from audit.statistics.multiplicity import holm
from audit.statistics.order_test import order_test
from audit.statistics.paired import FloatArray
from audit.statistics.set_difference import Sets, set_difference
from audit.statistics.values import average
from audit.sweep.design import Arm

N_SPLITS = 1000  # number of random splits of the half that the model did not learn
# Keys under which the memory audit and the perturbation audit ask the published question.
_SCORE, _ORIGINAL = "score/0", "original/0"


@dataclass(frozen=True)
class Bench:
    """Describe the benchmark's items, and which items the model learnt.

    Attributes
    ----------
    ids : tuple of str
        Id of each item.
    n_options : tuple of int
        Number of options of each item; 0 for an item with a free answer.
    learnt : (n,) bool array
        True for learnt items.
    broken : BrokenShare or None
        Result of a person's review of sampled variants; None without a review.
    """

    ids: tuple[str, ...]
    n_options: tuple[int, ...]
    learnt: np.ndarray
    broken: BrokenShare | None = None


@dataclass(frozen=True)
class Finding:
    """Hold the result of one indicator for one planted model.

    Attributes
    ----------
    indicator, audit : str
        Name of the indicator, and name of the audit to which it belongs.
    learnt, others : float
        Mean of the indicator over the items of the learnt half, and over those of the other half.
    area : Auc or None
        Area under the ROC curve for separating learnt items from other items by the indicator. None
        if the indicator has no values for single items.
    pvalue, noticed : float, bool
        One-sided p-value of the indicator's test, and whether the p-value is at most alpha.
    false_alarms : float
        Either the false positive rate of the test, or its p-value on items that were not learnt.
        `null` states which of the two.
    null : str
        Meaning of `false_alarms`:

        - "splits": share (0-1) of random splits of the other half in which the test rejects.
        - "other half": p-value of the same test on the other half.
    sd : float
        Standard deviation of the model's values over the learnt items. `report.sensitivity` uses it
        to compute the probability of finding the effect in other designs. NaN if the indicator has
        no value for each item.
    """

    indicator: str
    audit: str
    learnt: float
    others: float
    area: Auc | None
    pvalue: float
    noticed: bool
    false_alarms: float
    null: str
    sd: float = float("nan")


@dataclass(frozen=True)
class Indicator:
    """Describe an indicator of memory.

    Attributes
    ----------
    name : str
        Name of the indicator.
    audit : str
        Audit whose verdict depends on the indicator; "" if no verdict depends on the indicator.
    needs : str
        What the indicator needs: "held-out items", "a reference", "held-out items and a reference",
        or "" if it needs nothing.
    words : str
        Description of the indicator.
    """

    name: str
    audit: str
    needs: str
    words: str


# Neither a drop under rewording alone nor a loss from damaged messages is evidence of memory, since
# the base model shows both. So the indicators `wording_drop` and `router_loss` belong to no audit.
_TABLE = files("audit").joinpath("data", "indicators.csv").read_text(encoding="utf-8")
INDICATORS = tuple(Indicator(**row) for row in csv.DictReader(_TABLE.splitlines()))
BY_NAME = {indicator.name: indicator for indicator in INDICATORS}


def findings(
    bench: Bench,
    model: Reading,
    base: Reading,
    *,
    alpha: float,
    seed: int,
    n_splits: int = N_SPLITS,
) -> list[Finding]:
    """Compute every indicator that the data allow, in the order of INDICATORS.

    Parameters
    ----------
    bench : Bench
        The benchmark's items, with a mark on learnt items.
    model, base : Reading
        Results of the planted model, and of the base model, which is the reference. If `model` and
        `base` are the same object, only indicators without a reference are returned.
    alpha : float
        Significance level of each test.
    seed : int
        Seed of the random splits.
    n_splits : int
        Number of random splits.

    Returns
    -------
    list of Finding
        One finding for each indicator.
    """
    rng = np.random.default_rng(seed)
    results = []
    for name, values, ref in _pairs(model, base):
        results.append(_halves(name, values, ref, bench, alpha, rng, n_splits))
    for name, test in _single_set_tests(bench, model, base, rng).items():
        results.append(_single_set(name, test, bench, alpha))
    order = list(BY_NAME)
    return sorted(results, key=lambda finding: order.index(finding.indicator))


def _pairs(model: Reading, base: Reading) -> list[tuple[str, FloatArray, FloatArray | None]]:
    """Return tuples (indicator, the model's values, the reference's values or None).

    Only indicators that compare the two halves of the benchmark are included.
    """
    out: list[tuple[str, FloatArray, FloatArray | None]] = []
    if "item" in model.text:
        out.append(("item_likelihood", np.asarray(model.text["item"], dtype=float), None))
    if model is base:
        return out
    scored_by_memory = _SCORE in model.correct and _SCORE in base.correct
    published = _SCORE if scored_by_memory else _ORIGINAL
    candidates = [
        ("gap", model.correct.get(published), base.correct.get(published)),
        ("margin", model.margin, base.margin),
    ]
    for name in TEXT_SCORES:
        candidates.append((f"completion_{name}", model.text.get(name), base.text.get(name)))
    for name, values, ref in candidates:
        if values and ref:
            out.append((name, np.asarray(values, dtype=float), np.asarray(ref, dtype=float)))
    return out


def two_set_p(
    name: str, tested: Sets, reference: Sets | None, rng: np.random.Generator, n_resamples: int
) -> float:
    """Return the one-sided p-value of an indicator that compares two sets of items.

    The memory audit tests its indicators in the same way.

    Parameters
    ----------
    name : str
        Name of the indicator.
    tested, reference : Sets
        Values of the model, and of the reference (None without a reference).
    rng : numpy.random.Generator
        Source of the resamples.
    n_resamples : int
        Number of resamples.

    Returns
    -------
    float
        The p-value.
    """
    if reference is None:
        return membership_auc(*tested).pvalue
    if name == "gap":
        return fresh_gap(tested, [reference], rng=rng, n_resamples=n_resamples).pvalue
    return set_difference(tested, [reference]).pvalue


def _halves(
    name: str,
    values: FloatArray,
    ref: FloatArray | None,
    bench: Bench,
    alpha: float,
    rng: np.random.Generator,
    n_splits: int,
) -> Finding:
    """Return the result of an indicator that compares the two halves of the benchmark."""
    yes, no = bench.learnt, ~bench.learnt
    p = two_set_p(
        name, (values[yes], values[no]), None if ref is None else (ref[yes], ref[no]), rng, 9999
    )
    difference = values if ref is None else values - ref
    means, area = _compared(difference[yes], difference[no])
    alarms = split_alarms(name, values[no], None if ref is None else ref[no], alpha, rng, n_splits)
    sd = float(np.nanstd(values[yes], ddof=1))
    return Finding(name, BY_NAME[name].audit, *means, area, p, p <= alpha, alarms, "splits", sd)


def _compared(learnt: FloatArray, others: FloatArray) -> tuple[tuple[float, float], Auc]:
    return (float(np.nanmean(learnt)), float(np.nanmean(others))), membership_auc(learnt, others)


def split_alarms(
    name: str,
    values: FloatArray,
    ref: FloatArray | None,
    alpha: float,
    rng: np.random.Generator,
    n_splits: int = N_SPLITS,
) -> float:
    """Return the false positive rate of a test.

    Items that were not learnt are split at random into two halves, which the test compares. Each
    rejection is a false positive.

    Parameters
    ----------
    name : str
        Name of the indicator.
    values, ref : array
        Values of the model and of the reference on items that the model did not learn.
    alpha : float
        Significance level of the test.
    rng : numpy.random.Generator
        Source of randomness for the splits.
    n_splits : int
        Number of times that the items are split.

    Returns
    -------
    float
        Share (0-1) of the splits in which the test rejects.
    """
    half = values.size // 2
    rejected = 0
    for _ in range(n_splits):
        mixed = rng.permutation(values.size)
        a, b = mixed[:half], mixed[half:]
        reference = None if ref is None else (ref[a], ref[b])
        rejected += two_set_p(name, (values[a], values[b]), reference, rng, 199) <= alpha
    return rejected / n_splits


# The test of an indicator, as a tuple. The first entry is a function that maps a mask of items to
# the p-value. The second entry holds the items' values for the AUC, or None.
Test = tuple[Callable[[np.ndarray], float], FloatArray | None]


def _single_set_tests(
    bench: Bench, model: Reading, base: Reading, rng: np.random.Generator
) -> dict[str, Test]:
    """Map each indicator that needs no held-out items to its statistical test."""
    out: dict[str, Test] = {}
    if model.order:

        def order_p(items: np.ndarray) -> float:
            half = "learnt" if np.array_equal(items, bench.learnt) else "others"
            return _order_p(model.order[half], None if model is base else base.order[half], rng)

        out["order"] = (order_p, None)
    if model.options:
        tested = np.asarray(model.options, dtype=float)
        reference = np.asarray(base.options, dtype=float)

        def options_p(items: np.ndarray) -> float:
            return _order_p(tested[items], None if model is base else reference[items], rng)

        out["options"] = (options_p, None)
    variants = sorted(_keys_of(model, "variant"))
    if variants:
        drop = model.array(_ORIGINAL) - average(model.table(variants))
        thresholds = PerturbThresholds()

        def cell(items: np.ndarray) -> PerturbCell:
            return PerturbCell(
                "planted",
                tuple(compress(bench.ids, items)),
                np.arange(int(items.sum())),
                np.asarray(bench.n_options)[items],
                _wordings("planted", model, variants, items),
                (_wordings("base", base, variants, items),),
                bench.broken,
            )

        out["wording_drop"] = (
            lambda items: run_tests(cell(items), thresholds, rng=rng).found_p,
            drop,
        )
        if model is not base:
            out["wording_drop_beyond_reference"] = (
                lambda items: _beyond(cell(items), thresholds, rng),
                drop,
            )
    noisy = _keys_of(model, Arm.NOISY_REWRITE)
    if noisy:
        gain = average(model.table(noisy)) - model.array(f"{Arm.FORWARD_FULL}/1")
        out["router_gain"] = (lambda items: router_pvalue(model, noisy, items), gain)
        out["router_loss"] = (lambda items: router_loss_pvalue(model, noisy, items), -gain)
    return out


def _keys_of(model: Reading, arm: str) -> list[str]:
    """Return the keys "arm/level" of one arm, for all levels at which the model was asked."""
    return [key for key in model.correct if key.startswith(f"{arm}/")]


def _order_p(tested: ArrayLike, base: ArrayLike | None, rng: np.random.Generator) -> float:
    """Return the p-value of the test for memory of the published order of the items.

    The alternative is that the published order is likelier than other orders. With a reference, the
    preference must also be stronger in the model than in the reference. The memory audit uses the
    same test.
    """
    table = np.asarray(tested, dtype=float)
    p = _or_one(order_test(table, rng=rng).pvalue)
    if base is None:
        return p
    beyond = order_test(table - np.asarray(base, dtype=float), rng=rng)
    return max(p, _or_one(beyond.pvalue))


def _beyond(cell: PerturbCell, thresholds: PerturbThresholds, rng: np.random.Generator) -> float:
    """Return the p-value of the test of a drop that exceeds the references' drop.

    The test is that of the perturbation audit. Unlike the audit, this function does not require a
    person's review of the variants. Without a review, the drop that broken variants cause is not
    subtracted. Broken variants are equally frequent in both halves, so the p-value of the other
    half shows their effect.
    """
    tests = run_tests(cell, thresholds, rng=rng)
    return _or_one(tests.reference_p) if tests.beyond else 1.0


def _or_one(pvalue: float) -> float:
    """Return the p-value, or 1 if it is NaN because the test could not be computed."""
    return 1.0 if np.isnan(pvalue) else pvalue


def router_pvalue(model: Reading, noisy: Sequence[str], items: np.ndarray) -> float:
    """Return the smallest p-value of the sweep's tests for a gain in accuracy from noisy messages.

    Parameters
    ----------
    model : Reading
        Answers of the tested model.
    noisy : sequence of str
        Keys "arm/r" of the noisy arm, where r is the number of messages.
    items : array
        Positions of the items to compare.

    Returns
    -------
    float
        Smallest p-value after Holm's correction over all r. The p-value of one r is the largest of
        three exact McNemar p-values. They compare noisy messages with

        - one clean message,
        - the original question,
        - r clean messages.
    """
    clean = model.array(f"{Arm.FORWARD_FULL}/1")[items]
    direct = model.array(f"{Arm.DIRECT}/0")[items]
    pvalues = []
    for key in noisy:
        _, _, r = key.rpartition("/")
        gained = model.array(key)[items]
        ensemble = model.array(f"{Arm.FORWARD_FULL}/{r}")[items]
        against_all = (_gain_p(gained, clean), _gain_p(gained, ensemble), _gain_p(gained, direct))
        pvalues.append(max(against_all))
    return float(np.min(holm(pvalues)))


def router_loss_pvalue(model: Reading, noisy: Sequence[str], items: np.ndarray) -> float:
    """Return the smallest p-value of the tests for a loss in accuracy from noisy messages.

    A loss means fewer right answers with noisy messages than with the clean message.

    Parameters
    ----------
    model, noisy, items
        As in `router_pvalue`.

    Returns
    -------
    float
        Smallest exact one-sided McNemar p-value after Holm's correction over all r.
    """
    clean = model.array(f"{Arm.FORWARD_FULL}/1")[items]
    return float(np.min(holm([_gain_p(clean, model.array(key)[items]) for key in noisy])))


def _gain_p(treated: FloatArray, baseline: FloatArray) -> float:
    # An item without an answer (NaN) counts neither as a gain nor as a loss, because comparisons
    # with NaN are False.
    return float(mcnemar_exact(np.sum(treated > baseline), np.sum(treated < baseline)))


def _single_set(name: str, test: Test, bench: Bench, alpha: float) -> Finding:
    """Return the result of an indicator that is computed on each half separately."""
    pvalue_of, value = test
    p, elsewhere = pvalue_of(bench.learnt), pvalue_of(~bench.learnt)
    means, area, sd = (float("nan"), float("nan")), None, float("nan")
    if value is not None:
        means, area = _compared(value[bench.learnt], value[~bench.learnt])
        sd = float(np.nanstd(value[bench.learnt], ddof=1))
    return Finding(
        name, BY_NAME[name].audit, *means, area, p, p <= alpha, elsewhere, "other half", sd
    )


def _wordings(name: str, reading: Reading, variants: Sequence[str], items: np.ndarray) -> Wordings:
    rows = reading.table(variants)
    return Wordings(name, reading.array(_ORIGINAL)[None, items], rows[:, items])
