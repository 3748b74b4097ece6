"""Resolve a configuration into a run without starting it, and describe its plan.

The libraries are checked against the questions. The plan states the smallest drop that the run
detects, and the table of the article.
"""

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.fresh import check_fresh
from audit.benchmarks.load import open_benchmark
from audit.config.dry_run import CallCounts, Planned, planned_facts, reach
from audit.config.plain_words import benchmark_words
from audit.config.plan_cost import in_one_line
from audit.config.references import judged, reference_runs
from audit.config.resolve import ResolvedRun, resolve_run, sized
from audit.core.errors import ConfigError, LibraryError
from audit.core.number_text import percent
from audit.core.package_data import shipped_table
from audit.engines.openai_config import safe_url
from audit.perturb.audit import CONTROL_FILE, PERTURB
from audit.perturb.config import SAME, PerturbConfig
from audit.perturb.design import Arm, PerturbThresholds
from audit.registry.convictions import settle_references
from audit.shards.working_copy import where
from audit.statistics.wording_design import (
    PLANNED_FLIPS,
    detectable_drop,
    items_needed,
    volume_table,
)
from audit.variants.arrow import FILE, find_library, write_library
from audit.variants.record import Library
from audit.variants.select import Selection, check_library, select_variants


@dataclass(frozen=True)
class Reworded:
    """Hold a benchmark, its library, and the questions for which the library has variants."""

    name: str
    library: Library
    selection: Selection


@dataclass(frozen=True)
class PerturbRun:
    """Hold a resolved run and the items that it rewords.

    control: the held-out items; None without them. The samples of `resolved` are in the order of
    `sets`. needed: the number of questions that the plan needs; None if no number is enough."""

    resolved: ResolvedRun
    needed: int | None
    benchmark: Reworded
    control: Reworded | None = None

    @property
    def sets(self) -> tuple[Reworded, ...]:
        return (self.benchmark, self.control) if self.control else (self.benchmark,)

    @property
    def margin(self) -> float:
        """Return the largest drop that broken variants could cause.

        It is that of a model with every answer right, so it holds for any model."""
        review = self.benchmark.library.header.review
        return (review.upper_95 if review else 0.0) * (1 - self.resolved.samples[0].sample.chance)

    def detectable(self, config: PerturbConfig) -> float:
        """Return the smallest drop in accuracy (0-1) that is detected with the wanted power."""
        t, n, margin = (
            PerturbThresholds.from_mapping(config.verdict),
            self.resolved.samples[0].sample.n,
            self.margin,
        )
        return detectable_drop(
            n, config.num_variants, PLANNED_FLIPS, margin=margin, alpha=t.alpha, power=t.power
        )

    @property
    def unlike(self) -> str:
        """Describe how the making of the two libraries differs; empty if it does not differ."""
        if self.control is None:
            return ""
        found = self.benchmark.library.header.made_unlike(self.control.library.header)
        sentence = (
            "The library of the held-out items was made in another way than the benchmark's "
            f"({', '.join(found)}): "
        )
        return sentence + "rewording may have another effect on them." if found else ""


def resolve_perturb(config: PerturbConfig) -> PerturbRun:
    """Resolve and check a configuration before an engine loads. Nothing is written.

    The returned configuration names each library by its whole hash, so that the fingerprint
    contains it. A sample is drawn from the questions that have a variant (with short=drop, all
    variants). Raises AuditError if the run cannot succeed, such as ConfigError if held-out items
    are items of the benchmark."""
    sets = [_reworded(config, config.benchmark, _library(config))]
    needed = _needed(config, sets[0].library)
    config = sized(
        replace(config, variants=sets[0].library.sha256), needed, len(sets[0].selection.variants)
    )
    fresh = config.control_benchmark
    if fresh is not None:
        sets.append(_reworded(config, fresh, _control_library(config, fresh.name)))
        config = replace(config, control_variants=sets[1].library.sha256)
    resolved = resolve_run(
        PERTURB, config, only={one.name: frozenset(one.selection.variants) for one in sets}
    )
    if fresh is not None:
        both = []
        for one in (config.benchmark, fresh):
            both.append(open_benchmark(one, seed=config.seed).iter_questions())
        check_fresh(both[0], both[1], (sets[0].name, sets[1].name))
    resolved = settle_references(config, resolved, SAME)
    files = dict(zip((FILE, CONTROL_FILE), (one.library for one in sets), strict=False))

    def paths(place: Path) -> dict[str, str]:
        return {library.header.benchmark: where(place / file) for file, library in files.items()}

    # Every node reads these libraries, and reports can be rebuilt from them.
    def save(run_dir: Path) -> None:
        for file, library in files.items():
            write_library(library, run_dir / file)

    return PerturbRun(replace(resolved, state_of=paths, on_open=save), needed, *sets)


def _needed(config: PerturbConfig, library: Library) -> int | None:
    """Return how many questions detect the smallest drop that matters.

    None means that broken variants alone could cause such a drop."""
    limits = PerturbThresholds.from_mapping(config.verdict)
    review = library.header.review
    # The margin is largest for a model that has every answer right without guessing.
    margin = review.upper_95 if review else 0.0
    effect, alpha, power = limits.effect_of_interest, limits.alpha, limits.power
    return items_needed(
        effect, config.num_variants, PLANNED_FLIPS, margin=margin, alpha=alpha, power=power
    )


