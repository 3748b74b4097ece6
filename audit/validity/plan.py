"""What a run would ask: calls and tokens, from the edits themselves; nothing is started."""

from __future__ import annotations

from audit.errors import EngineError
from audit.plan_cost import PlannedCalls, Tokens, planned_cost
from audit.validity.config import ValidityConfig
from audit.validity.design import Arm
from audit.validity.edits.record import PLAIN_LABELS
from audit.validity.resolve import ValidityRun, resolve_validity

CHARS_PER_TOKEN = 4.0  # of English text; tokenizers differ by a fifth or so


def describe(run: ValidityRun, config: ValidityConfig) -> list[str]:
    """The plan in lines that a person reads. Tokens are before prefix caching; edits that no item has are left out."""
    path = run.resolved.path
    lines = [
        f"run directory  {path}{'  (exists: it would be resumed)' if path.exists() else ''}",
        *(f"{name}: cannot run: {why}" for name, why in run.resolved.failed.items()),
        f"scorer         {run.scorer.name}",
    ]
    for one in planned(run, config):
        lines += [
            f"{one.model} on {one.benchmark}",
            f"  items              {len(run.plan.items):>12,}",
            f"  calls              {one.calls:>12,}",
            f"  prompt tokens      {one.tokens.prompt:>12,}  estimated, before prefix caching",
            f"  generated tokens   {one.tokens.generated:>12,}  at most",
            *one.cost.lines(),
        ]
    return lines


def planned_calls(config: ValidityConfig) -> list[PlannedCalls]:
    """What the audit would ask of each model. Raises AuditError, as the audit would; starts nothing."""
    run = resolve_validity(config)
    if run.resolved.failed:
        raise EngineError("; ".join(f"{name}: {why}" for name, why in run.resolved.failed.items()))
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
