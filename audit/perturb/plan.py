"""What a run would do, and whether it could find anything: the detectable drop, the article's table."""

import math
from collections.abc import Sequence

from audit.dry_run import Asked, Planned, called, reach
from audit.perturb.config import PerturbConfig
from audit.perturb.design import Arm, PerturbThresholds
from audit.perturb.resolve import PerturbRun, resolve_perturb
from audit.references import judged, reference_runs
from audit.statistics.wording_design import PLANNED_FLIPS, detectable_drop, volume_table
from audit.verdict.result import percent


def planned(config: PerturbConfig) -> Planned:
    run = resolve_perturb(config)
    found = {"minimum_detectable_drop": _detectable(run, config), "questions_needed": run.needed}
    return Planned(run.resolved, lambda asked: describe(run, config, asked), lambda one: {**called(one), **found})


def _margin(run: PerturbRun) -> float:
    """Largest for a model that has everything right: what is printed holds for any."""
    review = run.benchmark.library.header.review
    return (review.upper_95 if review else 0.0) * (1 - run.resolved.samples[0].sample.chance)


def _detectable(run: PerturbRun, config: PerturbConfig) -> float:
    """The smallest drop of the audited benchmark's accuracy (0-1) that is found with the wanted power."""
    t, n = PerturbThresholds.from_mapping(config.verdict), run.resolved.samples[0].sample.n
    margin = _margin(run)
    return detectable_drop(n, config.num_variants, PLANNED_FLIPS, margin=margin, alpha=t.alpha, power=t.power)


def describe(run: PerturbRun, config: PerturbConfig, asked: Sequence[Asked]) -> list[str]:
    """The plan in lines that a person reads. Tokens are before prefix caching; calls leave out missing variants."""
    sample = run.resolved.samples[0].sample
    thresholds = PerturbThresholds.from_mapping(config.verdict)
    references = len(config.model) - len(judged(config)) + sum(len(one.models) for one in reference_runs(config))
    review = run.benchmark.library.header.review
    margin = _margin(run)
    lines = [
        *(f"library        {x.library.header.name} {x.library.sha256[:12]}: {x.selection.sentence}" for x in run.sets),
        *([f"  {run.unlike}"] if run.unlike else []),
    ]
    for one in asked:
        calls = one.planned
        role = "judged" if calls.model in judged(config) else "reference"
        fresh = ", held-out items" if run.control is not None and calls.benchmark == run.control.name else ""
        lines += [
            f"{calls.model} ({role}) on {calls.benchmark}{fresh}",
            f"  questions          {one.questions:>12,}",
            f"  calls              {calls.calls:>12,}  {', '.join(f'{one.arms[arm]:,} {arm}' for arm in Arm)}",
            *calls.lines(),
        ]
    alpha, power, n = thresholds.alpha, thresholds.power, sample.n
    seen = _detectable(run, config)
    basis = f"power {percent(thresholds.power)}, two wordings of an item disagree in {percent(PLANNED_FLIPS)} of cases"
    lines.append(f"detectable drop      {100 * seen:>12.1f}  points ({basis})")
    if run.control is not None:
        sizes = (n, run.resolved.samples[1].sample.n)
        each = [detectable_drop(m, config.num_variants, PLANNED_FLIPS, alpha=alpha, power=power) for m in sizes]
        beyond = 100 * math.hypot(*each)
        lines.append(f"  beyond held-out items {beyond:>12.1f}  points; these can take a finding away, and make none")
    if review is None:
        lines.append(
            "  Nobody has read a sample of the variants (audit variants review): no drop counts as beyond reference."
        )
    if not references:
        lines.append("  No references: a drop could not be told from variants that are harder for every model.")
    lines.append("The article's table for this design, and what holds:")
    for row in volume_table(n, PLANNED_FLIPS, references=references, margin=margin, alpha=alpha, power=power):
        lines.append(f"  {row.relative_cost:>2}x  {row.calls:>9,} calls  it says: {row.article}")
        lines.append(f"       holds: {row.valid}")
    return lines + reach(run.resolved, asked, run.needed)
