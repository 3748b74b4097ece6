"""Run a model as worker on the router messages of an earlier run (`messages_from=RUN_DIR`).

No router is called. The messages are copied beside the shards of the new run (`messages.arrow`), so
the earlier run may be deleted afterwards. The new run can be the hint reference of the earlier run
(`same_messages`): it shows how much another model gains from the same messages.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa

from audit.benchmarks.load import open_benchmark
from audit.config.resolve import ResolvedRun, resolve_run, sized
from audit.core.errors import ConfigError, DataError
from audit.shards.complete import read_outcomes
from audit.shards.files import whole_file
from audit.shards.manifest import MANIFEST, Manifest
from audit.shards.read import iter_columns
from audit.shards.schema import plain_values
from audit.shards.working_copy import where
from audit.statistics.paired import CellOutcomes
from audit.sweep.audit import SCHEMA, SWEEP, SweepState
from audit.sweep.config import SweepConfig, design_of
from audit.sweep.design import WITHOUT_ROUTER, Aggregator, SweepThresholds
from audit.sweep.size import needed, needed_of, repeated, router_counts, runs_of
from audit.sweep.stored_messages import KEY, MESSAGES


def resolve_sweep(
    config: SweepConfig, only: Mapping[str, frozenset[str]] | None = None
) -> ResolvedRun:
    """Resolve a sweep as `resolve_run` does, with the stored messages if `messages_from` is set.

    Parameters
    ----------
    config : SweepConfig
        The options.
    only : mapping, optional
        Maps each benchmark to the ids of the questions to keep. By default all questions are kept.

    Returns
    -------
    ResolvedRun
        The resolved run. If it uses stored messages, every sampled question has its messages.

    Raises
    ------
    ConfigError
        If the two runs have different aggregators, if the aggregator is `summary`, or if messages
        for the sampled questions are missing.
    """
    resolved = resolve_run(SWEEP, _sized(config), only=only)
    aggregator = Aggregator(config.aggregator)
    if config.messages_from is None:
        return replace(resolved, state_of=lambda run_dir: SweepState(aggregator))
    earlier = Path(config.messages_from)
    stored_aggregator = aggregator_of(earlier)
    if aggregator == Aggregator.SUMMARY or stored_aggregator != aggregator:
        raise ConfigError(
            f"aggregator is {aggregator}, and that of {earlier} is {stored_aggregator}. Expected the same in both: "
            "concatenate or vote. Stored summaries cannot be used. Example: aggregator=concatenate."
        )
    table = _messages(earlier, config.messages_of, resolved)

    def state(run_dir: Path) -> SweepState:
        return SweepState(aggregator, where(run_dir / MESSAGES))

    return replace(resolved, state_of=state, on_open=partial(_save, table))


def aggregator_of(run_dir: Path) -> Aggregator:
    """Return the aggregator of a run from its manifest.

    Parameters
    ----------
    run_dir : Path
        The run directory.

    Returns
    -------
    Aggregator
        The aggregator. If the run has no manifest, or the manifest names no aggregator, the default
        aggregator is returned.
    """
    config = Manifest.load(run_dir).config if (run_dir / MANIFEST).is_file() else {}
    return Aggregator(config.get("aggregator", Aggregator.CONCATENATE))


def reachable(config: SweepConfig) -> tuple[int | None, str]:
    """Return how many questions this design needs to detect the smallest effect that matters.

    Parameters
    ----------
    config : SweepConfig
        The options.

    Returns
    -------
    questions : int or None
        The number of questions; None if no number is enough.
    hint : str
        A remark in brackets. It states the options that add replicates, and the smaller number of
        questions that is enough with these replicates. It is empty if every arm is repeated.
    """
    settings, sizes = design_of(config).settings, _sizes(config)
    options = repeated(settings)
    hint = f" (about {needed(*sizes):,}{options})" if options else ""
    return needed_of(*sizes, runs_of(settings)), hint


def _sizes(config: SweepConfig) -> tuple[SweepThresholds, int]:
    """Return the thresholds, and the total number of tests in all cells of the panel."""
    cells = len(config.model) * (1 if config.control_benchmark is None else 2)
    return SweepThresholds.from_mapping(config.verdict), cells * router_counts(design_of(config))


def _sized(config: SweepConfig) -> SweepConfig:
    """Return the options, with n=null replaced by a number of questions.

    If the messages of an earlier run are used, the number is that of the earlier run. Otherwise it
    is the number of questions that the design needs.
    """
    if config.n is not None:
        return config
    if config.messages_from is not None:
        return replace(config, n=Manifest.load(config.messages_from).config["n"])
    available = len(open_benchmark(config.benchmark, seed=config.seed).census.frame)
    # `needed` allows only for the sampling error of items. If an arm is run once, `needed_of` may
    # find that no number is enough, and the run would then ask every question.
    return sized(config, needed(*_sizes(config)), available)


def _save(table: pa.Table, run_dir: Path) -> None:
    with whole_file(run_dir / MESSAGES) as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def _router_sets(resolved: ResolvedRun) -> list[tuple[str, int, int]]:
    """Return the sorted (arm, r, replicate) of each router set (one group of routers) with
    messages.

    Raises ConfigError if no router set has messages.
    """
    parts = set()
    for p in resolved.design.parts:
        if p.arm not in WITHOUT_ROUTER:
            parts.add((str(p.arm), max(p.levels), p.replicate))
    if not parts:
        raise ConfigError(
            "messages_from is set, and no arm of this run has router messages. "
            "Expected forward_full or noisy_rewrite. Example: 'arms=[noisy_rewrite]'."
        )
    return sorted(parts)


def _messages(run_dir: Path, model_name: str | None, resolved: ResolvedRun) -> pa.Table:
    """Return the key and the messages of every router set that the design needs.

    Raises ConfigError if the earlier run has several models and `messages_of` is not set, or if the
    questions or draws of the two runs differ.
    """
    questions: dict[tuple[str, str], tuple[list[str], int | None]] = {}
    for sample in resolved.samples:
        questions |= {(q.benchmark, q.id): (list(q.options), q.gold) for q in sample.questions()}
    needed = []
    for question_key, router_set in product(questions, _router_sets(resolved)):
        needed.append(question_key + router_set)
    wanted = frozenset(needed)
    models: set[str] = set()
    messages_by_set: dict[tuple[Any, ...], list[str]] = {}
    for model, *key, messages, options, gold, draws in _rows([run_dir], "options", "gold", "draws"):
        models.add(model)
        if model_name not in (None, model) or tuple(key) not in wanted:
            continue
        if (list(options), gold) != questions[key[0], key[1]] or draws != resolved.design.kind:
            raise ConfigError(
                f"Question {key[1]} of {key[0]} has other options or draws in {run_dir}. Expected the "
                "command of that run, with another model and messages_from."
            )
        messages_by_set[tuple(key)] = messages or []
    if model_name not in (models if len(models) > 1 else {None, *models}):
        raise ConfigError(
            f"{run_dir} has messages of {', '.join(sorted(models))}. Expected one of these models. "
            f"Example: messages_of={min(models, default='MODEL')}."
        )
    missing = [key for key in needed if key not in messages_by_set]
    if missing:
        benchmark, question, arm, r, replicate = missing[0]
        raise ConfigError(
            f"{run_dir} has no messages of {len(missing):,} router sets of this design, such as {arm} r={r} "
            f"#{replicate} of {question} in {benchmark}. Expected the command of that run (n, r, arms, replicates, "
            "seed) with another model and messages_from."
        )
    return _as_table(messages_by_set)


def _as_table(messages_by_set: Mapping[tuple[Any, ...], list[str]]) -> pa.Table:
    """Return the messages as a table. Each row has the key of its router set."""
    text, count = pa.string(), pa.int32()
    types = (text, text, text, count, count)
    schema = pa.schema([*zip(KEY, types, strict=True), ("router_messages", pa.list_(text))])
    return pa.table(
        [*map(list, zip(*messages_by_set, strict=True)), list(messages_by_set.values())],
        schema=schema,
    )


def same_messages(
    cells: Sequence[CellOutcomes], run_dirs: Sequence[Path], references: Sequence[Path]
) -> dict[tuple[str, str], CellOutcomes]:
    """Find the hint reference of each cell.

    A hint reference is a cell of another model that answered from exactly the same messages.

    Parameters
    ----------
    cells : sequence of CellOutcomes
        The tested cells.
    run_dirs : sequence of Path
        The runs of these cells.
    references : sequence of Path
        Runs of other models with messages_from.

    Returns
    -------
    dict
        Maps (model, benchmark) of each tested cell to the cell of its hint reference.

    Raises
    ------
    DataError
        If a reference run has the messages of no tested cell, or if its model is the tested model.
    """
    matched: dict[tuple[str, str], CellOutcomes] = {}
    tested = _digests(run_dirs) if references else {}
    for run_dir in references:
        outcomes = {(c.model, c.benchmark): c for c in read_outcomes(run_dir, SCHEMA).cells}
        same = []
        for (other, digests), (key, sent) in product(_digests([run_dir]).items(), tested.items()):
            if other[1] == key[1] and digests and digests.items() <= sent.items():
                same.append((key, other))
        if not same:
            raise DataError(
                f"The hint reference {run_dir} did not read the messages of "
                f"{', '.join(map(str, run_dirs))}. Expected a run that was made with "
                "messages_from=RUN_DIR."
            )
        for key, other in same:
            if other == key:
                raise DataError(
                    f"The model of the hint reference {run_dir} is {key[0]}, which is the tested model. "
                    "Expected a run of another model."
                )
            matched[key] = outcomes[other]
    of_cells = {}
    for cell in cells:
        key = (cell.model, cell.benchmark)
        if key in matched:
            of_cells[key] = matched[key]
    return of_cells


def _digests(
    run_dirs: Sequence[Path],
) -> dict[tuple[str, str], dict[tuple[str, str, int, int], bytes]]:
    """Map each pair of model and benchmark to the digests of the router messages in its rows."""
    out: dict[tuple[str, str], dict[tuple[str, str, int, int], bytes]] = {}
    for model, benchmark, question, arm, routers, replicate, messages in _rows(run_dirs):
        sent = out.setdefault((model, benchmark), {})
        if messages:
            text = "\0".join(messages).encode("utf-8", "surrogatepass")
            sent[question, arm, routers, replicate] = blake2b(text, digest_size=16).digest()
    return out


def _rows(run_dirs: Sequence[Path], *more: str) -> Iterator[tuple[Any, ...]]:
    """Yield the model, key, router messages and further columns of every row."""
    columns = ("model", *KEY, "router_messages", *more)
    for batch in iter_columns(list(run_dirs), SCHEMA, columns):
        yield from zip(*(plain_values(batch.column(name)) for name in columns), strict=True)
