"""What a run would ask: calls and tokens, from the edits themselves; nothing is started."""

from __future__ import annotations

from dataclasses import asdict

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
from audit.validity.config import ValidityConfig
from audit.validity.design import Arm
from audit.validity.edits.record import PLAIN_LABELS
from audit.validity.resolve import ValidityRun, resolve_validity


def show(config: ValidityConfig) -> int:
    """Print the plan; the exit code."""
    run = resolve_validity(config)
    plans = [asdict(one) for one in planned(run, config)]
    return print_plan(config.plan, run.resolved.path, run.resolved.failed, describe(run, config), plans)


def describe(run: ValidityRun, config: ValidityConfig) -> list[str]:
    """The plan in lines that a person reads. Tokens are before prefix caching; edits that no item has are left out."""
    lines = [*head_lines(run.resolved.path, run.resolved.failed), f"scorer         {run.scorer.name}"]
    for one in planned(run, config):
        lines += [
            f"{one.model} on {one.benchmark}",
            f"  items              {len(run.plan.items):>12,}",
            f"  calls              {one.calls:>12,}",
            *token_lines(one.tokens, one.cost.lines()),
        ]
    return lines


def planned_calls(config: ValidityConfig) -> list[PlannedCalls]:
    """What the audit would ask of each model. Raises AuditError, as the audit would; starts nothing."""
    run = resolve_validity(config)
    refuse_failed(run.resolved.failed)
    return planned(run, config)


def planned(run: ValidityRun, config: ValidityConfig) -> list[PlannedCalls]:
    """The calls and tokens of each model. What is scored by likelihood generates nothing."""
    levels = {part.arm: 0 for part in run.resolved.design.parts}
    for part in run.resolved.design.parts:
        levels[part.arm] += len(part.levels)
    calls = chars = generated = 0
    for one in run.plan.items:
        asked = [(one.item, PLAIN_LABELS)] * levels[Arm.ORIGINAL]
        for family, edits in one.edits.items():
            asked += [(edit.item, edit.label_style) for edit in edits[: levels[family.value]]]
        for item, style in asked:
            ask = run.scorer.ask(item, style)
            calls += 1
            chars += len(ask.prompt) + sum(map(len, ask.continuations))
            generated += 0 if ask.continuations or ask.letters else ask.max_tokens
    tokens = Tokens(int(chars / CHARS_PER_TOKEN), generated)
    benchmark = run.resolved.samples[0].benchmark.name
    return [
        PlannedCalls(name, benchmark, calls, tokens, planned_cost(config.cost, {name: tokens}, {name: model}))
        for name, model in config.model.items()
    ]
