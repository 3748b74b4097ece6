"""A configuration -> a resolved run with its library, checked against the benchmark's questions. Starts nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from audit.benchmarks.load import open_benchmark
from audit.errors import ConfigError
from audit.perturb.audit import PERTURB
from audit.perturb.config import PerturbConfig
from audit.perturb.reference import check_references
from audit.references import reference_dirs
from audit.resolve import ResolvedRun, resolve_run
from audit.variants.arrow import FILE, write_library
from audit.variants.record import Library
from audit.variants.select import Selection, check_library, select_variants
from audit.variants.store import find_library


@dataclass(frozen=True)
class PerturbRun:
    """A resolved run, its library, and which of the benchmark's questions the library serves."""

    resolved: ResolvedRun
    library: Library
    selection: Selection


def resolve_perturb(config: PerturbConfig) -> PerturbRun:
    """Everything that can go wrong before an engine loads. Writes nothing. Raises AuditError.

    The configuration names the library by its whole hash from here on, whatever it was asked for by, so that the
    fingerprint has it. The sample is drawn from the questions that have a variant (with short=drop: all of them).
    """
    library = find_library(config.variants or config.benchmark.name)
    config = replace(config, variants=library.sha256)
    benchmark = open_benchmark(config.benchmark, seed=config.seed)
    questions = list(benchmark.iter_questions())
    check_library(library, benchmark.name, questions)
    selection = select_variants(library, questions, config.num_variants, config.short)
    fullest = max(len(variants) for variants in selection.variants.values())
    if fullest < config.num_variants:
        raise ConfigError(
            f"num_variants={config.num_variants}, but no question has more than {fullest} accepted variants in library "
            f"{library.header.name} {library.sha256[:12]}. Expected num_variants={fullest} or less."
        )
    own = [name for name in config.model if name in config.references]
    check_references(reference_dirs(config), library.sha256, benchmark.name, own)
    resolved = resolve_run(PERTURB, config, only=frozenset(selection.variants))
    path = (resolved.path / FILE).resolve()
    return PerturbRun(replace(resolved, own=str(path), on_open=partial(_save, library)), library, selection)


def _save(library: Library, run_dir: Path) -> None:
    """The library beside the shards: what every node reads, and what a report is rebuilt from."""
    write_library(library, run_dir / FILE)
