"""What a run would do, and whether it could find anything: calls, tokens, the detectable drop, the article's table."""

from __future__ import annotations

import math
from dataclasses import asdict
from itertools import islice

from audit.config import reading_of, sampling_of
from audit.perturb.config import PerturbConfig
from audit.perturb.design import Arm
from audit.perturb.present import reworded
from audit.perturb.resolve import PerturbRun, Reworded, resolve_perturb
from audit.perturb.thresholds import PerturbThresholds
from audit.plan_cost import (
    CHARS_PER_TOKEN,
    PlannedCalls,
    Tokens,
    head_lines,
    planned_cost,
    print_plan,
    refuse_failed,
    token_lines,
)
from audit.prompting.prompts import direct_prompt
from audit.records import Reading
from audit.references import judged, reference_dirs
from audit.resolve import BenchmarkSample
from audit.statistics.wording_design import detectable_drop, volume_table

PLANNED_FLIPS = 0.20  # chance that two wordings of an item disagree; the article's own example of a clean model
_SHOWN_QUESTIONS = 50


def show(config: PerturbConfig) -> int:
    """Print the plan; the exit code."""
    run = resolve_perturb(config)
    plans = [asdict(one) for one in planned(run, config)]
    return print_plan(config.plan, run.resolved.path, run.resolved.failed, describe(run, config), plans)


def describe(run: PerturbRun, config: PerturbConfig) -> list[str]:
    """The plan in lines that a person reads. Tokens are before prefix caching; calls leave out missing variants."""
    resolved = run.resolved
    sample = resolved.samples[0].sample
    thresholds = PerturbThresholds.from_mapping(config.verdict)
    references = len(config.model) - len(judged(config)) + len(reference_dirs(config))
    review = run.benchmark.library.header.review
    # The margin is largest for a model that has everything right: what is printed holds for any.
    margin = (review.upper_95 if review else 0.0) * (1 - sample.chance)
    lines = [
        *head_lines(resolved.path, resolved.failed),
        *(f"library        {x.library.header.name} {x.library.sha256[:12]}: {x.selection.sentence}" for x in run.sets),
        *([f"  {run.unlike}"] if run.unlike else []),
    ]
    counts = {one.name: (asked.sample.n, _variants(asked, one)) for asked, one in _sets(run)}
    for one in planned(run, config):
        role = "judged" if one.model in judged(config) else "reference"
        n, variants = counts[one.benchmark]
        originals = n * config.original_replicates
        fresh = ", fresh items" if run.control is not None and one.benchmark == run.control.name else ""
        lines += [
            f"{one.model} ({role}) on {one.benchmark}{fresh}",
            f"  questions          {n:>12,}",
            f"  calls              {one.calls:>12,}  {originals:,} {Arm.ORIGINAL}, {variants:,} {Arm.VARIANT}",
            *token_lines(one.tokens, one.cost.lines()),
        ]
    alpha, power, n = thresholds.alpha, thresholds.power, sample.n
    seen = detectable_drop(n, config.num_variants, PLANNED_FLIPS, margin=margin, alpha=alpha, power=power)
    basis = f"power {thresholds.power:.0%}, two wordings of an item disagree in {PLANNED_FLIPS:.0%} of cases"
    lines.append(f"detectable drop      {100 * seen:>11.1f}%  points of accuracy ({basis})")
    if run.control is not None:
        sizes = (n, counts[run.control.name][0])
        each = [detectable_drop(m, config.num_variants, PLANNED_FLIPS, alpha=alpha, power=power) for m in sizes]
        beyond = 100 * math.hypot(*each)
        lines.append(f"  beyond fresh items {beyond:>11.1f}%  these can take a finding away, and make none")
    if review is None:
        lines.append(
            "  Nobody has read a sample of the variants (audit variants review): no drop counts as beyond reference."
        )
    if not references:
        lines.append("  No references: a drop could not be told from variants that are harder for every model.")
    if seen > thresholds.effect_of_interest:
        lines.append(
            f"  WARNING: this design cannot detect a drop of {100 * thresholds.effect_of_interest:.0f} points. A model "
            "with one would be called underpowered, not clean: raise n, or num_variants."
        )
    lines.append("The article's table for this design, and what holds:")
    for row in volume_table(n, PLANNED_FLIPS, references=references, margin=margin, alpha=alpha, power=power):
        lines.append(f"  {row.relative_cost:>2}x  {row.calls:>9,} calls  it says: {row.article}")
        lines.append(f"       holds: {row.valid}")
    return lines


def planned_calls(config: PerturbConfig) -> list[PlannedCalls]:
    """What the audit would ask of each model. Raises AuditError, as the audit would; starts nothing."""
    run = resolve_perturb(config)
    refuse_failed(run.resolved.failed)
    return planned(run, config)


def planned(run: PerturbRun, config: PerturbConfig) -> list[PlannedCalls]:
    """The calls and tokens of each model, on the benchmark and on the fresh items."""
    return [_planned(run, config, name, asked, one) for name in config.model for asked, one in _sets(run)]


def _planned(run: PerturbRun, config: PerturbConfig, name: str, asked: BenchmarkSample, one: Reworded) -> PlannedCalls:
    model, n = config.model[name], asked.sample.n
    reading = reading_of(config, model)
    calls = n * config.original_replicates + _variants(asked, one)
    some, chars = list(islice(asked.questions(), _SHOWN_QUESTIONS)), 0
    for q in some:
        wordings = [q] * config.original_replicates
        wordings += [reworded(one.library, q, v) for v in one.selection.variants[q.id]]
        chars += sum(len(direct_prompt(run.resolved.protocols[name], each, reading)) for each in wordings)
    written = reading in (Reading.LETTER, Reading.NUMBER)
    generated = calls * sampling_of(reading, model).max_tokens if written else 0
    tokens = Tokens(int(chars / len(some) * n / CHARS_PER_TOKEN), generated)
    cost = planned_cost(config.cost, {name: tokens}, {name: model})
    return PlannedCalls(name, one.name, calls, tokens, cost)


def _sets(run: PerturbRun) -> list[tuple[BenchmarkSample, Reworded]]:
    return list(zip(run.resolved.samples, run.sets, strict=True))


def _variants(asked: BenchmarkSample, one: Reworded) -> int:
    """Rewordings of the sampled questions."""
    return sum(len(one.selection.variants[id_]) for id_ in asked.sample.ids)
