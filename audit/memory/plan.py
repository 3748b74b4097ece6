"""What a run would do, and which indicators it could judge: calls and tokens; nothing is started."""

from __future__ import annotations

from dataclasses import asdict

from audit.memory.config import MemoryConfig
from audit.memory.design import Arm
from audit.memory.present import Orders, item_orders, shard_orders
from audit.memory.resolve import resolve_memory
from audit.memory.texts import SEPARATOR, item_text, shards_of
from audit.memory.thresholds import MemoryThresholds
from audit.plan_cost import CHARS_PER_TOKEN, PlannedCalls, Tokens, head_lines, planned_cost, print_plan, refuse_failed
from audit.references import judged, reference_dirs
from audit.resolve import ResolvedRun

REFERENCES_FOR_ANSWERS = 5  # docs/memory.md has what fewer find


def show(config: MemoryConfig) -> int:
    """Print the plan; the exit code."""
    run = resolve_memory(config)
    plans = [asdict(one) for one in planned(run, config)]
    return print_plan(config.plan, run.path, run.failed, describe(run, config), plans)


def describe(resolved: ResolvedRun, config: MemoryConfig) -> list[str]:
    """The plan in lines that a person reads. Given texts are not served from the prefix cache."""
    calls, _, with_orders = _asked(resolved)
    sizes = ", ".join(f"{s.sample.n:,} of {s.benchmark.name}" for s in resolved.samples)
    lines = [
        *head_lines(resolved.path, resolved.failed),
        f"questions      {sizes}; {with_orders:,} have other orders of options",
    ]
    for one in planned(resolved, config):
        role = "judged" if one.model in judged(config) else "reference"
        lines += [
            f"{one.model} ({role})",
            f"  calls              {one.calls:>12,}  {', '.join(f'{calls[a]:,} {a}' for a in Arm)}",
            f"  prompt tokens      {one.tokens.prompt:>12,}  estimated",
            *one.cost.lines(),
        ]
    lines += _missing(config, _whole(resolved))
    return lines


def planned_calls(config: MemoryConfig) -> list[PlannedCalls]:
    """What the audit would ask of each model. Raises AuditError, as the audit would; starts nothing."""
    resolved = resolve_memory(config)
    refuse_failed(resolved.failed)
    return planned(resolved, config)


def planned(resolved: ResolvedRun, config: MemoryConfig) -> list[PlannedCalls]:
    """The calls and tokens of each model, over the benchmark and the fresh items. Nothing is written by a model."""
    calls, chars, _ = _asked(resolved)
    tokens = Tokens(int(sum(chars.values()) / CHARS_PER_TOKEN), 0)
    benchmark = resolved.samples[0].benchmark.name
    return [
        PlannedCalls(
            name, benchmark, sum(calls.values()), tokens, planned_cost(config.cost, {name: tokens}, {name: model})
        )
        for name, model in config.model.items()
    ]


def _asked(resolved: ResolvedRun) -> tuple[dict[Arm, int], dict[Arm, int], int]:
    """Calls and characters of one model by arm, and how many questions have other orders of options."""
    own = resolved.own
    assert isinstance(own, Orders)  # noqa: S101 - as `resolve_memory` made it
    calls, chars = dict.fromkeys(Arm, 0), dict.fromkeys(Arm, 0)
    with_orders = 0
    for sample in resolved.samples:
        questions = list(sample.questions())
        for q in questions:
            length, orders = len(item_text(q)), len(item_orders(q, own))
            with_orders += orders > 0
            for arm, n in ((Arm.SCORE, 1), (Arm.PUBLISHED, 1), (Arm.OPTIONS, orders)):
                calls[arm] += n
                chars[arm] += n * length
        for shard in shards_of(questions, own.shard_items) if _whole(resolved) else ():
            n = len(shard_orders(shard, own))
            lengths = sum(len(item_text(q)) + len(SEPARATOR) for q in shard)
            calls[Arm.ORDER] += n * len(shard)
            chars[Arm.ORDER] += int(n * lengths * (len(shard) + 1) / 2)  # an item after half of the others, on average
    return calls, chars, with_orders


def _whole(resolved: ResolvedRun) -> bool:
    return any(part.arm == Arm.ORDER for part in resolved.design.parts)


def _missing(config: MemoryConfig, whole: bool) -> list[str]:
    found = []
    if not whole:
        found.append("  No order test: it needs every item (n=all).")
    references = len(config.model) - len(judged(config)) + len(reference_dirs(config))
    if config.control_benchmark is None or not references:
        fresh = "" if config.control_benchmark is not None else "fresh items (control_benchmark=)"
        lacks = " and ".join(filter(None, (fresh, "" if references else "references ('references=[...]')")))
        found.append(
            f"  No completion and no score gap: they need {lacks}. Memory of questions and answers shows in the score "
            "gap alone."
        )
    elif references < (least := MemoryThresholds.from_mapping(config.verdict).references_min):
        named = "1 is" if references == 1 else f"{references} are"
        found.append(
            f"  No completion and no score gap: they need {least} references, and {named} named "
            "(verdict.references_min=1 only for this model before its training)."
        )
    elif 1 < references < REFERENCES_FOR_ANSWERS:
        found.append(
            f"  {references} references tell little of how models differ (t with {references - 1} degrees of freedom): "
            f"learnt text can be seen, learnt answers hardly. Take {REFERENCES_FOR_ANSWERS} or more (docs/memory.md)."
        )
    return found
