"""A configuration -> a resolved run with its libraries, checked against the questions. Starts nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.fresh import check_fresh
from audit.benchmarks.load import open_benchmark
from audit.convictions import settle_references
from audit.errors import ConfigError, LibraryError
from audit.perturb.audit import CONTROL_FILE, PERTURB
from audit.perturb.config import SAME, PerturbConfig
from audit.perturb.design import PerturbThresholds
from audit.plain_words import benchmark_words
from audit.resolve import ResolvedRun, resolve_run, sized
from audit.shards.working_copy import where
from audit.statistics.wording_design import PLANNED_FLIPS, items_needed
from audit.variants.arrow import FILE, find_library, write_library
from audit.variants.record import Library
from audit.variants.select import Selection, check_library, select_variants


@dataclass(frozen=True)
class Reworded:
    """A benchmark, its library, and which of its questions the library serves."""

    name: str
    library: Library
    selection: Selection


@dataclass(frozen=True)
class PerturbRun:
    """A resolved run and what it rewords. control: the held-out items; None where there are none. The samples of
    `resolved` are in the order of `sets`. needed: questions that its plan needs; None where no number would do."""

    resolved: ResolvedRun
    needed: int | None
    benchmark: Reworded
    control: Reworded | None = None

    @property
    def sets(self) -> tuple[Reworded, ...]:
        return (self.benchmark, self.control) if self.control else (self.benchmark,)

    @property
    def unlike(self) -> str:
        """In what the two libraries were made differently, as a sentence; empty where they were made alike."""
        if self.control is None:
            return ""
        found = self.benchmark.library.header.made_unlike(self.control.library.header)
        said = f"The held-out items' library was made differently from the benchmark's ({', '.join(found)}): "
        return said + "rewording may cost another amount there." if found else ""


def resolve_perturb(config: PerturbConfig) -> PerturbRun:
    """Everything that can go wrong before an engine loads. Writes nothing. Raises AuditError.

    The configuration names each library by its whole hash from here on, whatever it was asked for by, so that the
    fingerprint has it. A sample is drawn from the questions that have a variant (with short=drop: all of them).
    ConfigError where held-out items are the benchmark's own.
    """
    sets = [_reworded(config, config.benchmark, _library(config))]
    needed = _needed(config, sets[0].library)
    config = sized(replace(config, variants=sets[0].library.sha256), needed, len(sets[0].selection.variants))
    fresh = config.control_benchmark
    if fresh is not None:
        sets.append(_reworded(config, fresh, _control_library(config, fresh.name)))
        config = replace(config, control_variants=sets[1].library.sha256)
    resolved = resolve_run(PERTURB, config, only={one.name: frozenset(one.selection.variants) for one in sets})
    if fresh is not None:
        both = [open_benchmark(one, seed=config.seed).iter_questions() for one in (config.benchmark, fresh)]
        check_fresh(both[0], both[1], (sets[0].name, sets[1].name))
    resolved = settle_references(config, resolved, SAME)
    files = dict(zip((FILE, CONTROL_FILE), (one.library for one in sets), strict=False))
    return PerturbRun(replace(resolved, own=partial(_paths, files), on_open=partial(_save, files)), needed, *sets)


def _needed(config: PerturbConfig, library: Library) -> int | None:
    """Questions to find a drop of the smallest effect that matters; None where broken variants alone could make one."""
    thresholds, review = PerturbThresholds.from_mapping(config.verdict), library.header.review
    margin = review.upper_95 if review else 0.0  # largest for a model that has everything right, and never guesses
    effect, alpha, power = thresholds.effect_of_interest, thresholds.alpha, thresholds.power
    return items_needed(effect, config.num_variants, PLANNED_FLIPS, margin=margin, alpha=alpha, power=power)


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
            f"audit variants build {words} name={name} strategy=paraphrase_llm model=llama3_8b judge=qwen3_8b"
        ) from error


def _control_library(config: PerturbConfig, name: str) -> Library:
    try:
        return find_library(config.control_variants or name)
    except LibraryError as error:
        raise LibraryError(
            f"{error}\nThe held-out items of {name} need rewordings of their own: make them as the benchmark's were "
            "(audit variants build) and name the library, such as control_variants=HASH."
        ) from error


def _reworded(config: PerturbConfig, asked: BenchmarkConfig, library: Library) -> Reworded:
    """The questions of one benchmark that a library serves. LibraryError where it is of another one, ConfigError where
    it has fewer variants of every question than asked for."""
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


def _paths(libraries: Mapping[str, Library], place: Path) -> dict[str, str]:
    return {library.header.benchmark: where(place / file) for file, library in libraries.items()}


def _save(libraries: Mapping[str, Library], run_dir: Path) -> None:
    """The libraries beside the shards: what every node reads, and what a report is rebuilt from."""
    for file, library in libraries.items():
        write_library(library, run_dir / file)
