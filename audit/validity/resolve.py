"""A configuration -> a resolved run with the edits of every sampled item. Starts nothing."""

from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from audit.benchmarks.items import shuffle_item
from audit.benchmarks.load import open_benchmark
from audit.benchmarks.sample import draw_sample
from audit.chronology import NAME
from audit.config import sample_size
from audit.errors import BenchmarkError, LibraryError
from audit.json_types import attributes
from audit.resolve import BenchmarkSample, ResolvedRun, resolve_run
from audit.scoring.reference import JUDGED, ReferenceScorer, SelfTest, self_test
from audit.scoring.refusal import Agreement
from audit.shards.files import write_file
from audit.shards.working_copy import where
from audit.validity.audit import VALIDITY
from audit.validity.config import ValidityConfig, scorer_of
from audit.validity.edits.file import FILE, digest, to_table, write_edits
from audit.validity.edits.plan import Partners, Plan, build_plan
from audit.validity.edits.record import Family, formats_of
from audit.validity.faults import scorer_faults
from audit.validity.labels import read_labels, rule_agreement, sentence
from audit.validity.vocabulary import Injected
from audit.variants.arrow import find_library
from audit.variants.select import check_library

DEFAULT_ITEMS = 200  # as li2026 has of each benchmark; of one with fewer, every one


@dataclass(frozen=True)
class ValidityRun:
    """A resolved run, the edits of its items, and how its scorer did on scripted models of known truth.

    agreement: of a rule, on labelled replies of the model's family; None without any.
    """

    resolved: ResolvedRun
    plan: Plan
    scorer: ReferenceScorer
    self_test: SelfTest
    scorer_faults: tuple[Injected, ...]
    agreement: Agreement | None = None


def resolve_validity(config: ValidityConfig) -> ValidityRun:
    """Everything that can go wrong before an engine loads. Writes nothing. Raises AuditError.

    The configuration names the edits by their hash from here on, so that the fingerprint has what will be asked.
    """
    scorer = scorer_of(config)
    benchmark = open_benchmark(config.benchmark, seed=config.seed)
    items = benchmark.read_items()
    library = None
    if config.variants is not None:
        found = find_library(config.variants)
        check_library(found, benchmark.name, list(benchmark.iter_questions()))
        library = found.by_question()
        if not library:
            raise LibraryError(f"Library {config.variants} has no accepted variant. Expected at least one an item.")
    benchmark = replace(benchmark, only=frozenset(items.by_id))
    n = min(DEFAULT_ITEMS, len(benchmark.census.frame)) if config.n is None else sample_size(config)
    sample = BenchmarkSample(benchmark, draw_sample(benchmark, n, config.seed))
    sampled = [items.by_id[id_] for id_ in sample.sample.ids]
    if scorer.lettered and scorer.benchmark == "truthfulqa":  # whose key is published first (failure F3b)
        sampled = [shuffle_item(item, config.seed) for item in sampled]
    if any(len(item.options) < 2 for item in sampled):
        raise BenchmarkError(f"{benchmark.name} has items with fewer than 2 options: there is nothing to choose.")
    plan = build_plan(
        sampled,
        scorer,
        Partners(items.items, config.seed),
        formats=config.formats or formats_of(scorer),
        library=library,
        per_family=config.edits_per_family,
        spares=config.spare_edits,
    )
    if not any(one.edits[Family.ATTRIBUTE] for one in plan.items):
        raise BenchmarkError(
            f"No sampled item of {benchmark.name} has a partner to be edited into. Expected the whole file (of BBQ all "
            "rows of a category, of XSTest both halves of each pair), or a larger n."
        )
    table = to_table(plan, scorer.name, config.templates[config.template], config.systems[config.system])
    judged = scorer.name == JUDGED  # its replies are read once they are all there
    config = replace(config, edits_sha256=digest(table), canary=config.canary and not judged)
    resolved = resolve_run(VALIDITY, config, samples=[sample])
    run = replace(resolved, own=lambda place: where(place / FILE), on_open=partial(_save, table, config.chronology))
    labelled = read_labels(Path(config.labels)) if config.labels is not None and not judged else ()
    agreement = rule_agreement(scorer, labelled) if labelled else None
    probed = [replace(items.by_id[one.id], order=one.order, options=one.options) for one in sampled]
    return ValidityRun(run, plan, scorer, self_test(scorer, probed), scorer_faults(scorer, probed), agreement)


def scorer_facts(run: ValidityRun) -> dict[str, Any]:
    """Of the scorer, for the manifest: what a report is to say of it, also where the benchmark is no longer there."""
    scorer, test, found = run.scorer, run.self_test, run.agreement
    return {
        **attributes(scorer, "name", "benchmark", "reference_of"),
        "evidence": [*([sentence(found)] if found else []), *scorer.evidence],
        "validated": found.validated if found else scorer.validated,
        "lettered": scorer.lettered,
        "self_test": {**asdict(test), "passed": test.passed},
        "injected": [asdict(one) for one in run.scorer_faults],
        "chance": {one.item.id: scorer.chance(one.item) for one in run.plan.items},
    }


def _save(table: pa.Table, chronology: str | None, run_dir: Path) -> None:
    """The edits beside the shards: what every node asks from, and what a report is rebuilt with. The chronology too."""
    write_edits(table, run_dir)
    if chronology is not None:
        source = Path(chronology)
        write_file(run_dir / NAME, (source / NAME if source.is_dir() else source).read_bytes())
