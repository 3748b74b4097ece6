"""`python -m bench.report_scale --questions N`: `audit report` of a run of any size, without an
engine.

A small run is made by the pipeline (scripted engine, nested r=1..9: 11 settings) and its rows are
repeated, as the pipeline would have written them, under new question ids with other questions'
texts and new random outcomes; with `--end-to-end` the pipeline runs all N. Seconds and peak memory
are of the report's own process."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit.shards.attempt import start_attempt
from audit.shards.files import SHARDS
from audit.shards.manifest import Manifest
from audit.shards.read import iter_columns
from audit.shards.write import write_shard
from audit.sweep.audit import SCHEMA
from bench.common import run_driver, write_exam

BASE = 1_000  # questions that the pipeline is run on
SHARDS_MOST = 8192  # as audit.runtime.pipeline cuts a large run
CLEAN, NOISY = (
    0.70,
    0.68,
)  # accuracies of the outcomes that are drawn; half of an answer is the question's own luck


def pipeline_run(folder: Path, questions: int, run_dir: Path) -> dict[str, Any]:
    """A run by the pipeline, and what its driver used."""
    exam = write_exam(folder / f"exam{questions}.jsonl", questions)
    words = [
        "model=scripted",
        "benchmark=mcq_file",
        f"benchmark.path={exam}",
        "n=all",
        "draws=nested",
        "r=1..9",
    ]
    return run_driver([*words, f"run_dir={run_dir}"], timeout_s=4 * 3600)


def repeat(base: Path, run_dir: Path, questions: int, seed: int = 42) -> None:
    """Write a run of `questions` (a multiple of the base's) into `run_dir`, shards and manifest."""
    (run_dir / SHARDS).mkdir(parents=True)
    attempt = start_attempt(run_dir)
    table = pa.Table.from_batches(iter_columns(base, SCHEMA, SCHEMA.columns.names)).cast(
        SCHEMA.columns
    )
    number = pc.cast(
        pc.struct_field(pc.extract_regex(table["question_id"], r"/(?P<n>\d+)$"), 0), pa.int64()
    )
    order = pc.sort_indices(
        pa.table({"n": number, "arm": table["arm"], "r": table["routers"]}),
        [("n", "ascending"), ("arm", "ascending"), ("r", "ascending")],
    )
    table, number = table.take(order).combine_chunks(), np.asarray(number.take(order))
    rng = np.random.default_rng(seed)
    listed, ids = [], []
    rows_a_shard = max(1024, -(-questions * (table.num_rows // BASE) // SHARDS_MOST))
    for k in range(questions // BASE):
        copy = _copy(table, number, k, rng)
        ids += copy["question_id"].unique().to_pylist()
        for start in range(0, copy.num_rows, rows_a_shard):
            info = write_shard(run_dir, copy.slice(start, rows_a_shard), SCHEMA, attempt=attempt)
            listed.append(info.record())
    manifest = Manifest.load(base)
    facts = {
        name: fields | {"n": questions, "n_total": questions}
        for name, fields in manifest.benchmark.items()
    }
    sampled = dict.fromkeys(manifest.sampled_ids, ids)
    replace(manifest, benchmark=facts, sampled_ids=sampled, shards=listed).save(run_dir)


def _copy(
    table: pa.Table, number: np.ndarray[Any, Any], k: int, rng: np.random.Generator
) -> pa.Table:
    """The k-th repetition: the table's row of a question is another question's, and so is every
    text of it."""

    def renamed(text: pa.ChunkedArray) -> pa.ChunkedArray:
        return pc.replace_substring(
            pc.replace_substring(text, " stand", f" {k}x stand"), "what ", f"what {k}y "
        )

    messages = table["router_messages"].combine_chunks()
    chance, question = rng.random(BASE), number.astype(np.int64)
    luck = np.where(rng.random(len(question)) < 0.5, chance[question], rng.random(len(question)))
    noisy = np.asarray(pc.equal(table["arm"], "noisy_rewrite"))
    right = luck < np.where(noisy, NOISY, CLEAN)
    gold = np.asarray(table["gold"]).astype(np.int64)
    answer = np.where(right, gold, (gold + 1 + rng.integers(0, 3, len(gold))) % 4)
    ids = pa.array([f"mcq_file/{n}" for n in (question + k * BASE).tolist()])
    new = {
        "question_id": ids,
        "group": ids,
        "question": renamed(table["question"]),
        "prompt": renamed(table["prompt"]),
        "router_messages": pa.ListArray.from_arrays(messages.offsets, renamed(messages.values)),
        "answer": pa.array(answer, pa.int16()),
        "correct": pa.array(right),
        "response": pa.array(np.array(list("ABCD"))[answer]),
        "request_sha256": pc.binary_join_element_wise(table["request_sha256"], str(k), "-"),
    }
    for name, column in new.items():
        table = table.set_column(table.column_names.index(name), SCHEMA.columns.field(name), column)
    return table


def measure(run_dir: Path) -> dict[str, Any]:
    """`audit report` of a run in a process of its own: seconds, MB, and the size of what it
    wrote."""
    command = [sys.executable, "-m", "audit", "report", str(run_dir)]
    started = time.monotonic()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
        _, status, used = os.wait4(process.pid, 0)
        output.seek(0)
        if status:
            raise RuntimeError(output.read())
    rows = sum(shard["rows"] for shard in Manifest.load(run_dir).shards)
    return {
        "rows": rows,
        "shards_mb": sum(p.stat().st_size for p in (run_dir / SHARDS).iterdir()) / 1e6,
        "seconds": time.monotonic() - started,
        "cpu_s": used.ru_utime + used.ru_stime,
        "peak_mb": used.ru_maxrss / 1024,
        "page_mb": (run_dir / "report/report.html").stat().st_size / 1e6,
        "verdict_mb": (run_dir / "report/verdict.json").stat().st_size / 1e6,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.report_scale", description=__doc__)
    parser.add_argument(
        "--questions", type=int, default=100_000, help=f"rounded down to a multiple of {BASE}"
    )
    parser.add_argument(
        "--folder", type=Path, default=None, help="where runs are kept and found again"
    )
    parser.add_argument("--end-to-end", action="store_true", help="the pipeline runs all of them")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        run_dir = folder / f"questions{arguments.questions}"
        made: dict[str, Any] = {"questions": arguments.questions}
        if arguments.end_to_end:
            made["run"] = pipeline_run(folder, arguments.questions, run_dir)
            print(json.dumps(made), flush=True)
        elif not (run_dir / "manifest.json").exists():
            base = folder / "base"
            if not base.exists():
                pipeline_run(folder, BASE, base)
            repeat(base, run_dir, arguments.questions)
        print(json.dumps({**made, "report": measure(run_dir)}, indent=1))


if __name__ == "__main__":
    main()
