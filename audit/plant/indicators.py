"""Answers and likelihoods of a model that learnt one half -> what each indicator says of it (pure).

Two kinds. Those that need items that were never shown compare the halves: the learnt one plays the benchmark, the
other one the fresh items. Those that need none are run on the learnt half alone, and once more on the other half,
where there is nothing to notice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from audit.errors import DataError
from audit.perturb.evidence import run_tests
from audit.perturb.record import BrokenShare, PerturbCell, Wordings
from audit.perturb.thresholds import PerturbThresholds
from audit.plant.measure import Reading
from audit.statistics.auc import Auc, Notice, auc, chance_to_notice
from audit.statistics.mcnemar import mcnemar_exact
from audit.statistics.multiplicity import holm
from audit.statistics.paired import FloatArray
from audit.sweep.design import Arm

N_SPLITS = 1000  # random splits of the half that was never shown
_BASELINE = "original/0"


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
    there. notice: chance to notice an effect of this size.
    """

    indicator: str
    audit: str
    learnt: float
    others: float
    area: Auc | None
    pvalue: float
    noticed: bool
    notice: Notice
    false_alarms: float
    null: str


@dataclass(frozen=True)
class Indicator:
    """name; audit: the command that has it. needs: "fresh items", "a reference" or "" for neither."""

    name: str
    audit: str
    needs: str
    words: str


INDICATORS = (
    Indicator("score", "memory", "fresh items", "score on the benchmark against fresh items"),
    Indicator("score_vs_reference", "memory", "fresh items and a reference", "the same, less the reference model's"),
    Indicator("margin_vs_reference", "memory", "fresh items and a reference", "gold option's likelihood over the best "
              "other one's, less the reference's, against fresh items"),
    Indicator("item_likelihood", "memory", "fresh items", "likelihood of the item as published against fresh items"),
    Indicator("item_likelihood_vs_reference", "memory", "fresh items and a reference", "the same, less the reference's"),
    Indicator("question_likelihood_vs_reference", "memory", "fresh items and a reference", "likelihood of the question "
              "alone, less the reference's, against fresh items"),
    Indicator("wrong_options_vs_reference", "memory", "fresh items and a reference", "likelihood of the wrong options "
              "after the question, less the reference's, against fresh items"),
    Indicator("order", "memory", "", "likelihood in the published order against random orders"),
    Indicator("wording_drop", "perturb", "", "score in the published wording against rewordings"),
    Indicator("wording_drop_beyond_reference", "perturb", "a reference", "the same, beyond the reference's drop"),
    Indicator("router_gain", "sweep", "", "score from damaged messages against clean ones and the original"),
)  # fmt: skip
BY_NAME = {one.name: one for one in INDICATORS}


def findings(bench: Bench, model: Reading, base: Reading, *, alpha: float, seed: int) -> list[Finding]:
    """Every indicator that the readings allow, in the order of INDICATORS. base: the unspoilt model, the reference."""
    rng = np.random.default_rng(seed)
    values = {name: value for name, value in _item_values(model, base).items() if value is not None}
    found = [_halves(name, value, bench, alpha, rng) for name, value in values.items()]
    for name, test in _own_tests(bench, model, base, alpha, rng).items():
        found.append(_own(name, test, bench, alpha))
    order = [one.name for one in INDICATORS]
    return sorted(found, key=lambda f: order.index(f.indicator))


def _item_values(model: Reading, base: Reading) -> dict[str, FloatArray | None]:
    def less(a: Sequence[float] | None, b: Sequence[float] | None) -> FloatArray | None:
        return None if not a or not b else np.asarray(a, dtype=float) - np.asarray(b, dtype=float)

    score = model.correct.get(_BASELINE)
    item, question = model.text.get("item"), model.text.get("question")
    return {
        "score": None if score is None else np.asarray(score, dtype=float),
        "score_vs_reference": less(score, base.correct.get(_BASELINE)),
        "margin_vs_reference": less(model.margin, base.margin),
        "item_likelihood": None if not item else np.asarray(item, dtype=float),
        "item_likelihood_vs_reference": less(item, base.text.get("item")),
        "question_likelihood_vs_reference": less(question, base.text.get("question")),
        "wrong_options_vs_reference": less(model.wrong, base.wrong),
    }


def _halves(name: str, value: FloatArray, bench: Bench, alpha: float, rng: np.random.Generator) -> Finding:
    first, second = value[bench.learnt], value[~bench.learnt]
    area = auc(first, second)
    return Finding(
        name, BY_NAME[name].audit, float(np.nanmean(first)), float(np.nanmean(second)), area, area.pvalue,
        area.pvalue <= alpha, chance_to_notice(area.pvalue, alpha), split_alarms(second, alpha, rng), "splits",
    )  # fmt: skip


