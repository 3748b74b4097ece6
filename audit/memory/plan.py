"""Resolve the configuration of a memory audit without starting the run, and describe its plan.

The held-out items must not contain items of the benchmark. The plan names the indicators that the
run could judge.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from audit.benchmarks.fresh import check_fresh, families_of
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

    Parameters
    ----------
    config : MemoryConfig
        Options of the run.

    Returns
    -------
    ResolvedRun
        The run with its checked configuration.

    Raises
    ------
    AuditError
        If the run cannot succeed.
    ConfigError
        If the held-out set shares an item with the benchmark.
    """
    resolved = resolve_run(MEMORY, config)
    benchmark, *fresh = resolved.samples
    for held_out in fresh:
        names = (benchmark.benchmark.name, held_out.benchmark.name)
        check_fresh(_all(benchmark), _all(held_out), names)
    resolved = settle_references(config, resolved, SAME)
    if config.published_order:
        record = check_record(config.published_order, _all(benchmark))
        resolved = replace(resolved, analysis={**resolved.analysis, "published_order": record})
    return replace(resolved, state_of=lambda place: orders_of(config, place))


def orders_of(config: MemoryConfig, place: Path) -> Orders:
    """Return the options from which the orders of items and options are drawn.

    Parameters
    ----------
    config : MemoryConfig
        The options of the run.
    place : Path
        The folder with the questions of the run.

    Returns
    -------
    Orders
        The options, with the folder of the questions.
    """
    return Orders(
        where(place / QUESTIONS),
        config.seed,
        config.shard_items,
        config.orders,
        config.option_orders,
    )


def _all(sample: BenchmarkSample) -> Iterator[Item]:
    """Return all items of a benchmark, not only those of the sample."""
    return (question for _, question in sample.benchmark.iter_located())


# Smallest number of references with which a finding based on answers is reported
# (docs/findings/memory_calibration.md).
REFERENCES_FOR_ANSWERS = 5


def planned(config: MemoryConfig) -> Planned:
    """Return the resolved run with a function that describes its plan.

    Parameters
    ----------
    config : MemoryConfig
        Options of the run.

    Returns
    -------
    Planned
        The run and the lines of its plan.
    """
    resolved = resolve_memory(config)
    return Planned(resolved, lambda counts: describe(resolved, config, counts))


def describe(
    resolved: ResolvedRun, config: MemoryConfig, counts: Sequence[CallCounts]
) -> list[str]:
    """Return the lines of the plan.

    Parameters
    ----------
    resolved : ResolvedRun
        The run with its checked configuration.
    config : MemoryConfig
        Options of the run.
    counts : sequence of CallCounts
        Number of calls of each model on each benchmark.

    Returns
    -------
    list of str
        The questions, the calls, what the run cannot judge, and the error rates of the nearest
        calibrated design.
    """
    from audit.memory.analyse import JUDGE

    orders = orders_of(config, resolved.path)
    with_orders, sizes = 0, []
    for sample in resolved.samples:
        sizes.append(f"{sample.sample.n:,} of {sample.benchmark.name}")
        with_orders += sum(bool(item_orders(item, orders)) for item in sample.questions())
    lines = [f"questions      {', '.join(sizes)}; {with_orders:,} have other orders of options"]
    for count in counts:
        role = "judged" if count.planned.model in judged(config) else "reference"
        arms = ", ".join(f"{count.arms.get(arm, 0):,} {arm}" for arm in Arm)
        lines += [
            f"{count.planned.model} ({role}) on {count.planned.benchmark}",
            f"  calls              {count.planned.calls:>12,}  {arms}",
            *count.planned.lines(),
        ]
    lines += [f"  {caution}" for caution in cautions(resolved, config)]
    lines += _missing(config, any(part.arm == Arm.ORDER for part in resolved.design.parts))
    limits, table = MemoryThresholds.from_mapping(config.verdict), shipped_table(JUDGE.shipped)
    lines += _rates(resolved, config, table, limits)
    lines += _reach(resolved, counts, limits.power, table or {"designs": []})
    plans = [(count.planned, 1.0) for count in counts]
    if any(plan.cost.money for plan, _ in plans):
        lines.append(f"in all: {in_one_line(plans)}")
    return lines


