"""Resolve the configuration of a perturbation audit, and describe the plan of the run.

Nothing is started.

The module checks that each library of variants belongs to the questions. The plan states the
smallest drop that the run detects, and shows the table of the source article.
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
    """Hold a benchmark together with the rewordings (variants) of its questions.

    Attributes
    ----------
    name : str
        Name of the benchmark.
    library : Library
        Library with the variants of the questions.
    selection : Selection
        The questions for which the library has variants.
    """

    name: str
    library: Library
    selection: Selection


@dataclass(frozen=True)
class PerturbRun:
    """Hold a resolved run, with its benchmark, its held-out items and their variants.

    Attributes
    ----------
    resolved : ResolvedRun
        The resolved run. Its samples have the same order as `sets`.
    needed : int or None
        Number of questions that are needed to detect the smallest drop that matters; None if no
        number is enough.
    benchmark : Reworded
        The benchmark and its library of variants.
    control : Reworded or None
        The held-out items and their library of variants; None without held-out items.
    """

    resolved: ResolvedRun
    needed: int | None
    benchmark: Reworded
    control: Reworded | None = None

    @property
    def sets(self) -> tuple[Reworded, ...]:
        """Return the benchmark and, if the run has held-out items, the held-out items."""
        return (self.benchmark, self.control) if self.control else (self.benchmark,)

    @property
    def margin(self) -> float:
        """Return the largest drop that broken variants alone could cause in any model.

        Returns
        -------
        float
            The drop (0-1) of a model that answers every original right, because this model could
            lose most. 0 if no person reviewed any variants.
        """
        review = self.benchmark.library.header.review
        return (review.upper_95 if review else 0.0) * (1 - self.resolved.samples[0].sample.chance)

    def detectable(self, config: PerturbConfig) -> float:
        """Return the smallest drop that the run detects with the configured power.

        Parameters
        ----------
        config : PerturbConfig
            The composed options of the run.

        Returns
        -------
        float
            Drop in accuracy (0-1).
        """
        limits = PerturbThresholds.from_mapping(config.verdict)
        return detectable_drop(
            self.resolved.samples[0].sample.n,
            config.num_variants,
            PLANNED_FLIPS,
            margin=self.margin,
            alpha=limits.alpha,
            power=limits.power,
        )

    @property
    def unlike(self) -> str:
        """Return a sentence on the settings in which the two libraries were generated differently.

        The sentence is "" if the settings are equal.
        """
        if self.control is None:
            return ""
        unlike = self.benchmark.library.header.made_unlike(self.control.library.header)
        if not unlike:
            return ""
        return (
            "The library of the held-out items was made in another way than the benchmark's "
            f"({', '.join(unlike)}), so rewording may have another effect on the held-out items."
        )


def resolve_perturb(config: PerturbConfig) -> PerturbRun:
    """Resolve and check a configuration before an engine loads. Nothing is written.

    Parameters
    ----------
    config : PerturbConfig
        The composed options of the run.

    Returns
    -------
    PerturbRun
        The resolved run.

        - Its configuration names each library by its full hash. So the fingerprint of the run
          depends on the content of the libraries.
        - Its sample is drawn from the questions with at least one variant. With short=drop, it is
          drawn from the questions with all requested variants.

    Raises
    ------
    AuditError
        If the run cannot be done with this configuration.
    ConfigError
        If some held-out items also belong to the benchmark.
    """
    sets = [_reworded(config, config.benchmark, _library(config))]
    needed = _needed(config, sets[0].library)
    config = sized(
        replace(config, variants=sets[0].library.sha256), needed, len(sets[0].selection.variants)
    )
    fresh = config.control_benchmark
    if fresh is not None:
        sets.append(_reworded(config, fresh, _control_library(config, fresh.name)))
        config = replace(config, control_variants=sets[1].library.sha256)
    with_variants = {item_set.name: frozenset(item_set.selection.variants) for item_set in sets}
    resolved = resolve_run(PERTURB, config, only=with_variants)
    if fresh is not None:
        published = open_benchmark(config.benchmark, seed=config.seed).iter_questions()
        held_out = open_benchmark(fresh, seed=config.seed).iter_questions()
        check_fresh(published, held_out, (sets[0].name, sets[1].name))
    resolved = settle_references(config, resolved, SAME)
    files = {}
    for file, item_set in zip((FILE, CONTROL_FILE), sets, strict=False):
        files[file] = item_set.library

    def paths(place: Path) -> dict[str, str]:
        """Return a mapping from each benchmark to the path of its library in a run directory."""
        return {library.header.benchmark: where(place / file) for file, library in files.items()}

    def save(run_dir: Path) -> None:
        """Write the libraries to the run directory, where every node and the report read them."""
        for file, library in files.items():
            write_library(library, run_dir / file)

    return PerturbRun(replace(resolved, state_of=paths, on_open=save), needed, *sets)


def _needed(config: PerturbConfig, library: Library) -> int | None:
    """Return the number of questions that are needed to detect the smallest drop that matters.

    The result is None if broken variants alone could cause a drop of this size, since no number of
    questions is then enough.
    """
    limits = PerturbThresholds.from_mapping(config.verdict)
    review = library.header.review
    # The margin (the drop that broken variants can cause) is largest for a model that answers every
    # question right without guessing.
    margin = review.upper_95 if review else 0.0
    effect, alpha, power = limits.effect_of_interest, limits.alpha, limits.power
    return items_needed(
        effect, config.num_variants, PLANNED_FLIPS, margin=margin, alpha=alpha, power=power
    )


def _library(config: PerturbConfig) -> Library:
    """Return the library that the options name, or the library with the name of the benchmark."""
    name = config.benchmark.name
    try:
        return find_library(config.variants or name)
    except LibraryError as error:
        if config.variants:
            raise
        options = " ".join(benchmark_words(config.benchmark))
        raise LibraryError(
            f"{name} has no rewordings yet. {error}\nBuild a library, then type the same command again: "
            f"audit variants build {options} name={name} strategy=paraphrase_llm {_writers(config)}"
        ) from error


def _writers(config: PerturbConfig) -> str:
    """Return options of `audit variants build` that name two models.

    One model writes the rewordings, and the other model judges the rewordings. If the run calls an
    endpoint, both models use this endpoint.
    """
    for name in judged(config):
        for endpoint in config.model[name].endpoints:
            return f"endpoint={shlex.quote(safe_url(endpoint.url))} model_id=WRITER judge=JUDGE"
    return "model=llama3_8b judge=qwen3_8b"


def _control_library(config: PerturbConfig, name: str) -> Library:
    """Return the library with variants of the held-out items."""
    try:
        return find_library(config.control_variants or name)
    except LibraryError as error:
        raise LibraryError(
            f"{error}\nThe held-out items of {name} need rewordings too. Build a library in the same way as that of "
            "the benchmark (audit variants build), and name it. Example: control_variants=HASH"
        ) from error


def _reworded(config: PerturbConfig, chosen: BenchmarkConfig, library: Library) -> Reworded:
    """Return the questions of one benchmark for which a library has variants.

    Raises LibraryError if the library belongs to another benchmark, and ConfigError if every
    question has fewer variants than the options request.
    """
    benchmark = open_benchmark(chosen, seed=config.seed)
    questions = list(benchmark.iter_questions())
    check_library(library, benchmark.name, questions)
    selection = select_variants(library, questions, config.num_variants, config.short)
    fullest = max(len(variants) for variants in selection.variants.values())
    if fullest < config.num_variants:
        raise ConfigError(
            f"num_variants is {config.num_variants}, but no question has more than {fullest} accepted variants in "
            f"library {library.header.name} {library.sha256[:12]}. Expected num_variants={fullest} or less."
        )
    return Reworded(benchmark.name, library, selection)


def planned(config: PerturbConfig) -> Planned:
    """Return the resolved run with functions that describe its plan.

    Parameters
    ----------
    config : PerturbConfig
        The composed options of the run.

    Returns
    -------
    Planned
        The resolved run, with the plan both as lines of text and as data for programs.
    """
    run = resolve_perturb(config)
    facts = {"minimum_detectable_drop": run.detectable(config), "questions_needed": run.needed}
    return Planned(
        run.resolved,
        lambda counts: describe(run, config, counts),
        lambda count: {**planned_facts(count), **facts},
    )


def describe(run: PerturbRun, config: PerturbConfig, counts: Sequence[CallCounts]) -> list[str]:
    """Describe the planned run in lines of text.

    Parameters
    ----------
    run : PerturbRun
        The resolved run.
    config : PerturbConfig
        The composed options of the run.
    counts : sequence of CallCounts
        The numbers of calls of each model on each benchmark.

    Returns
    -------
    list of str
        The lines state the libraries, the number of calls, the smallest drop that the run detects,
        and the error rates of the most similar calibrated design. The number of tokens ignores
        prefix caching, and the number of calls includes those of missing variants.
    """
    limits = PerturbThresholds.from_mapping(config.verdict)
    stored = sum(len(reference.models) for reference in reference_runs(config))
    references = len(config.model) - len(judged(config)) + stored
    lines = []
    for item_set in run.sets:
        library = item_set.library
        version = f"{library.header.name} {library.sha256[:12]}"
        lines.append(f"library        {version}: {item_set.selection.sentence}")
    if run.unlike:
        lines.append(f"  {run.unlike}")
    for count in counts:
        lines += _calls(run, config, count)
    lines += _detectable(run, config, limits)
    lines += _rates(run, config, references, limits)
    lines.append("The table of the source article for this design, and what is correct:")
    for row in volume_table(
        run.resolved.samples[0].sample.n,
        PLANNED_FLIPS,
        references=references,
        margin=run.margin,
        alpha=limits.alpha,
        power=limits.power,
    ):
        lines.append(f"  {row.relative_cost:>2}x  {row.calls:>9,} calls  article: {row.article}")
        lines.append(f"       correct: {row.valid}")
    lines += reach(run.resolved, counts, run.needed)
    plans = [(count.planned, 1.0) for count in counts]
    if any(plan.cost.money for plan, _ in plans):
        lines.append(f"in all: {in_one_line(plans)}")
    return lines


def _calls(run: PerturbRun, config: PerturbConfig, count: CallCounts) -> list[str]:
    """Return the lines that state how many calls one model needs on one benchmark."""
    calls = count.planned
    role = "judged" if calls.model in judged(config) else "reference"
    fresh = ""
    if run.control is not None and calls.benchmark == run.control.name:
        fresh = ", held-out items"
    arms = ", ".join(f"{count.arms[arm]:,} {arm}" for arm in Arm)
    return [
        f"{calls.model} ({role}) on {calls.benchmark}{fresh}",
        f"  questions          {count.questions:>12,}",
        f"  calls              {calls.calls:>12,}  {arms}",
        *calls.lines(),
    ]


def _detectable(run: PerturbRun, config: PerturbConfig, limits: PerturbThresholds) -> list[str]:
    """Return the lines that state the smallest detectable drop.

    If the run has held-out items, the lines also state the smallest detectable difference between
    the drop on the benchmark and the drop on the held-out items.
    """
    alpha, power = limits.alpha, limits.power
    basis = f"power {percent(power)}, two wordings of an item disagree in {percent(PLANNED_FLIPS)} of cases"
    lines = [f"detectable drop      {100 * run.detectable(config):>12.1f}  points ({basis})"]
    if run.control is not None:
        drops = []
        for sample in run.resolved.samples[:2]:
            drops.append(
                detectable_drop(
                    sample.sample.n, config.num_variants, PLANNED_FLIPS, alpha=alpha, power=power
                )
            )
        beyond = 100 * math.hypot(*drops)
        lines.append(
            f"  beyond held-out items {beyond:>12.1f}  points; held-out items can veto a finding, but give none"
        )
    return lines


def _rates(
    run: PerturbRun, config: PerturbConfig, references: int, limits: PerturbThresholds
) -> list[str]:
    """Return the lines that state the error rates of the most similar calibrated design.

    Further lines name what the run lacks, such as references.
    """
    from audit.perturb.analyse import JUDGE, nearest
    from audit.perturb.worlds import PerturbDesign

    review = run.benchmark.library.header.review
    simulated = {
        "n": run.resolved.samples[0].sample.n,
        "variants": config.num_variants,
        "references": references,
        "checked": review.n if review else 0,
        "replicates": config.original_replicates,
        "accuracy": PerturbDesign.accuracy,
        "unparsed": 0.0,
        "control": run.control is not None,
    }
    rates = nearest(shipped_table(JUDGE.shipped), simulated, limits.to_dict())
    lines = [] if rates is None else [f"  {rates.sentence}"]
    if review is None:
        lines.append(
            "  No person has read a sample of the variants (audit variants review), so no drop "
            "counts as beyond reference."
        )
    if not references:
        lines.append(
            "  There are no references, so a drop cannot be distinguished from variants that are "
            "harder for every model."
        )
    return lines
