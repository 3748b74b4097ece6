"""How often is this audit itself wrong? Models of known truth through the tests of the real verdict.

    python -m audit.calibrate audit=perturb --out audit/data/calibration_perturb.json      # the table that ships
    python -m audit.calibrate audit=perturb --control      # with fresh items as a control, in worlds of their own

The models are those of `audit.perturb.worlds`. Two errors are counted: a finding where there is none, and the clearance
(`no_drop_detected`) of a model whose true drop is the effect of interest. Each model is judged by itself, and as one of
a panel of twelve, by Bonferroni: Holm's correction takes no finding away that this leaves.

A person has read `checked` variants of each library, and the verdict knows only what was found there. The gates, which
look for faults that a simulation does not have, are bypassed, but for `enough_data`.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from audit.perturb.decide import decide, finding, standing
from audit.perturb.evidence import Grounds, Tests, grounds, run_tests
from audit.perturb.gates import enough_data
from audit.perturb.result import PerturbVerdict
from audit.perturb.thresholds import PerturbThresholds
from audit.perturb.worlds import CONTROL_WORLDS, WORLDS, PerturbDesign, World, simulate
from audit.statistics.contamination_score import article_result
from audit.verdict.simulated import PANEL, SEEDS, keep, make_parser, rate, shown, table_text

INTERVAL_DRAWS = 50  # of the drop's interval, which a verdict's reasons quote and nothing rests on
CURVE_DRAWS = 100  # of ConStat's curve; a run draws more, on which its level does not depend
SIMULATIONS = 300
# Where clearances are counted: in the clean world, in those with a drop of about the effect of interest, with less.
CLEARED = ("clean", "harder", "uneven", "memorised_5", "memorised_5_groups", "memorised_5_unread", "memorised")

WITH_CONTROL = (
    *(PerturbDesign(1000, 3, r, control=1000) for r in (0, 1, 5)),
    PerturbDesign(1000, 3, 5, control=300),
)

# The designs that ship: `calibrated.nearest` picks from them.
SHIPPED = (
    *(PerturbDesign(1000, 3, r, checked) for checked in (150, 300) for r in (0, 1, 5)),
    *(PerturbDesign(n, 3, r) for n in (500, 200) for r in (0, 5)),
    *(PerturbDesign(1000, v, 5) for v in (1, 9)),
    PerturbDesign(1000, 3, 5, replicates=2),
    *(PerturbDesign(1000, 3, r) for r in (3, 8)),
    *(PerturbDesign(1000, 3, r) for r in (10, 20)),  # from ten references on, ConStat's curve must agree
)
RATES = (
    "beyond", "brittle", "article_triggered", "article_blocked", "curve", "control", "uncontrolled", "cleared",
    "cleared_panel",
)  # fmt: skip


def judge(
    design: PerturbDesign,
    world: World,
    thresholds: PerturbThresholds,
    rng: np.random.Generator,
    *,
    clearing: bool = True,
) -> tuple[float, ...]:
    """One model, 1 or 0 for each of RATES: beyond reference, brittle, the article's CS > .10 and p < .05, its block at
    over 5 % of items, and whether ConStat's curve alone rejects at alpha (NaN where too few references give no curve),
    whether fresh items alone do, and whether it is beyond reference but for them (both NaN without); whether it is
    cleared, by itself and in a panel (NaN unless clearing).
    """
    cell = simulate(design, world, rng)
    tests = run_tests(cell, thresholds, rng=rng, n_draws=CURVE_DRAWS)
    found = held(tests, thresholds.alpha)
    article = article_result(*cell.tested.pair)
    control = alone = np.nan
    if tests.control is not None:
        control = tests.control.pvalue <= thresholds.alpha
        alone = held(replace(tests, control=None), thresholds.alpha) == PerturbVerdict.DROP_BEYOND_REFERENCE
    clear = (np.nan, np.nan)
    if clearing:
        interval = np.random.default_rng(0)  # of its own: what is found does not depend on clearing
        ground = grounds(cell, tests, thresholds, rng=interval, n_resamples=INTERVAL_DRAWS)
        clear = cleared(ground, thresholds)
    return (
        found == PerturbVerdict.DROP_BEYOND_REFERENCE,
        found == PerturbVerdict.BRITTLE_CAUSE_UNKNOWN,
        article.triggered,
        article.blocked,
        np.nan if tests.curve is None else tests.curve.pvalue <= thresholds.alpha,
        control,
        alone,
        *clear,
    )


def held(tests: Tests, alpha: float) -> PerturbVerdict | None:
    """The finding that the verdict states: one that is not withheld for unread answers."""
    found = finding(tests, alpha)
    return found if found == standing(tests, alpha) else None


def cleared(found: Grounds, thresholds: PerturbThresholds) -> tuple[float, float]:
    """Whether the verdict says `no_drop_detected`, of the model by itself and as one of a panel of PANEL."""
    gates = (enough_data(found.detectable, thresholds),)
    alone = decide(found, gates, thresholds).verdict
    p = [None if one is None else min(PANEL * one, 1.0) for one in (found.tests.found_p, found.tests.beyond_p)]
    panel = decide(found, gates, thresholds, *p).verdict
    return alone == PerturbVerdict.NO_DROP_DETECTED, panel == PerturbVerdict.NO_DROP_DETECTED


def calibrate(
    design: PerturbDesign,
    *,
    simulations: int = SIMULATIONS,
    worlds: Mapping[str, World] = WORLDS,
    thresholds: PerturbThresholds | None = None,
    seeds: Sequence[int] = SEEDS,
) -> dict[str, Any]:
    """{"design", "rates", "by_seed", "seeds"}: for each world W and each R of RATES the share (0-1) of models W_R
    with its Monte-Carlo standard error W_R_se; by_seed: W_beyond of each seed by itself.

    simulations: clean models, the same number from every seed; two thirds as many of each world with memory.
    """
    thresholds = thresholds or PerturbThresholds()
    rates: dict[str, float | None] = {}
    by_seed: dict[str, list[float]] = {}
    for name, world in worlds.items():
        if (world.weaker or world.references_unread) and not design.references:
            continue
        count = -(-(2 * simulations // 3 if world.memorised else simulations) // len(seeds))
        rates["power_simulations" if world.memorised else "simulations"] = float(count * len(seeds))
        parts = []
        for seed in seeds:
            rng = np.random.default_rng([seed, zlib.crc32(repr((design, name)).encode())])
            judged = [judge(design, world, thresholds, rng, clearing=name in CLEARED) for _ in range(count)]
            parts.append(np.array(judged, dtype=float))
        by_seed[name] = [round(float(part[:, 0].mean()), 6) for part in parts]
        for label, values in zip(RATES, np.concatenate(parts).T, strict=True):
            if not np.isnan(values).any():
                rates |= rate(f"{name}_{label}", values)
    return {"design": asdict(design), "rates": rates, "by_seed": by_seed, "seeds": list(seeds)}


def markdown(entries: Sequence[Mapping[str, Any]]) -> str:
    """The table of the documentation: per cent, one row a design; beyond reference, or brittle without references."""
    names = [name.replace("_", " ") for name in WORLDS]
    head = ["n", "variants", "references", "read", "runs of the original", *names, "article blocks a clean model"]
    rows = []
    for entry in entries:
        d, r = entry["design"], entry["rates"]
        label = "beyond" if d["references"] else "brittle"
        row = [str(d[k]) for k in ("n", "variants", "references", "checked", "replicates")]
        rows.append([*row, *(shown(r, f"{name}_{label}") for name in WORLDS), shown(r, "clean_article_blocked")])
    return table_text(head, rows)


def curve_markdown(entries: Sequence[Mapping[str, Any]]) -> str:
    """The second table of the documentation: of the designs with a curve, what it rejects by itself."""
    rows = [
        [str(entry["design"]["references"]), *(shown(entry["rates"], f"{name}_curve") for name in WORLDS)]
        for entry in entries
        if "clean_curve" in entry["rates"]
    ]
    return table_text(["references", *(name.replace("_", " ") for name in WORLDS)], rows)


def cleared_markdown(entries: Sequence[Mapping[str, Any]]) -> str:
    """The table of clearances: per cent of models for which no drop is detected; of a panel those with a drop."""
    head = ["n", "variants", "references", "read", "runs of the original"]
    head += [name.replace("_", " ") for name in CLEARED] + ["harder, panel", "memorised 5, panel"]
    columns = [f"{name}_cleared" for name in CLEARED] + ["harder_cleared_panel", "memorised_5_cleared_panel"]
    rows = [
        [
            *(str(e["design"][k]) for k in ("n", "variants", "references", "checked", "replicates")),
            *(shown(e["rates"], name) for name in columns),
        ]
        for e in entries
    ]
    return table_text(head, rows)


def control_markdown(entries: Sequence[Mapping[str, Any]]) -> str:
    """The table of designs with fresh items: per cent called beyond reference by both, by the references without fresh
    items, and what fresh items alone would call so."""
    head = ["n", "references", "fresh items", "called by", *(name.replace("_", " ") for name in CONTROL_WORLDS)]
    rows = []
    for entry in entries:
        design = [str(entry["design"][k]) for k in ("n", "references", "control")]
        for label, by in (("beyond", "both"), ("uncontrolled", "references"), ("control", "fresh items")):
            rows.append([*design, by, *(shown(entry["rates"], f"{w}_{label}") for w in CONTROL_WORLDS)])
    return table_text(head, rows)


def main(arguments: Sequence[str] | None = None, designs: Sequence[PerturbDesign] | None = None) -> int:
    """Simulate what ships (or with --control what has fresh items), print one row a design, and write the table where
    asked. designs: in their place."""
    parser = make_parser("perturb", __doc__)
    parser.add_argument("--control", action="store_true", help="designs and worlds with fresh items as a control")
    asked = parser.parse_args(arguments)
    table: dict[str, Any] = {"thresholds": asdict(PerturbThresholds()), "designs": []}
    worlds, text, rows = (CONTROL_WORLDS, control_markdown, 3) if asked.control else (WORLDS, markdown, 1)
    for design in designs or (WITH_CONTROL if asked.control else SHIPPED):
        table["designs"].append(calibrate(design, simulations=asked.simulations or SIMULATIONS, worlds=worlds))
        keep(text(table["designs"]), asked.out, table, rows)
    if not asked.control:
        print(f"\n{cleared_markdown(table['designs'])}", end="", flush=True)
    if any("clean_curve" in entry["rates"] for entry in table["designs"]):
        print(f"\n{curve_markdown(table['designs'])}", end="", flush=True)
    return 0