def _rates(
    resolved: ResolvedRun,
    config: MemoryConfig,
    table: Mapping[str, Any] | None,
    limits: MemoryThresholds,
) -> list[str]:
    """Return a line with the error rates of the nearest calibrated design, if there is a table."""
    from audit.memory.analyse import nearest
    from audit.memory.worlds import MemoryDesign

    published, *fresh = (sample.sample.n for sample in resolved.samples)
    run = {
        "n": published,
        "fresh": sum(fresh),
        "references": _references(config),
        "accuracy": MemoryDesign.accuracy,
        "score_alone": score_alone(config),
    }
    rates = nearest(table, run, limits.to_dict())
    return [] if rates is None else [f"  {rates.sentence}"]


def cautions(resolved: ResolvedRun, config: MemoryConfig) -> list[str]:
    """Return sentences on findings that are impossible because of missing dates or the models'
    families.

    Parameters
    ----------
    resolved : ResolvedRun
        The run, with the stated dates and families.
    config : MemoryConfig
        Options of the run.

    Returns
    -------
    list of str
        The sentences; empty if nothing is missing.
    """
    analysis, tested = resolved.analysis, judged(config)
    lines = []
    undated = analysis["undated"]
    if undated:
        advice = because("state_dates", missing=analysis["dates_missing"])
        lines.append(f"No finding of a gap for {', '.join(undated)}. {sentence(advice, TEXTS)}")
    references = [name for name in analysis["origins"] if name not in tested]
    doubts = dict[str, None]()
    for name in tested:
        doubt = family_doubt(name, references, families_of(analysis["origins"]), options=True)
        if doubt is not None:
            doubts[sentence(because("other_families", **doubt.numbers), TEXTS)] = None
    return [*lines, *doubts]


def _references(config: MemoryConfig) -> int:
    """Return the number of reference models, including the models of stored runs."""
    stored = sum(len(run.models) for run in reference_runs(config))
    return len(config.model) - len(judged(config)) + stored


def _reach(
    resolved: ResolvedRun, counts: Sequence[CallCounts], power: float, table: Mapping[str, Any]
) -> list[str]:
    """Return lines on the smallest calibrated design in which enough models without memory are
    cleared.
    """
    enough = []
    for entry in table["designs"]:
        if entry["rates"].get("clean_cleared", 0) >= power:
            enough.append(entry)
    if not enough:
        return []
    smallest = min(enough, key=lambda entry: entry["design"]["n"])
    design = smallest["design"]
    cleared = percent(smallest["rates"]["clean_cleared"])
    return [
        *reach(resolved, counts, design["n"]),
        f"  with {design['fresh']:,} held-out items and {design['references']} references: in simulations, {cleared} "
        "of models without memory are cleared. Learnt answers or text are found with fewer items "
        "(docs/findings/memory_calibration.md).",
    ]


def _missing(config: MemoryConfig, whole: bool) -> list[str]:
    """Return lines on the indicators that the run cannot judge, and on what each of these
    indicators needs.
    """
    lines = []
    if score_alone(config):
        lines.append(f"  {ALONE}")
    elif not whole:
        lines.append("  The order of items is not tested, since this needs every item (n=all).")
    references = _references(config)
    least = MemoryThresholds.from_mapping(config.verdict).references_min
    if config.control_benchmark is None or not references:
        needs = []
        if config.control_benchmark is None:
            needs.append("held-out items (control_benchmark=)")
        if not references:
            needs.append("references ('references=[...]')")
        lines.append(
            "  The likelihood of texts and the score gap cannot be judged, since they need "
            f"{' and '.join(needs)}. Only the score gap shows memory of questions and answers."
        )
        if not references and not config.published_order:
            lines.append(
                "  The order of items and options cannot be judged either, since only references "
                "show why an order stands out."
            )
    elif references < least:
        named = "1 is" if references == 1 else f"{references} are"
        lines.append(
            "  The likelihood of texts and the score gap cannot be judged, since they need "
            f"{least} references, and {named} named (verdict.references_min=1 is valid only if "
            "the reference is this model before its training)."
        )
    elif 1 < references < REFERENCES_FOR_ANSWERS:
        lines.append(
            f"  {references} references show little of how models differ. Learnt text can be seen, "
            "but learnt answers only if they are most of the exam. "
            f"Use {REFERENCES_FOR_ANSWERS} or more (docs/findings/memory_calibration.md)."
        )
    return lines
