"""Plan a sweep before it runs: its calls, its tokens, and the smallest gain that it detects."""

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

    Attributes
    ----------
    groups : int
        The number of groups of related questions. Resampling keeps each group whole. If the
        questions have no groups, this is the number of questions.
    router_counts : int
        How many different router counts the noisy arm has. Each router count of a cell gives one
        test.
    panel : int
        The number of cells whose p-values are corrected together.
    minimum_detectable_gain : float
        The smallest gain (difference of accuracies, 0-1) that is detected with the required power;
        NaN if the design detects no gain with this power.
    questions_needed : int or None
        How many questions are needed to detect the smallest effect that matters. None if no number
        of questions is enough.
    """

    groups: int
    router_counts: int
    panel: int
    minimum_detectable_gain: float
    questions_needed: int | None


def make_plan(
    calls: CallCounts,
    design: Design,
    *,
    thresholds: SweepThresholds,
    groups: int | None = None,
    panel: int = 1,
) -> Plan:
    """Compute the smallest gain that a sweep can detect, and how many questions it needs.

    Parameters
    ----------
    calls : CallCounts
        The planned calls, with the number of questions.
    design : Design
        The settings of the sweep.
    thresholds : SweepThresholds
        The level and power of the tests, and the smallest effect that matters.
    groups : int, optional
        The number of groups of questions; None if every question is a group.
    panel : int
        The number of cells whose p-values are corrected together.

    Returns
    -------
    Plan
        The smallest gain that can be detected, and the number of questions that is needed.
    """
    n, counts, runs = calls.questions, router_counts(design), runs_of(design.settings)
    groups = n if groups is None else groups
    possible = can_reject(groups, thresholds.alpha / SIDES / panel)
    gain = detectable(thresholds, n, counts * panel, runs) if possible else float("nan")
    return Plan(groups, counts, panel, gain, needed_of(thresholds, counts * panel, runs))


def planned(config: SweepConfig) -> Planned:
    """Resolve a sweep without starting it.

    Parameters
    ----------
    config : SweepConfig
        The options.

    Returns
    -------
    Planned
        The resolved run, with the functions that describe its plan.
    """
    resolved = resolve_sweep(config)
    thresholds = SweepThresholds.from_mapping(config.verdict)
    panel = len(config.model) * len(resolved.samples)
    samples, groups = {}, {}
    for sample in resolved.samples:
        samples[sample.benchmark.name] = sample
        groups[sample.benchmark.name] = len({q.group for q in sample.questions()})

    def plan_of(calls: CallCounts) -> Plan:
        n_groups = groups[calls.planned.benchmark]
        return make_plan(
            calls, resolved.design, thresholds=thresholds, groups=n_groups, panel=panel
        )

    def describe_all(every: Sequence[CallCounts]) -> list[str]:
        lines: list[str] = []
        for calls in every:
            plan, cell = plan_of(calls), calls.planned
            lines.append(
                f"{cell.model} on {cell.benchmark}, prompts {resolved.protocols[cell.model].name}"
            )
            available = samples[cell.benchmark].sample.n_distinct
            lines += describe(calls, plan, resolved.design, thresholds, available)
        return lines + reach(resolved, every, *reachable(config))

    def facts(calls: CallCounts) -> dict[str, Any]:
        cell = calls.planned
        return {
            "model": cell.model,
            "benchmark": cell.benchmark,
            **_sizes(calls, resolved.design),
            "prompt_tokens": cell.tokens.prompt,
            "generated_tokens_at_most": cell.tokens.generated,
            **asdict(plan_of(calls)),
            "tokens": calls.tokens,
            "cost": asdict(cell.cost),
        }

    return Planned(resolved, describe_all, facts)


def _sizes(calls: CallCounts, design: Design) -> dict[str, int]:
    """Count the questions, settings, rows and calls of a sweep of one model."""
    return {
        "questions": calls.questions,
        "settings": len(design.settings),
        "rows": calls.questions * len(design.settings),
        "router_calls": calls.prepared,
        "worker_calls": sum(calls.arms.values()),
    }


def describe(
    calls: CallCounts, plan: Plan, design: Design, thresholds: SweepThresholds, available: int
) -> list[str]:
    """Return the printed lines of a plan.

    Parameters
    ----------
    calls : CallCounts
        The planned calls.
    plan : Plan
        The smallest gain that the sweep can detect, and the number of questions that it needs.
    design : Design
        The settings of the sweep.
    thresholds : SweepThresholds
        The level and power of the tests, and the smallest effect that matters.
    available : int
        The number of questions of the benchmark.

    Returns
    -------
    list of str
        The lines of the plan. If there is a warning, it is the last line.
    """
    nested = {"router_calls": " (draws=nested would reuse router messages across r)"}
    remarks = nested if design.kind == Draws.INDEPENDENT else {}
    size_lines = []
    for name, size in _sizes(calls, design).items():
        size_lines.append(f"  {name.replace('_', ' '):18} {size:>12,}{remarks.get(name, '')}")
    notes = []
    for text in missing_controls(design):
        notes.append(f"  NOTE: {text}")
    return [
        *size_lines,
        *calls.planned.lines(),
        *notes,
        *_simulated(plan, calls.questions, design, thresholds),
        *_detectable(plan, calls.questions, thresholds, repeated(design.settings), available),
    ]


def _simulated(
    plan: Plan, questions: int, design: Design, thresholds: SweepThresholds
) -> list[str]:
    """Return a line with the simulated error rates that a verdict on this design would quote."""
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
    plan: Plan, questions: int, thresholds: SweepThresholds, once: str, available: int
) -> list[str]:
    """Return the lines about the detectable gain.

    `once` is a text with options. These options repeat each arm that the plan runs only once.
    """
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
        f"{100 * thresholds.effect_of_interest:.0f} points{'; see below on groups' if grouped else ''}",
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
        lines.append(_warning(plan, thresholds, once, available))
    return lines


def _warning(plan: Plan, thresholds: SweepThresholds, once: str, available: int) -> str:
    """Return a warning and advice if the sweep cannot detect the smallest effect that matters."""
    shortage, advice = "", []
    if once:
        advice.append(f"repeat the arms that are run once ({once.removeprefix(' with ')})")
    needed = plan.questions_needed
    if needed is not None and available < needed:
        shortage = f"The benchmark has only {available:,} questions. "
        # This effect is detected with the planned number of questions.
        effect = math.ceil(100 * plan.minimum_detectable_gain) / 100
        advice.append("choose a larger benchmark")
        advice.append(f"look for larger gains (verdict.effect_of_interest={effect:g})")
    elif needed is not None and not once:
        advice.append(f"raise n to {needed:,}")
    if plan.router_counts > 1:
        advice.append("test fewer router counts")
    if plan.panel > 1:
        advice.append("test fewer models and benchmarks at once")
    return (
        f"  WARNING: this design cannot detect a gain of {100 * thresholds.effect_of_interest:.0f} points. "
        f"A model with such a gain would likely be called underpowered. {shortage}"
        f"{', or '.join(advice).capitalize()}."
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
