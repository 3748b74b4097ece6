"""Compute each indicator from the answers and likelihoods of a model that learnt one half (pure).

Indicators that need items that were never shown compare the halves: the learnt one plays the
benchmark, the other one the held-out items. Indicators that need none are run on the learnt half
alone, and once more on the other half, in which there is nothing to notice.
"""

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files

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

N_SPLITS = 1000  # number of random splits of the half that was never shown
_SCORE, _ORIGINAL = (
    "score/0",
    "original/0",
)  # the same question in the memory audit and in the perturbation audit


@dataclass(frozen=True)
class Bench:
    """Describe the items.

    Attributes
    ----------
    ids : tuple of str
        Ids.
    n_options : tuple of int
        Options of each (0: a free answer).
    learnt : (n,) bool array
        True for learnt items.
    broken : BrokenShare or None
        What people found in the variants.
    """

    ids: tuple[str, ...]
    n_options: tuple[int, ...]
    learnt: np.ndarray
    broken: BrokenShare | None = None


@dataclass(frozen=True)
class Finding:
    """Report one indicator of one planted model.

    Attributes
    ----------
    indicator, audit : str
        Names.
    learnt, others : float
        Mean over the items of each half.
    area : Auc or None
        Learnt against other items, by the item's value; None if an item has none.
    pvalue, noticed : float, bool
        One-sided p of the test that decides, and whether it is at most alpha.
    false_alarms : float
        How often the same test rejects if nothing was learnt, by `null`.
    null : str
        "splits", the share of random splits of the other half; "other half", its p there.
    sd : float
        Standard deviation of the model's own value over the learnt items, from which
        `report.sensitivity` computes the chance to find the effect in other designs; NaN if an item
        has no value.
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
    """Describe an indicator.

    Attributes
    ----------
    name : str
        Name.
    audit : str
        Command whose finding of memory depends on it; "" for none.
    needs : str
        "held-out items", "a reference", both, or "" for neither.
    words : str
        Description.
    """

    name: str
    audit: str
    needs: str
    words: str


# A drop alone has an unknown cause, and a loss from damage is not memory: the base model has both.
_TABLE = files("audit").joinpath("data", "indicators.csv").read_text(encoding="utf-8")
INDICATORS = tuple(Indicator(**row) for row in csv.DictReader(_TABLE.splitlines()))
BY_NAME = {one.name: one for one in INDICATORS}


def findings(
    bench: Bench,
    model: Reading,
    base: Reading,
    *,
    alpha: float,
    seed: int,
    n_splits: int = N_SPLITS,
) -> list[Finding]:
    """Return every indicator that the readings allow, in the order of INDICATORS.

    Parameters
    ----------
    bench : Bench
        The items.
    model, base : Reading
        Readings of the planted model, and of the base model, which is the reference. If they are
        the same object, only indicators without a reference are returned.
    alpha : float
        Level of each test.
    seed : int
        Seed of random splits.
    n_splits : int
        Number of random splits.

    Returns
    -------
    list of Finding
        One each.
    """
    rng = np.random.default_rng(seed)
    results = [
        _halves(name, values, ref, bench, alpha, rng, n_splits)
        for name, values, ref in _pairs(model, base)
    ]
    results += [
        _own(name, test, bench, alpha) for name, test in _own_tests(bench, model, base, rng).items()
    ]
    order = [indicator.name for indicator in INDICATORS]
    return sorted(results, key=lambda f: order.index(f.indicator))


def _pairs(model: Reading, base: Reading) -> list[tuple[str, FloatArray, FloatArray | None]]:
    """Return (indicator, the model's values, the reference's or None) of the indicators that
    compare the halves."""
    out: list[tuple[str, FloatArray, FloatArray | None]] = []
    if "item" in model.text:
        out.append(("item_likelihood", np.asarray(model.text["item"], dtype=float), None))
    if model is base:
        return out
    key_asked = next(
        (key for key in (_SCORE, _ORIGINAL) if key in model.correct and key in base.correct), _SCORE
    )
    given = [
        ("gap", model.correct.get(key_asked), base.correct.get(key_asked)),
        ("margin", model.margin, base.margin),
    ]
    given += [
        (f"completion_{name}", model.text.get(name), base.text.get(name)) for name in TEXT_SCORES
    ]
    for name, values, ref in given:
        if values and ref:
            out.append((name, np.asarray(values, dtype=float), np.asarray(ref, dtype=float)))
    return out


def two_set_p(
    name: str, tested: Sets, reference: Sets | None, rng: np.random.Generator, n_resamples: int
) -> float:
    """Return the one-sided p of an indicator that compares two sets of items, by the memory audit's
    tests.

    Parameters
    ----------
    name : str
        Name of the indicator.
    tested, reference : Sets
        Values of the model, and of the reference if there is one.
    rng : numpy.random.Generator
        Source of resamples.
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
    own: FloatArray,
    ref: FloatArray | None,
    bench: Bench,
    alpha: float,
    rng: np.random.Generator,
    n: int,
) -> Finding:
    """Return the finding of an indicator that compares the halves; n: number of splits."""
    yes, no = bench.learnt, ~bench.learnt
    p = two_set_p(
        name, (own[yes], own[no]), None if ref is None else (ref[yes], ref[no]), rng, 9999
    )
    value = own if ref is None else own - ref
    means, area = _compared(value[yes], value[no])
    alarms = split_alarms(name, own[no], None if ref is None else ref[no], alpha, rng, n)
    sd = float(np.nanstd(own[yes], ddof=1))
    return Finding(name, BY_NAME[name].audit, *means, area, p, p <= alpha, alarms, "splits", sd)


