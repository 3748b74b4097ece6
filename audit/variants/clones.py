"""`audit.variants build strategy=clone` as a function: a benchmark -> a file for `control_benchmark=`. Thin.

The file holds the accepted items alone and is named by the hash of its bytes; beside it lie every candidate with its
state and the funnel.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.load import open_benchmark
from audit.engines.embedder import load_embedder
from audit.errors import ConfigError, EngineError, LibraryError
from audit.records import Question
from audit.shards.files import make_folder, write_file
from audit.variants.config import VariantsConfig, policy_of
from audit.variants.record import questions_sha256
from audit.variants.run import Models, prompts_of
from audit.variants.strategies.clone import Clone, CloneGates, CloneState, build_clones

FILE, CANDIDATES, FUNNEL = "clones.jsonl", "candidates.jsonl", "funnel.json"
CLONES_MIN = 20  # fewer items carry no test of the memory audit


def run_clones(config: VariantsConfig, models: Models) -> str:
    """Make the file that a configuration describes; what a person reads of it.

    Raises ConfigError for a benchmark without options or a build without a model, EngineError where the model says
    nothing, LibraryError where too few items are left: then nothing is written but the replies, which are kept.
    """
    benchmark = open_benchmark(config.benchmark, seed=config.seed)
    questions = list(benchmark.iter_questions())
    free = next((q.id for q in questions if len(q.options) < 2), None)
    if free is not None:
        raise ConfigError(f"strategy=clone writes multiple-choice items, and {free} has a free answer or one option.")
    if models.generate is None or models.paraphraser is None:
        raise ConfigError("strategy=clone needs a model; such as model=llama3_8b.")
    policy, prompts = policy_of(config), prompts_of(config.strategy)
    embedder = load_embedder(config.embedder.adapter, str(config.embedder.model), config.embedder.revision)
    clones = build_clones(
        questions,
        models.generate,
        prompts.templates,
        CloneGates(embedder, policy.low, models.judge, policy.judge_votes, config.seed),
        per_item=config.num_variants,
        max_attempts=config.max_attempts,
    )
    facts = {
        "schema": "clones",
        "schema_version": 1,
        "name": config.library_name,
        "benchmark": benchmark.name,
        "benchmark_revision": benchmark.revision,
        "questions_sha256": questions_sha256(questions),
        "n_questions": len(questions),
        "num_variants": config.num_variants,
        "max_attempts": config.max_attempts,
        "seed": config.seed,
        "licence": config.licence,
        "writer": asdict(models.paraphraser),
        "judge": asdict(models.judge.model) if models.judge else None,
        "judge_votes": policy.judge_votes if models.judge else 0,
        "prompts_sha256": prompts.sha256,
        "embedder": {"name": embedder.name, "revision": embedder.revision},
        "distance_min": policy.low,
    }
    return write_clones(clones, facts, Path(config.out))


def write_clones(clones: Sequence[Clone], facts: dict[str, Any], out: Path) -> str:
    """OUT/<name>-<hash>/clones.jsonl with the candidates and the funnel beside it; the funnel and the path in words."""
    states = Counter(clone.state for clone in clones)
    said = funnel_text(states, judged=facts["judge"] is not None, low=facts["distance_min"])
    silent = states[CloneState.FAILED] + states[CloneState.EMPTY]
    if silent == len(clones):
        why = next((c.error for c in clones if c.error), "the replies were empty")
        raise EngineError(
            f"{facts['writer']['name']} returned nothing for {silent} of {silent} requests ({why}). Expected a model "
            "that follows the prompt; store.retry_errors=true asks again where a call failed."
        )
    items = [c.item for c in clones if c.state == CloneState.ACCEPTED and c.item is not None]
    if len(items) < CLONES_MIN:
        raise LibraryError(
            f"{len(items)} new items were accepted; {CLONES_MIN} are the fewest that carry a test. Take a stronger "
            f"model, more attempts (max_attempts=) or more clones an item (num_variants=). The funnel:\n{said}"
        )
    data = "".join(json.dumps(row(item), ensure_ascii=False) + "\n" for item in items).encode()
    sha256 = hashlib.sha256(data).hexdigest()
    folder = out / f"{facts['name']}-{sha256[:12]}"
    make_folder(folder)
    told = "".join(json.dumps(asdict(c), ensure_ascii=False) + "\n" for c in clones)
    write_file(folder / CANDIDATES, told.encode())
    counts = {state.value: states[state] for state in CloneState}
    plain = {**facts, "sha256": sha256, "candidates": len(clones), "states": counts}
    write_file(folder / FUNNEL, (json.dumps(plain, indent=1, sort_keys=True) + "\n").encode())
    path = folder / FILE
    write_file(path, data)
    _check(path, items, facts["name"])
    return (
        f"{said}\nitems    {len(items)}, sha256 {sha256}\nfile     {path}\n"
        f"use      control_benchmark=mcq_file control_benchmark.path={path} control_benchmark.name={facts['name']}"
    )


def row(item: Question) -> dict[str, Any]:
    """An item in the columns that conf/benchmark/mcq_file.yaml reads; the answer is an index."""
    return {"id": item.id, "question": item.text, "choices": list(item.options), "answer": item.gold}


def funnel_text(states: Counter[CloneState], *, judged: bool, low: float) -> str:
    """How many candidates are left after each gate."""
    left = sum(states.values())
    lines = [f"{'candidates':<30}{left:>6}"]
    gates = (
        ("have a text", (CloneState.FAILED, CloneState.EMPTY)),
        ("in the form asked for", (CloneState.UNREADABLE, CloneState.WRONG_OPTIONS)),
        ("no copy", (CloneState.COPY,)),
        (f"{low:g} or more from every item", (CloneState.NOT_EMBEDDED, CloneState.TOO_CLOSE)),
        ("kept by the judge", tuple(s for s in CloneState if s.name.startswith("JUDGE"))),
    )
    for label, stops in gates:
        if label == "kept by the judge" and not judged:
            lines.append(f"{label:<30}{'-':>6}  not run: nobody has checked that the keys are right")
            continue
        left -= sum(states[state] for state in stops)
        stopped = ", ".join(f"{states[s]} {s.value.replace('_', ' ')}" for s in stops if states[s])
        lines.append(f"{label:<30}{left:>6}  {stopped}".rstrip())
    return "\n".join(lines)


def _check(path: Path, items: Sequence[Question], name: str) -> None:
    """The file as a run will read it holds these items."""
    read = open_benchmark(BenchmarkConfig(name=name, format="mcq_file", path=str(path)), seed=0).iter_questions()
    if [(q.text, q.options, q.gold) for q in read] != [(q.text, q.options, q.gold) for q in items]:
        raise LibraryError(f"{path} is not read back as it was written: an item's marks mean something to the reader.")
