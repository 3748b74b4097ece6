"""Resolve a configuration into a run without starting it, and describe its plan.

The held-out items are checked against the benchmark's items. The plan names the indicators that the
run could judge.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from audit.benchmarks.fresh import check_fresh, told_families
from audit.config.dry_run import CallCounts, Planned, reach
from audit.config.plan_cost import in_one_line
from audit.config.references import judged, reference_runs
from audit.config.resolve import BenchmarkSample, ResolvedRun, resolve_run
from audit.core.number_text import percent
from audit.core.package_data import shipped_table
from audit.core.records import Item
from audit.judging.result import because, sentence
from audit.memory.audit import MEMORY, Orders, item_orders
from audit.memory.config import ALONE, SAME, MemoryConfig, score_alone
from audit.memory.design import Arm, MemoryThresholds
from audit.memory.evidence import family_doubt
from audit.memory.items import check_record
from audit.memory.texts import TEXTS
from audit.registry.convictions import settle_references
from audit.shards.questions import QUESTIONS
from audit.shards.working_copy import where


def resolve_memory(config: MemoryConfig) -> ResolvedRun:
    """Resolve and check a configuration before an engine loads. Nothing is written.

    Raises
    ------
    AuditError
        If the run cannot succeed.
    ConfigError
        If the held-out set shares an item with the benchmark.
    """
    resolved = resolve_run(MEMORY, config)
    benchmark, *fresh = resolved.samples
    for one in fresh:
        check_fresh(_all(benchmark), _all(one), (benchmark.benchmark.name, one.benchmark.name))
    resolved = settle_references(config, resolved, SAME)
    if config.published_order:
        record = check_record(config.published_order, _all(benchmark))
        resolved = replace(resolved, analysis={**resolved.analysis, "published_order": record})
    return replace(resolved, own=lambda place: orders_of(config, place))


def orders_of(config: MemoryConfig, place: Path) -> Orders:
    """Return the orders of items and options that the audit compares.

    `place` is the folder with the questions of the run.
    """
    return Orders(
        where(place / QUESTIONS),
        config.seed,
        config.shard_items,
        config.orders,
        config.option_orders,
    )


def _all(sample: BenchmarkSample) -> Iterator[Item]:
    return (question for _, question in sample.benchmark.iter_located())


# Number of references that a finding on answers needs (docs/findings/memory_calibration.md).
REFERENCES_FOR_ANSWERS = 5


def planned(config: MemoryConfig) -> Planned:
    resolved = resolve_memory(config)
    return Planned(resolved, lambda asked: describe(resolved, config, asked))


def describe(resolved: ResolvedRun, config: MemoryConfig, asked: Sequence[CallCounts]) -> list[str]:
    """Return the lines of the plan.

    The prefix cache does not serve texts whose likelihood is read.
    """
    from audit.memory.analyse import JUDGE, nearest
    from audit.memory.worlds import MemoryDesign

    orders = orders_of(config, resolved.path)
    with_orders = 0
    for s in resolved.samples:
        for q in s.questions():
            if item_orders(q, orders):
                with_orders += 1
    sizes = ", ".join(f"{s.sample.n:,} of {s.benchmark.name}" for s in resolved.samples)
    lines = [f"questions      {sizes}; {with_orders:,} have other orders of options"]
    for one in asked:
        role = "judged" if one.planned.model in judged(config) else "reference"
        lines += [
            f"{one.planned.model} ({role}) on {one.planned.benchmark}",
            f"  calls              {one.planned.calls:>12,}  {', '.join(f'{one.arms.get(a, 0):,} {a}' for a in Arm)}",
            *one.planned.lines(),
        ]
    lines += [f"  {caution}" for caution in cautions(resolved, config)]
    lines += _missing(config, any(part.arm == Arm.ORDER for part in resolved.design.parts))
    limits, table = MemoryThresholds.from_mapping(config.verdict), shipped_table(JUDGE.shipped)
    published, *fresh = (one.sample.n for one in resolved.samples)
    run = {
        "n": published,
        "fresh": sum(fresh),
        "references": _references(config),
        "accuracy": MemoryDesign.accuracy,
        "score_alone": score_alone(config),
    }
    rates = nearest(table, run, limits.to_dict())
    lines += [] if rates is None else [f"  {rates.sentence}"]
    lines += _reach(resolved, asked, limits.power, table or {"designs": []})
    plans = [(one.planned, 1.0) for one in asked]
    priced = any(plan.cost.money for plan, _ in plans)
    return [*lines, f"in all: {in_one_line(plans)}"] if priced else lines


def cautions(resolved: ResolvedRun, config: MemoryConfig) -> list[str]:
    """Return sentences on findings that the dates and families of the models prevent."""
    analysis, tested = resolved.analysis, judged(config)
    lines = []
    if undated := analysis["undated"]:
        advice = because("state_dates", missing=analysis["dates_missing"])
        lines.append(f"No finding of a gap for {', '.join(undated)}. {sentence(advice, TEXTS)}")
    references = [name for name in analysis["origins"] if name not in tested]
    doubts = dict[str, None]()
    for name in tested:
        doubt = family_doubt(name, references, told_families(analysis["origins"]), options=True)
        if doubt is not None:
            doubts[sentence(because("other_families", **doubt.numbers), TEXTS)] = None
    return [*lines, *doubts]


def _references(config: MemoryConfig) -> int:
    """Return the number of reference models of the run, with the stored models."""
    return (
        len(config.model)
        - len(judged(config))
        + sum(len(one.models) for one in reference_runs(config))
    )


def _reach(
    resolved: ResolvedRun, asked: Sequence[CallCounts], power: float, table: Mapping[str, Any]
) -> list[str]:
    enough = []
    for one in table["designs"]:
        if one["rates"].get("clean_cleared", 0) >= power:
            enough.append(one)
    if not enough:
        return []
    first = min(enough, key=lambda one: one["design"]["n"])
    design = first["design"]
    cleared = percent(first["rates"]["clean_cleared"])
    return [
        *reach(resolved, asked, design["n"]),
        f"  with {design['fresh']:,} held-out items and {design['references']} references: simulated, {cleared} of "
        "models without memory are cleared there. Learnt answers or text are found with less "
        "(docs/findings/memory_calibration.md).",
    ]


def _missing(config: MemoryConfig, whole: bool) -> list[str]:
    lines = []
    if score_alone(config):
        lines.append(f"  {ALONE}")
    elif not whole:
        lines.append("  No order test, since it needs every item (n=all).")
    references = _references(config)
    if config.control_benchmark is None or not references:
        fresh = (
            "" if config.control_benchmark is not None else "held-out items (control_benchmark=)"
        )
        lacks = " and ".join(
            filter(None, (fresh, "" if references else "references ('references=[...]')"))
        )
        lines.append(
            f"  No completion and no score gap, since they need {lacks}. Only the score gap shows "
            "memory of questions and answers."
        )
        if not references and not config.published_order:
            lines.append(
                "  No order of items or options either, since only references show the cause of an "
                "order that stands out."
            )
    elif references < (least := MemoryThresholds.from_mapping(config.verdict).references_min):
        named = "1 is" if references == 1 else f"{references} are"
        lines.append(
            f"  No completion and no score gap, since they need {least} references, and {named} "
            "named (verdict.references_min=1 only for this model before its training)."
        )
    elif 1 < references < REFERENCES_FOR_ANSWERS:
        lines.append(
            f"  {references} references show little of how models differ. Learnt text can be seen, "
            f"but learnt answers only if they are most of the exam. Use {REFERENCES_FOR_ANSWERS} "
            "or more (docs/findings/memory_calibration.md)."
        )
    return lines
