"""Another model answers from the router messages of an earlier run (`messages_from=RUN_DIR`): no router is called.

The messages are copied beside the shards of the new run (`messages.arrow`), so that it can be rebuilt by itself. Such a
run is the hint reference of the run it took them from (`same_messages`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from hashlib import blake2b
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa

from audit.benchmarks.load import open_benchmark
from audit.errors import ConfigError, DataError
from audit.guarded_files import check_regular
from audit.records import Generation, Item, Part
from audit.resolve import ResolvedRun, resolve_run, sized
from audit.shards.complete import read_outcomes
from audit.shards.files import whole_file
from audit.shards.manifest import MANIFEST, Manifest
from audit.shards.read import iter_columns
from audit.shards.schema import plain_values
from audit.shards.working_copy import local_file, where
from audit.statistics.paired import CellOutcomes
from audit.sweep.audit import SCHEMA, SWEEP, Own
from audit.sweep.config import SweepConfig, design_of
from audit.sweep.design import WITHOUT_ROUTER, Aggregator, SweepThresholds
from audit.sweep.size import needed, needed_of, repeated, router_counts, runs_of

MESSAGES = "messages.arrow"
_KEY = ("benchmark", "question_id", "arm", "routers", "replicate")
Key = tuple[str, str, str, int, int]


def resolve_sweep(config: SweepConfig, only: Mapping[str, frozenset[str]] | None = None) -> ResolvedRun:
    """As `resolve_run`; with `messages_from`, the stored messages too, checked against the questions that are asked."""
    resolved, aggregator = resolve_run(SWEEP, _sized(config), only=only), Aggregator(config.aggregator)
    if config.messages_from is None:
        return replace(resolved, own=lambda place: Own(aggregator))
    earlier = Path(config.messages_from)
    if Aggregator.SUMMARY in (aggregator, other := aggregator_of(earlier)) or other != aggregator:
        raise ConfigError(
            f"aggregator={aggregator}, and {earlier} has {other}: answers to its messages compare where both have the "
            "same, concatenate or vote. A summary is not answered again: each run would write its own."
        )
    table = _messages(earlier, config.messages_of, resolved)
    return replace(resolved, own=lambda place: Own(aggregator, where(place / MESSAGES)), on_open=partial(_save, table))


def aggregator_of(run_dir: Path) -> Aggregator:
    """How the worker of a run saw its messages, as its manifest has it; concatenated where nothing says otherwise."""
    config = Manifest.load(run_dir).config if (run_dir / MANIFEST).is_file() else {}
    return Aggregator(config.get("aggregator", Aggregator.CONCATENATE))


def reachable(config: SweepConfig) -> tuple[int | None, str]:
    """Questions that this design needs to find the smallest effect that matters, None where no number would do; and
    how fewer would do where an arm is run once, in brackets, else empty."""
    settings, sizes = design_of(config).settings, _sizes(config)
    words = repeated(settings)
    return needed_of(*sizes, runs_of(settings)), words and f" (about {needed(*sizes):,}{words})"


def _sizes(config: SweepConfig) -> tuple[SweepThresholds, int]:
    """The thresholds, and the tests of the panel."""
    cells = len(config.model) * (1 if config.control_benchmark is None else 2)
    return SweepThresholds.from_mapping(config.verdict), cells * router_counts(design_of(config))


def _sized(config: SweepConfig) -> SweepConfig:
    """n=null as a number: that of the earlier run whose messages are answered, else as many as are needed."""
    if config.n is None and config.messages_from is not None:
        return replace(config, n=Manifest.load(config.messages_from).config["n"])
    there = len(open_benchmark(config.benchmark, seed=config.seed).census.frame)
    # By the items' own error: where an arm is run once, no number of questions may be enough, and all would be asked.
    return sized(config, needed(*_sizes(config)), there)


def stored(place: str, item: Item, part: Part) -> list[Generation]:
    """The messages of one router set, as the earlier run has them; fewer where a router failed."""
    index, messages = _opened(place)
    row = index[item.benchmark, item.id, str(part.arm), max(part.levels), part.replicate]
    return [Generation(text=text) for text in messages[row].as_py()]


@lru_cache(maxsize=2)
def _opened(place: str) -> tuple[Mapping[Key, int], pa.ChunkedArray]:
    check_regular(local_file(place), follow=True)
    table = pa.ipc.open_file(pa.memory_map(str(local_file(place)))).read_all()
    columns = (table.column(name).to_pylist() for name in _KEY)
    return {key: row for row, key in enumerate(zip(*columns, strict=True))}, table.column("router_messages")


def _save(table: pa.Table, run_dir: Path) -> None:
    with whole_file(run_dir / MESSAGES) as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def _router_sets(resolved: ResolvedRun) -> list[tuple[str, int, int]]:
    """Arm, r and replicate of the parts of the design that have messages, sorted. ConfigError where none has."""
    parts = {(str(p.arm), max(p.levels), p.replicate) for p in resolved.design.parts if p.arm not in WITHOUT_ROUTER}
    if not parts:
        raise ConfigError("messages_from: no arm asked here has messages. Expected such as 'arms=[noisy_rewrite]'.")
    return sorted(parts)


def _messages(run_dir: Path, of: str | None, resolved: ResolvedRun) -> pa.Table:
    """Key and messages of every router set that the design needs. ConfigError where the earlier run is of several
    models and none is named, or asked otherwise."""
    asked = {(q.benchmark, q.id): (list(q.options), q.gold) for one in resolved.samples for q in one.questions()}
    needed = dict.fromkeys(q + part for q, part in product(asked, _router_sets(resolved)))  # in order
    models: set[str] = set()
    kept: dict[tuple[Any, ...], list[str]] = {}
    for model, *key, messages, options, gold, draws in _rows([run_dir], "options", "gold", "draws"):
        models.add(model)
        if of not in (None, model) or tuple(key) not in needed:
            continue
        if (list(options), gold) != asked[key[0], key[1]] or draws != resolved.design.kind:
            raise ConfigError(
                f"{run_dir} asked {key[1]} of {key[0]} with other options or draws. Type its own command, with "
                "another model and messages_from."
            )
        kept[tuple(key)] = messages or []
    if of not in (models if len(models) > 1 else {None, *models}):
        raise ConfigError(
            f"{run_dir} holds messages of {', '.join(sorted(models))}: expected messages_of=<one of them>."
        )
    if missing := [key for key in needed if key not in kept]:
        benchmark, question, arm, r, replicate = missing[0]
        raise ConfigError(
            f"{run_dir} has no messages of {len(missing):,} of the router sets asked here, such as {arm} r={r} "
            f"#{replicate} of {question} in {benchmark}. Type its own command (n, r, arms, replicates, seed), with "
            "another model and messages_from."
        )
    return _as_table(kept)


def _as_table(kept: Mapping[tuple[Any, ...], list[str]]) -> pa.Table:
    """key of a router set -> its messages, as columns."""
    words, count = pa.string(), pa.int32()
    types = (words, words, words, count, count)
    schema = pa.schema([*zip(_KEY, types, strict=True), ("router_messages", pa.list_(words))])
    return pa.table([*map(list, zip(*kept, strict=True)), list(kept.values())], schema=schema)


def same_messages(
    cells: Sequence[CellOutcomes], run_dirs: Sequence[Path], references: Sequence[Path]
) -> dict[tuple[str, str], CellOutcomes]:
    """The hint reference of each (model, benchmark): the cell of a reference run that was sent its very messages.

    DataError where a reference run has the messages of none of the cells, or is of the model that it is to judge.
    """
    found: dict[tuple[str, str], CellOutcomes] = {}
    tested = _digests(run_dirs) if references else {}
    for place in references:
        outcomes = {(c.model, c.benchmark): c for c in read_outcomes(place, SCHEMA).cells}
        same = [
            (key, other)
            for (other, theirs), (key, sent) in product(_digests([place]).items(), tested.items())
            if other[1] == key[1] and theirs and theirs.items() <= sent.items()
        ]
        if not same:
            raise DataError(
                f"The messages of {place} are not those of {', '.join(map(str, run_dirs))}. A hint reference is a run "
                "with messages_from=RUN_DIR."
            )
        for key, other in same:
            if other == key:
                raise DataError(f"{place} is of {key[0]} itself: a hint reference is another model.")
            found[key] = outcomes[other]
    return {key: found[key] for c in cells if (key := (c.model, c.benchmark)) in found}


def _digests(run_dirs: Sequence[Path]) -> dict[tuple[str, str], dict[tuple[str, str, int, int], bytes]]:
    out: dict[tuple[str, str], dict[tuple[str, str, int, int], bytes]] = {}
    for model, benchmark, question, arm, routers, replicate, messages in _rows(run_dirs):
        sent = out.setdefault((model, benchmark), {})
        if messages:
            text = "\0".join(messages).encode("utf-8", "surrogatepass")
            sent[question, arm, routers, replicate] = blake2b(text, digest_size=16).digest()
    return out


def _rows(run_dirs: Sequence[Path], *more: str) -> Iterator[tuple[Any, ...]]:
    """model, key, router messages and further columns of every row."""
    columns = ("model", *_KEY, "router_messages", *more)
    for batch in iter_columns(list(run_dirs), SCHEMA, columns):
        yield from zip(*(plain_values(batch.column(name)) for name in columns), strict=True)