def _compared(learnt: FloatArray, others: FloatArray) -> tuple[tuple[float, float], Auc]:
    return (float(np.nanmean(learnt)), float(np.nanmean(others))), membership_auc(learnt, others)


def split_alarms(
    name: str,
    own: FloatArray,
    ref: FloatArray | None,
    alpha: float,
    rng: np.random.Generator,
    n_splits: int = N_SPLITS,
) -> float:
    """Return the share of random halvings of items that the test of two sets calls different.

    Parameters
    ----------
    name : str
        Name of the indicator.
    own, ref : array
        Values of the model and of the reference on items of which none was learnt.
    alpha : float
        Level of the test.
    rng : numpy.random.Generator
        Source of the halvings.
    n_splits : int
        Number of halvings.

    Returns
    -------
    float
        Share 0-1.
    """
    half = own.size // 2
    rejected = 0
    for _ in range(n_splits):
        mixed = rng.permutation(own.size)
        a, b = mixed[:half], mixed[half:]
        reference = None if ref is None else (ref[a], ref[b])
        rejected += two_set_p(name, (own[a], own[b]), reference, rng, 199) <= alpha
    return rejected / n_splits


Test = tuple[
    Callable[[np.ndarray], float], FloatArray | None
]  # items -> p; the item's value, for an AUC


def _own_tests(
    bench: Bench, model: Reading, base: Reading, rng: np.random.Generator
) -> dict[str, Test]:
    out: dict[str, Test] = {}
    if model.order:

        def order_p(items: np.ndarray) -> float:
            half = "learnt" if np.array_equal(items, bench.learnt) else "others"
            return _order_p(model.order[half], None if model is base else base.order[half], rng)

        out["order"] = (order_p, None)
    if model.options:
        own_table, table = (
            np.asarray(model.options, dtype=float),
            np.asarray(base.options, dtype=float),
        )
        out["options"] = (
            lambda items: _order_p(own_table[items], None if model is base else table[items], rng),
            None,
        )
    variants = sorted(k for k in model.correct if k.startswith("variant/"))
    if variants:
        drop = model.array(_ORIGINAL) - average(np.stack([model.array(k) for k in variants]))
        thresholds = PerturbThresholds()

        def cell(items: np.ndarray) -> PerturbCell:
            return PerturbCell(
                "planted",
                tuple(i for i, on in zip(bench.ids, items, strict=True) if on),
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
    noisy = [k for k in model.correct if k.startswith(f"{Arm.NOISY_REWRITE}/")]
    if noisy:
        gain = average(np.stack([model.array(k) for k in noisy])) - model.array(
            f"{Arm.FORWARD_FULL}/1"
        )
        out["router_gain"] = (lambda items: router_pvalue(model, noisy, items), gain)
        out["router_loss"] = (lambda items: router_loss_pvalue(model, noisy, items), -gain)
    return out


def _order_p(own: ArrayLike, base: ArrayLike | None, rng: np.random.Generator) -> float:
    """Return the p that the published order is likelier than others, and beyond the reference's
    (the memory audit's test)."""
    tables = [np.asarray(own, dtype=float)]
    if base is not None:
        tables.append(tables[0] - np.asarray(base, dtype=float))
    return max(_or_one(order_test(table, rng=rng).pvalue) for table in tables)


def _beyond(cell: PerturbCell, thresholds: PerturbThresholds, rng: np.random.Generator) -> float:
    """Return the p of the perturbation audit's drop beyond references.

    That audit also requires a person's sample of the library. Without one, the share that broken
    variants explain is left out here: it is equal in both halves, and the p of the other half shows
    it.
    """
    tests = run_tests(cell, thresholds, rng=rng)
    return _or_one(tests.reference_p) if tests.beyond else 1.0


def _or_one(pvalue: float) -> float:
    """Return the p-value; 1 if the test could not be made."""
    return 1.0 if np.isnan(pvalue) else pvalue


def router_pvalue(model: Reading, noisy: Sequence[str], items: np.ndarray) -> float:
    """Return the smallest p of a gain, as the sweep tests it.

    Parameters
    ----------
    model : Reading
        Answers.
    noisy : sequence of str
        Keys of the noisy arm, "arm/r".
    items : array
        Items to compare.

    Returns
    -------
    float
        p after Holm's correction over r. At each r a gain must hold against the clean message, the
        original and the ensemble of r clean messages (largest exact McNemar p of the three).
    """
    pvalues = []
    for key in noisy:
        r = int(key.rpartition("/")[2])
        against = {f"{Arm.FORWARD_FULL}/1", f"{Arm.FORWARD_FULL}/{r}", f"{Arm.DIRECT}/0"}
        pvalues.append(
            max(_gain_p(model.array(key)[items], model.array(other)[items]) for other in against)
        )
    return float(np.min(holm(pvalues)))


def router_loss_pvalue(model: Reading, noisy: Sequence[str], items: np.ndarray) -> float:
    """Return the smallest p of fewer right answers than from the clean message.

    Parameters
    ----------
    model, noisy, items : object
        As in `router_pvalue`.

    Returns
    -------
    float
        One-sided exact McNemar p, the smallest after Holm over r.
    """
    clean = model.array(f"{Arm.FORWARD_FULL}/1")[items]
    return float(np.min(holm([_gain_p(clean, model.array(key)[items]) for key in noisy])))


def _gain_p(treated: FloatArray, baseline: FloatArray) -> float:
    return float(
        mcnemar_exact(np.sum(treated > baseline), np.sum(treated < baseline))
    )  # NaN compares as False


def _own(name: str, test: Test, bench: Bench, alpha: float) -> Finding:
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
    rows = np.stack([reading.array(k) for k in variants])
    return Wordings(name, reading.array(_ORIGINAL)[None, items], rows[:, items])
