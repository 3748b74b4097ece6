"""Files of one's own: written, read, and refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.load import Benchmark, open_benchmark
from audit.core.errors import BenchmarkError
from audit.core.records import Item

MCQ = BenchmarkConfig(name="exam", format="mcq_file")
TWO = {"question": "2 + 2 = ?", "choices": ["3", "4"], "answer": 1}


def jsonl(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def opened(path: Path, config: BenchmarkConfig = MCQ) -> Benchmark:
    return open_benchmark(replace(config, path=str(path)))


def questions(path: Path, config: BenchmarkConfig = MCQ) -> list[Item]:
    return list(opened(path, config).iter_questions())


def refused(path: Path, config: BenchmarkConfig = MCQ) -> str:
    with pytest.raises(BenchmarkError) as caught:
        questions(path, config)
    return str(caught.value)
