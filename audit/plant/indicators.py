"""Answers and likelihoods of a model that learnt one half -> what each indicator says of it (pure).

Two kinds. Those that need items that were never shown compare the halves: the learnt one plays the benchmark, the
other one the held-out items. Those that need none are run on the learnt half alone, and once more on the other half,
where there is nothing to notice.
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

N_SPLITS = 1000  # random splits of the half that was never shown
_SCORE, _ORIGINAL = "score/0", "original/0"  # one question: as the memory audit asks it, and the perturbation audit


@dataclass(frozen=True)
class Bench:
    """The items: ids, options of each (0: a free answer), which were learnt, and what people found in the variants."""

    ids: tuple[str, ...]
    n_options: tuple[int, ...]
    learnt: np.ndarray
    broken: BrokenShare | None = None


@dataclass(frozen=True)
class Finding:
    """One indicator of one planted model.

    learnt, others: its mean over the items of each half. area: learnt against other items, by the item's value; None
    where there is none. pvalue: one-sided, of the test that decides. false_alarms: how often the same test rejects
    where nothing was learnt, by `null`: "splits", the share of random splits of the other half; "other half", its p
    there. sd: of the model's own value over the learnt items, from which `report.sensitivity` takes the chance to find
    the effect in other designs; NaN where an item has none.
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
    """name; audit: the command whose finding of memory hangs on it, "" for none. needs: "held-out items", "a
    reference", both, or "" for neither."""

    name: str
    audit: str
    needs: str
    words: str


# A drop alone is "brittle, cause unknown", and a loss from damage is none of memory: the base model has both, too.
_TABLE = files("audit").joinpath("data", "indicators.csv").read_text(encoding="utf-8")
INDICATORS = tuple(Indicator(**row) for row in csv.DictReader(_TABLE.splitlines()))
BY_NAME = {one.name: one for one in INDICATORS}


def findings(
    bench: Bench, model: Reading, base: Reading, *, alpha: float, seed: int, n_splits: int = N_SPLITS
) -> list[Finding]:
    """Every indicator that the readings allow, in the order of INDICATORS. base: the base model, the reference.

    Of the base itself (`model is base`) nothing can be compared with the reference: only the others are there.
    """
    rng = np.random.default_rng(seed)
    found = [_halves(name, own, ref, bench, alpha, rng, n_splits) for name, own, ref in _pairs(model, base)]
    found += [_own(name, test, bench, alpha) for name, test in _own_tests(bench, model, base, rng).items()]
    order = [one.name for one in INDICATORS]
    return sorted(found, key=lambda f: order.index(f.indicator))


def _pairs(model: Reading, base: Reading) -> list[tuple[str, FloatArray, FloatArray | None]]:
    """(indicator, the model's values, the reference's or None) of the indicators that compare the halves."""
    out: list[tuple[str, FloatArray, FloatArray | None]] = []
    if "item" in model.text:
        out.append(("item_likelihood", np.asarray(model.text["item"], dtype=float), None))
    if model is base:
        return out
    asked = next((key for key in (_SCORE, _ORIGINAL) if key in model.correct and key in base.correct), _SCORE)
    given = [("gap", model.correct.get(asked), base.correct.get(asked)), ("margin", model.margin, base.margin)]
    given += [(f"completion_{name}", model.text.get(name), base.text.get(name)) for name in TEXT_SCORES]
    for name, own, ref in given:
        if own and ref:
            out.append((name, np.asarray(own, dtype=float), np.asarray(ref, dtype=float)))
    return out


def two_set_p(name: str, tested: Sets, reference: Sets | None, rng: np.random.Generator, n_resamples: int) -> float:
    """One-sided p of an indicator that compares two sets of items: the memory audit's own tests."""
    if reference is None:
        return membership_auc(*tested).pvalue
    if name == "gap":
        return fresh_gap(tested, [reference], rng=rng, n_resamples=n_resamples).pvalue
    return set_difference(tested, [reference]).pvalue


def _halves(
    name: str, own: FloatArray, ref: FloatArray | None, bench: Bench, alpha: float, rng: np.random.Generator, n: int
) -> Finding:
    """n: splits."""
    yes, no = bench.learnt, ~bench.learnt
    p = two_set_p(name, (own[yes], own[no]), None if ref is None else (ref[yes], ref[no]), rng, 9999)
    value = own if ref is None else own - ref
    means, area = _compared(value[yes], value[no])
    alarms = split_alarms(name, own[no], None if ref is None else ref[no], alpha, rng, n)
    sd = float(np.nanstd(own[yes], ddof=1))
    return Finding(name, BY_NAME[name].audit, *means, area, p, p <= alpha, alarms, "splits", sd)


def _compared(learnt: FloatArray, others: FloatArray) -> tuple[tuple[float, float], Auc]:
    return (float(np.nanmean(learnt)), float(np.nanmean(others))), membership_auc(learnt, others)


