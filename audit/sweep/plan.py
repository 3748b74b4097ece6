"""Plan a sweep: its calls, its tokens, and the smallest gain that it detects (pure)."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from audit.config.dry_run import CallCounts, Planned, reach
from audit.core.package_data import shipped_table
from audit.core.records import Design
from audit.statistics.permutation import can_reject
from audit.sweep.analyse import JUDGE, nearest
from audit.sweep.config import SweepConfig
from audit.sweep.design import Draws, SweepThresholds, missing_controls
from audit.sweep.replay import reachable, resolve_sweep
from audit.sweep.simulation import Design as SimulatedDesign
from audit.sweep.size import (
    PLANNED_DISCORDANCE,
    SIDES,
    detectable,
    needed_of,
    repeated,
    router_counts,
    runs_of,
)


@dataclass(frozen=True)
class Plan:
    """Hold what the sweep of one model can detect.

    groups: the number of groups that resampling keeps whole, or of questions if there are no
    groups. router_counts, panel: the number of tests of a cell, and of cells that are corrected
    together."""

    groups: int
    router_counts: int
    panel: int
    minimum_detectable_gain: float  # accuracy, 0-1; NaN if no gain reaches the power
    # the number for the smallest effect that matters; None if no number is enough
    questions_needed: int | None


def make_plan(
    asked: CallCounts,
    design: Design,
    *,
    thresholds: SweepThresholds,
    groups: int | None = None,
    panel: int = 1,
) -> Plan:
    """Return what a sweep can detect. `groups` is None if every question is a group."""
    n, counts, runs = asked.questions, router_counts(design), runs_of(design.settings)
    groups = n if groups is None else groups
    possible = can_reject(groups, thresholds.alpha / SIDES / panel)
    gain = detectable(thresholds, n, counts * panel, runs) if possible else float("nan")
    return Plan(groups, counts, panel, gain, needed_of(thresholds, counts * panel, runs))


def planned(config: SweepConfig) -> Planned:
    resolved = resolve_sweep(config)
    thresholds = SweepThresholds.from_mapping(config.verdict)
    panel = len(config.model) * len(resolved.samples)
    samples, groups = {}, {}
    for sample in resolved.samples:
        samples[sample.benchmark.name] = sample
        groups[sample.benchmark.name] = len({q.group for q in sample.questions()})

    def plan_of(asked: CallCounts) -> Plan:
        own = groups[asked.planned.benchmark]
        return make_plan(asked, resolved.design, thresholds=thresholds, groups=own, panel=panel)

    def describe_all(every: Sequence[CallCounts]) -> list[str]:
        lines: list[str] = []
        for asked in every:
            plan, called = plan_of(asked), asked.planned
            lines.append(
                f"{called.model} on {called.benchmark}, prompts {resolved.protocols[called.model].name}"
            )
            there = samples[called.benchmark].sample.n_distinct
            lines += describe(asked, plan, resolved.design, thresholds, there)
        return lines + reach(resolved, every, *reachable(config))

    def facts(asked: CallCounts) -> dict[str, Any]:
        called = asked.planned
        return {
            "model": called.model,
            "benchmark": called.benchmark,
            **_sizes(asked, resolved.design),
            "prompt_tokens": called.tokens.prompt,
            "generated_tokens_at_most": called.tokens.generated,
            **asdict(plan_of(asked)),
            "tokens": asked.tokens,
            "cost": asdict(called.cost),
        }

    return Planned(resolved, describe_all, facts)


def _sizes(asked: CallCounts, design: Design) -> dict[str, int]:
    """Count the questions, calls and other quantities that a sweep needs of one model."""
    return {
        "questions": asked.questions,
        "settings": len(design.settings),
        "rows": asked.questions * len(design.settings),
        "router_calls": asked.prepared,
        "worker_calls": sum(asked.arms.values()),
    }


def describe(
    asked: CallCounts, plan: Plan, design: Design, thresholds: SweepThresholds, there: int
) -> list[str]:
    """Return the lines of the plan, the warning last. `there` is the benchmark's number of
    questions.
    """
    saved = {"router_calls": " (draws=nested would reuse router messages across r)"}
    more = saved if design.kind == Draws.INDEPENDENT else {}
    sizes = _sizes(asked, design).items()
    size_lines = []
    for name, size in sizes:
        size_lines.append(f"  {name.replace('_', ' '):18} {size:>12,}{more.get(name, '')}")
    notes = []
    for text in missing_controls(design):
        notes.append(f"  NOTE: {text}")
    return [
        *size_lines,
        *asked.planned.lines(),
        *notes,
        *_simulated(plan, asked.questions, design, thresholds),
        *_detectable(plan, asked.questions, thresholds, repeated(design.settings), there),
    ]


def _simulated(
    plan: Plan, questions: int, design: Design, thresholds: SweepThresholds
) -> list[str]:
    """Return the simulated error rates that a verdict of this design quotes."""
    clean, noisy = runs_of(design.settings)
    run = SimulatedDesign(
        questions,
        plan.router_counts,
        design.kind,
        clean_replicates=clean,
        noisy_replicates=noisy,
        panel=plan.panel,
    )
    rates = nearest(shipped_table(JUDGE.shipped), run, plan.groups, thresholds.to_dict())
    return [] if rates is None else [f"  {rates.sentence}"]


def _detectable(
    plan: Plan, questions: int, thresholds: SweepThresholds, once: str, there: int
) -> list[str]:
    mde, grouped = plan.minimum_detectable_gain, plan.groups < questions
    few = _count(plan.groups, "group") if grouped else f"n={questions}"
    tests = _count(plan.router_counts, "router count") + (
        f" x {_count(plan.panel, 'cell')}" if plan.panel > 1 else ""
    )
    basis = f"power {thresholds.power:.0%}, {PLANNED_DISCORDANCE:.0%} of items changing, corrected for {tests}"
    if mde != mde:  # This is true only for NaN.
        return [f"  WARNING: with {few} no gain can be detected ({basis})."]
    needed = "no number" if plan.questions_needed is None else f"{plan.questions_needed:,}"
    lines = [
        f"  questions needed   {needed:>12}  to detect a gain of "
        f"{100 * thresholds.effect_of_interest:.0f} points{'; see below on groups' * grouped}",
        f"  detectable gain    {100 * mde:>12.1f}  points ({basis})",
        "    This holds for the comparison with the clean baseline. An excess must also pass the "
        "controls (direct,",
        "    ensemble), and a gain over all of them needs more questions.",
    ]
    if grouped:
        lines += [
            f"    The questions form {plan.groups:,} groups (subject, passage). Questions of one "
            "group count for",
            "    less than independent questions, so the detectable gain is larger. The verdict "
            "measures by how much.",
        ]
    if mde > thresholds.effect_of_interest:
        short, would = (
            "",
            [f"repeat what is run once ({once.removeprefix(' with ')})"] if once else [],
        )
        if plan.questions_needed is not None and there < plan.questions_needed:
            short = f"the benchmark has {there:,} questions in all; "
            # the effect that this number of questions detects
            effect = math.ceil(100 * mde) / 100
            would += [
                "take a larger benchmark",
                f"look for larger gains (verdict.effect_of_interest={effect:g})",
            ]
        elif not once:
            would += [f"raise n to {needed}"]
        would += ["test fewer router counts"] if plan.router_counts > 1 else []
        would += ["test fewer models and benchmarks at once"] if plan.panel > 1 else []
        lines.append(
            f"  WARNING: this design cannot detect a gain of {100 * thresholds.effect_of_interest:.0f} points. "
            f"A model with one would likely be called underpowered: {short}{', or '.join(would)}."
        )
    return lines


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