def split_alarms(values: FloatArray, alpha: float, rng: np.random.Generator, n_splits: int = N_SPLITS) -> float:
    """Share of random halvings of items, none of which was learnt, that the test of two halves calls different."""
    known = values[~np.isnan(values)]
    half = known.size // 2
    if half < 2:
        raise DataError(f"{known.size} items that were not learnt have a value: too few to split.")
    rejected = 0
    for _ in range(n_splits):
        mixed = rng.permutation(known)
        rejected += auc(mixed[:half], mixed[half:]).pvalue <= alpha
    return rejected / n_splits


Test = tuple[Callable[[np.ndarray], float], FloatArray]  # items -> p; the item's value, for an AUC


def _own_tests(
    bench: Bench, model: Reading, base: Reading, alpha: float, rng: np.random.Generator
) -> dict[str, Test]:
    out: dict[str, Test] = {}
    variants = sorted(k for k in model.correct if k.startswith("variant/"))
    if variants:
        own, reference = (_wordings(name, r, variants) for name, r in (("planted", model), ("base", base)))
        drop = own.original[0] - np.nanmean(own.variants, axis=0)
        thresholds = PerturbThresholds()

        def cell(items: np.ndarray) -> PerturbCell:
            return PerturbCell(
                "planted",
                tuple(i for i, on in zip(bench.ids, items, strict=True) if on),
                np.arange(int(items.sum())),
                np.asarray(bench.n_options)[items],
                _subset(own, items),
                (_subset(reference, items),),
                bench.broken,
            )

        out["wording_drop"] = (lambda items: run_tests(cell(items), thresholds, rng=rng).found_p, drop)
        if bench.broken is not None:
            out["wording_drop_beyond_reference"] = (lambda items: _beyond(cell(items), thresholds, rng), drop)
    noisy = sorted((k for k in model.correct if k.startswith(f"{Arm.NOISY_REWRITE}/")), key=lambda k: int(k[14:]))
    if noisy:
        gain = np.nanmean([model.array(k) for k in noisy], axis=0) - model.array(f"{Arm.FORWARD_FULL}/1")
        out["router_gain"] = (lambda items: router_pvalue(model, noisy, items), gain)
    return out


def _beyond(cell: PerturbCell, thresholds: PerturbThresholds, rng: np.random.Generator) -> float:
    found = run_tests(cell, thresholds, rng=rng).beyond_p
    return 1.0 if found is None or np.isnan(found) else found


def router_pvalue(model: Reading, noisy: Sequence[str], items: np.ndarray) -> float:
    """As the sweep: at each r a gain has to hold against the clean message, the original and the ensemble of r clean
    messages (largest exact McNemar p of the three), and Holm's correction is over r; the smallest is returned."""
    pvalues = []
    for key in noisy:
        r = int(key.rpartition("/")[2])
        against = {f"{Arm.FORWARD_FULL}/1", f"{Arm.FORWARD_FULL}/{r}", f"{Arm.DIRECT}/0"}
        pvalues.append(max(_gain_p(model.array(key)[items], model.array(other)[items]) for other in against))
    return float(np.min(holm(pvalues)))


def _gain_p(treated: FloatArray, baseline: FloatArray) -> float:
    improve, degrade = int(np.sum(treated > baseline)), int(np.sum(treated < baseline))  # NaN compares as False
    return float(mcnemar_exact(improve, degrade).pvalue)


def _own(name: str, test: Test, bench: Bench, alpha: float) -> Finding:
    pvalue_of, value = test
    p, elsewhere = pvalue_of(bench.learnt), pvalue_of(~bench.learnt)
    first, second = value[bench.learnt], value[~bench.learnt]
    return Finding(
        name, BY_NAME[name].audit, float(np.nanmean(first)), float(np.nanmean(second)), auc(first, second), p,
        p <= alpha, chance_to_notice(p, alpha), elsewhere, "other half",
    )  # fmt: skip


def _wordings(name: str, reading: Reading, variants: Sequence[str]) -> Wordings:
    rows = np.asarray([reading.correct[k] for k in variants], dtype=float)
    return Wordings(name, reading.array(_BASELINE)[None], rows)


def _subset(wordings: Wordings, items: np.ndarray) -> Wordings:
    return Wordings(wordings.model, wordings.original[:, items], wordings.variants[:, items])


def by_indicator(found: Sequence[Finding]) -> Mapping[str, Finding]:
    return {f.indicator: f for f in found}