def split_alarms(
    name: str, own: FloatArray, ref: FloatArray | None, alpha: float, rng: np.random.Generator, n_splits: int = N_SPLITS
) -> float:
    """Share of random halvings of items, none of which was learnt, that the test of two sets calls different."""
    half = own.size // 2
    rejected = 0
    for _ in range(n_splits):
        mixed = rng.permutation(own.size)
        a, b = mixed[:half], mixed[half:]
        reference = None if ref is None else (ref[a], ref[b])
        rejected += two_set_p(name, (own[a], own[b]), reference, rng, 199) <= alpha
    return rejected / n_splits


Test = tuple[Callable[[np.ndarray], float], FloatArray | None]  # items -> p; the item's value, for an AUC


def _own_tests(bench: Bench, model: Reading, base: Reading, rng: np.random.Generator) -> dict[str, Test]:
    out: dict[str, Test] = {}
    if model.order:

        def order_p(items: np.ndarray) -> float:
            half = "learnt" if np.array_equal(items, bench.learnt) else "others"
            return _order_p(model.order[half], None if model is base else base.order[half], rng)

        out["order"] = (order_p, None)
    if model.options:
        own_table, table = np.asarray(model.options, dtype=float), np.asarray(base.options, dtype=float)
        out["options"] = (lambda items: _order_p(own_table[items], None if model is base else table[items], rng), None)
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

        out["wording_drop"] = (lambda items: run_tests(cell(items), thresholds, rng=rng).found_p, drop)
        if model is not base:
            out["wording_drop_beyond_reference"] = (lambda items: _beyond(cell(items), thresholds, rng), drop)
    noisy = [k for k in model.correct if k.startswith(f"{Arm.NOISY_REWRITE}/")]
    if noisy:
        gain = average(np.stack([model.array(k) for k in noisy])) - model.array(f"{Arm.FORWARD_FULL}/1")
        out["router_gain"] = (lambda items: router_pvalue(model, noisy, items), gain)
        out["router_loss"] = (lambda items: router_loss_pvalue(model, noisy, items), -gain)
    return out


def _order_p(own: ArrayLike, base: ArrayLike | None, rng: np.random.Generator) -> float:
    """As the memory audit: the published order is likelier than others, and beyond what it is to the reference."""
    tables = [np.asarray(own, dtype=float)]
    if base is not None:
        tables.append(tables[0] - np.asarray(base, dtype=float))
    return max(_or_one(order_test(one, rng=rng).pvalue) for one in tables)


def _beyond(cell: PerturbCell, thresholds: PerturbThresholds, rng: np.random.Generator) -> float:
    """As the perturbation audit, which also wants a person's sample of the library: where there is none, what broken
    variants could make is left out here (they are in both halves alike, and the p of the other half shows it)."""
    tests = run_tests(cell, thresholds, rng=rng)
    return _or_one(tests.reference_p) if tests.beyond else 1.0


def _or_one(pvalue: float) -> float:
    """A test that could not be made rejects nothing."""
    return 1.0 if np.isnan(pvalue) else pvalue


def router_pvalue(model: Reading, noisy: Sequence[str], items: np.ndarray) -> float:
    """As the sweep: at each r a gain has to hold against the clean message, the original and the ensemble of r clean
    messages (largest exact McNemar p of the three), and Holm's correction is over r; the smallest is returned."""
    pvalues = []
    for key in noisy:
        r = int(key.rpartition("/")[2])
        against = {f"{Arm.FORWARD_FULL}/1", f"{Arm.FORWARD_FULL}/{r}", f"{Arm.DIRECT}/0"}
        pvalues.append(max(_gain_p(model.array(key)[items], model.array(other)[items]) for other in against))
    return float(np.min(holm(pvalues)))


def router_loss_pvalue(model: Reading, noisy: Sequence[str], items: np.ndarray) -> float:
    """One-sided exact McNemar p of fewer right answers than from the clean message; the smallest after Holm over r."""
    clean = model.array(f"{Arm.FORWARD_FULL}/1")[items]
    return float(np.min(holm([_gain_p(clean, model.array(key)[items]) for key in noisy])))


def _gain_p(treated: FloatArray, baseline: FloatArray) -> float:
    return float(mcnemar_exact(np.sum(treated > baseline), np.sum(treated < baseline)))  # NaN compares as False


def _own(name: str, test: Test, bench: Bench, alpha: float) -> Finding:
    pvalue_of, value = test
    p, elsewhere = pvalue_of(bench.learnt), pvalue_of(~bench.learnt)
    means, area, sd = (float("nan"), float("nan")), None, float("nan")
    if value is not None:
        means, area = _compared(value[bench.learnt], value[~bench.learnt])
        sd = float(np.nanstd(value[bench.learnt], ddof=1))
    return Finding(name, BY_NAME[name].audit, *means, area, p, p <= alpha, elsewhere, "other half", sd)


def _wordings(name: str, reading: Reading, variants: Sequence[str], items: np.ndarray) -> Wordings:
    rows = np.stack([reading.array(k) for k in variants])
    return Wordings(name, reading.array(_ORIGINAL)[None, items], rows[:, items])
