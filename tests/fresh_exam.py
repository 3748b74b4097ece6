"""Held-out items for a benchmark that ships: the same questions in a frame of words that no reader
takes for them, with a library of their own."""

import json
from dataclasses import replace
from pathlib import Path

from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.load import open_benchmark
from audit.variants.arrow import find_library, write_library
from audit.variants.record import Library, question_sha256, questions_sha256


def fresh_exam(folder: Path, n: int = 208) -> tuple[str, ...]:
    """The overrides that name n held-out items and their library, both written to `folder`."""
    source = find_library("elementary")
    old = BenchmarkConfig(name="elementary", format="elementary")
    items = list(open_benchmark(old, seed=1).iter_questions())[:n]
    path = folder / "fresh.jsonl"
    rows = [
        {
            "id": f"f/{q.id}",
            "question": f"New exam, {k}: {q.text}",
            "choices": list(q.options),
            "answer": q.gold,
        }
        for k, q in enumerate(items)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = BenchmarkConfig(name="fresh", format="mcq_file", path=str(path), id_column="id")
    benchmark = open_benchmark(config, seed=1)
    questions = {q.id: q for q in benchmark.iter_questions()}
    variants = tuple(
        replace(
            v,
            question_id=f"f/{v.question_id}",
            question_sha256=question_sha256(q),
            original=q.text,
            text=f"New exam: {v.text}",
        )
        for v in source.variants
        if (q := questions.get(f"f/{v.question_id}"))
    )
    header = replace(
        source.header,
        name="fresh",
        benchmark="fresh",
        benchmark_revision=benchmark.revision,
        questions_sha256=questions_sha256(questions.values()),
        n_questions=len(questions),
        review=None,
    )
    library = write_library(Library(header, variants), folder / "fresh" / "variants.arrow")
    named = (
        "control_benchmark=mcq_file",
        "control_benchmark.name=fresh",
        "control_benchmark.id_column=id",
    )
    return *named, f"control_benchmark.path={path}", f"control_variants={library}"