def _library(config: PerturbConfig) -> Library:
    name = config.benchmark.name
    try:
        return find_library(config.variants or name)
    except LibraryError as error:
        if config.variants:
            raise
        words = " ".join(benchmark_words(config.benchmark))
        raise LibraryError(
            f"{name} has no rewordings yet. {error}\nBuild them, then type the same command again: "
            f"audit variants build {words} name={name} strategy=paraphrase_llm {_writers(config)}"
        ) from error


def _writers(config: PerturbConfig) -> str:
    """Return the words that name a writer and a judge of rewordings, on the run's endpoint if it
    has one."""
    for name in judged(config):
        for endpoint in config.model[name].endpoints:
            return f"endpoint={shlex.quote(safe_url(endpoint.url))} model_id=WRITER judge=JUDGE"
    return "model=llama3_8b judge=qwen3_8b"


def _control_library(config: PerturbConfig, name: str) -> Library:
    try:
        return find_library(config.control_variants or name)
    except LibraryError as error:
        raise LibraryError(
            f"{error}\nThe held-out items of {name} need rewordings of their own: make them as the benchmark's were "
            "(audit variants build) and name the library, such as control_variants=HASH."
        ) from error


def _reworded(config: PerturbConfig, asked: BenchmarkConfig, library: Library) -> Reworded:
    """Return the questions of one benchmark for which a library has variants.

    Raises LibraryError if the library belongs to another benchmark. Raises ConfigError if every
    question has fewer variants than requested."""
    benchmark = open_benchmark(asked, seed=config.seed)
    questions = list(benchmark.iter_questions())
    check_library(library, benchmark.name, questions)
    selection = select_variants(library, questions, config.num_variants, config.short)
    fullest = max(len(variants) for variants in selection.variants.values())
    if fullest < config.num_variants:
        raise ConfigError(
            f"num_variants={config.num_variants}, but no question has more than {fullest} accepted variants in library "
            f"{library.header.name} {library.sha256[:12]}. Expected num_variants={fullest} or less."
        )
    return Reworded(benchmark.name, library, selection)


def planned(config: PerturbConfig) -> Planned:
    run = resolve_perturb(config)
    found = {"minimum_detectable_drop": run.detectable(config), "questions_needed": run.needed}
    return Planned(
        run.resolved,
        lambda asked: describe(run, config, asked),
        lambda one: {**planned_facts(one), **found},
    )


def describe(run: PerturbRun, config: PerturbConfig, asked: Sequence[CallCounts]) -> list[str]:
    """Return the lines of the plan. Tokens ignore prefix caching, and calls ignore missing
    variants."""
    from audit.perturb.analyse import JUDGE, nearest
    from audit.perturb.worlds import PerturbDesign

    limits = PerturbThresholds.from_mapping(config.verdict)
    references = (
        len(config.model)
        - len(judged(config))
        + sum(len(one.models) for one in reference_runs(config))
    )
    review = run.benchmark.library.header.review
    lines = []
    for item_set in run.sets:
        library = item_set.library
        version = f"{library.header.name} {library.sha256[:12]}"
        lines.append(f"library        {version}: {item_set.selection.sentence}")
    if run.unlike:
        lines.append(f"  {run.unlike}")
    for one in asked:
        calls = one.planned
        role = "judged" if calls.model in judged(config) else "reference"
        fresh = (
            ", held-out items"
            if run.control is not None and calls.benchmark == run.control.name
            else ""
        )
        lines += [
            f"{calls.model} ({role}) on {calls.benchmark}{fresh}",
            f"  questions          {one.questions:>12,}",
            f"  calls              {calls.calls:>12,}  {', '.join(f'{one.arms[arm]:,} {arm}' for arm in Arm)}",
            *calls.lines(),
        ]
    alpha, power, n = limits.alpha, limits.power, run.resolved.samples[0].sample.n
    basis = f"power {percent(power)}, two wordings of an item disagree in {percent(PLANNED_FLIPS)} of cases"
    lines.append(f"detectable drop      {100 * run.detectable(config):>12.1f}  points ({basis})")
    if run.control is not None:
        sizes = (n, run.resolved.samples[1].sample.n)
        each = []
        for m in sizes:
            each.append(
                detectable_drop(m, config.num_variants, PLANNED_FLIPS, alpha=alpha, power=power)
            )
        beyond = 100 * math.hypot(*each)
        lines.append(
            f"  beyond held-out items {beyond:>12.1f}  points; these can take a finding away, and make none"
        )
    simulated = {
        "n": n,
        "variants": config.num_variants,
        "references": references,
        "checked": review.n if review else 0,
        "replicates": config.original_replicates,
        "accuracy": PerturbDesign.accuracy,
        "unparsed": 0.0,
        "control": run.control is not None,
    }
    rates = nearest(shipped_table(JUDGE.shipped), simulated, limits.to_dict())
    lines += [] if rates is None else [f"  {rates.sentence}"]
    if review is None:
        lines.append(
            "  No person has read a sample of the variants (audit variants review), so no drop "
            "counts as beyond reference."
        )
    if not references:
        lines.append(
            "  No references, so a drop looks like variants that are harder for every model."
        )
    lines.append("The article's table for this design, and what holds:")
    for row in volume_table(
        n, PLANNED_FLIPS, references=references, margin=run.margin, alpha=alpha, power=power
    ):
        lines.append(f"  {row.relative_cost:>2}x  {row.calls:>9,} calls  it says: {row.article}")
        lines.append(f"       holds: {row.valid}")
    lines += reach(run.resolved, asked, run.needed)
    plans = [(one.planned, 1.0) for one in asked]
    priced = any(plan.cost.money for plan, _ in plans)
    return [*lines, f"in all: {in_one_line(plans)}"] if priced else lines
