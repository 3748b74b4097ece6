"""The hub path against a local server that speaks the hub's protocol; the client runs in a process
of its own, because huggingface_hub reads HF_ENDPOINT once, at import."""

import hashlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from servers_here import Quiet, http_here

MAIN, PINNED, CONVERTED = "a" * 40, "b" * 40, "c" * 40

CLIENT = """
import json, sys
from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.load import open_benchmark
from audit.core.errors import AuditError
for line in sys.stdin:
    try:
        benchmark = open_benchmark(BenchmarkConfig(**json.loads(line)))
        rows = [[q.id, q.text, q.options, q.gold, q.group] for q in benchmark.iter_questions()]
        print(json.dumps({"revision": benchmark.revision, "notes": benchmark.notes, "rows": rows}))
    except AuditError as error:
        print(json.dumps({"error": type(error).__name__, "message": str(error)}))
"""


def parquet(rows: list[dict]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue()


def arc(number: int, key: str = "B") -> dict:
    choices = {"text": ["one", "two", "three"], "label": ["A", "B", "C"]}
    return {
        "id": f"Q{number}",
        "question": f"Number {number}?",
        "choices": choices,
        "answerKey": key,
    }


def mmlu(subject: str, number: int) -> dict:
    return {
        "question": f"{subject} {number}?",
        "subject": subject,
        "choices": ["w", "x", "y", "z"],
        "answer": number,
    }


def bbq(example: int) -> dict:
    answers = {"ans0": "the first", "ans1": "the second", "ans2": "unknown"}
    return {
        "example_id": example,
        "category": "Age",
        "context": "They met.",
        "question": "Who?",
        "label": 2,
        **answers,
    }


REPOSITORIES: dict[tuple[str, str], dict[str, bytes]] = {
    ("allenai/ai2_arc", MAIN): {
        "README.md": b"",
        "ARC-Easy/test-00000-of-00002.parquet": parquet([arc(0), arc(1, "A")]),
        "ARC-Easy/test-00001-of-00002.parquet": parquet([arc(2, "C")]),
        "ARC-Easy/train-00000-of-00001.parquet": parquet([arc(8)]),
        "ARC-Challenge/test-00000-of-00001.parquet": parquet([arc(9)]),
    },
    ("allenai/ai2_arc", PINNED): {"ARC-Easy/test-00000-of-00001.parquet": parquet([arc(7)])},
    ("cais/mmlu", MAIN): {
        "all/test-00000-of-00001.parquet": parquet(
            [mmlu("law", 0), mmlu("art", 1), mmlu("law", 3)]
        ),
        "law/test-00000-of-00001.parquet": parquet([mmlu("law", 0)]),
    },
    ("tau/commonsense_qa", MAIN): {
        "data/validation-00000-of-00001.parquet": parquet([arc(1)]),
        "data/test-00000-of-00001.parquet": parquet([arc(1, "")]),
    },
    ("old/script", MAIN): {"script.py": b"", "README.md": b""},
    ("old/script", CONVERTED): {"All/test/0000.parquet": parquet([bbq(0), bbq(5)])},
    ("terms/gated", MAIN): {"data/test-00000-of-00001.parquet": parquet([arc(0)])},
}
BRANCHES = {"main": MAIN, "refs/convert/parquet": CONVERTED}


class Hub(Quiet):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        if path.startswith("/api/datasets/"):
            name, _, revision = path.removeprefix("/api/datasets/").partition("/revision/")
            self.info(name, revision or "main")
        else:
            name, _, rest = path.removeprefix("/datasets/").partition("/resolve/")
            commit, _, file = rest.partition("/")
            self.file(name, commit, file)

    do_HEAD = do_GET

    def info(self, name: str, revision: str) -> None:
        commit = BRANCHES.get(revision, revision)
        files = REPOSITORIES.get((name, commit))
        if files is None:
            known = any(repository == name for repository, _ in REPOSITORIES)
            return self.reply(
                404, b"{}", {"X-Error-Code": "RevisionNotFound" if known else "RepoNotFound"}
            )
        info = {
            "id": name,
            "sha": commit,
            "siblings": [{"rfilename": file} for file in files],
            "tags": [],
        }
        return self.reply(200, json.dumps(info).encode(), {"Content-Type": "application/json"})

    def file(self, name: str, commit: str, file: str) -> None:
        if name == "terms/gated":
            return self.reply(403, b"Access is restricted", {"X-Error-Code": "GatedRepo"})
        data = REPOSITORIES[name, commit][file]
        return self.reply(
            200, data, {"ETag": f'"{hashlib.sha1(data).hexdigest()}"', "X-Repo-Commit": commit}
        )


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with http_here(Hub) as address:
        yield address


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hub")


def fetch(endpoint: str, cache: Path, *configs: dict) -> list[dict]:
    env = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("HF_", "HUGGING")) and "proxy" not in k.lower()
    }
    env |= {"HF_ENDPOINT": endpoint, "HF_HOME": str(cache), "HF_HUB_DISABLE_TELEMETRY": "1"}
    done = subprocess.run(
        [sys.executable, "-c", CLIENT],
        input="\n".join(json.dumps(config) for config in configs),
        cwd=Path(__file__).resolve().parents[3],
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


MMLU = {"name": "mmlu", "format": "mmlu", "hub": "cais/mmlu", "hub_config": "all"}
CSQA = {"name": "commonsense_qa", "format": "commonsense_qa", "hub": "tau/commonsense_qa"}
ARC_EASY = {
    "name": "arc_easy",
    "format": "arc_easy",
    "hub": "allenai/ai2_arc",
    "hub_config": "ARC-Easy",
}


def test_files_of_every_layout_are_read_from_the_hub_at_a_recorded_commit(
    endpoint: str, cache: Path
) -> None:
    configs = (
        *(
            ARC_EASY,
            ARC_EASY | {"revision": PINNED},
            MMLU,
            MMLU | {"subjects": ["law"]},
            CSQA | {"split": "validation"},
        ),
        {"name": "bbq", "format": "bbq", "hub": "old/script", "hub_config": "All"},
    )
    arc_all, pinned, mmlu_all, law, csqa, converted = fetch(endpoint, cache, *configs)
    assert arc_all["revision"] == MAIN
    assert [(row[0], row[3]) for row in arc_all["rows"]] == [("Q0", 1), ("Q1", 0), ("Q2", 2)]
    assert pinned["revision"] == PINNED
    assert [row[0] for row in pinned["rows"]] == ["Q7"]
    assert [(row[0], row[3]) for row in mmlu_all["rows"]] == [
        ("mmlu/law/0", 0),
        ("mmlu/art/0", 1),
        ("mmlu/law/1", 3),
    ]
    assert [row[0] for row in law["rows"]] == ["mmlu/law/0", "mmlu/law/1"]
    assert csqa["rows"][0][0] == "Q1"
    assert converted["revision"] == CONVERTED and "refs/convert/parquet" in converted["notes"][0]
    assert [row[4] for row in converted["rows"]] == ["bbq/Age/group0", "bbq/Age/group1"]


def test_a_dataset_that_cannot_be_had_says_what_to_do(endpoint: str, cache: Path) -> None:
    plain = {"name": "x", "format": "arc_easy"}
    known = {
        "terms/gated, accept its terms, HF_TOKEN, benchmark.path=": plain | {"hub": "terms/gated"},
        "nobody/nothing, spelling, HF_TOKEN, benchmark.path=": plain | {"hub": "nobody/nothing"},
        "'v9'": ARC_EASY | {"revision": "v9"},
        "owner/name": plain | {"hub": "not a dataset!"},
        "'validation', ARC-Easy/test-00000-of-00002.parquet": ARC_EASY | {"split": "validation"},
        "row 1, benchmark.split=validation": CSQA | {"split": "test"},
    }
    for words, failure in zip(known, fetch(endpoint, cache, *known.values()), strict=True):
        assert failure["error"] == "BenchmarkError" and all(
            word in failure["message"] for word in words.split(", ")
        )


def test_without_network_a_pinned_commit_comes_from_the_cache_and_others_fail(
    endpoint: str, tmp_path: Path
) -> None:
    [online] = fetch(endpoint, tmp_path, ARC_EASY | {"revision": PINNED})
    nothing_listens = "http://127.0.0.1:9"  # the discard port
    configs = (ARC_EASY | {"revision": PINNED}, ARC_EASY, ARC_EASY | {"revision": MAIN})
    cached, unpinned, never_fetched = fetch(nothing_listens, tmp_path, *configs)
    assert cached == online
    for failed in (unpinned, never_fetched):
        assert failed["error"] == "BenchmarkError"
        assert "benchmark.path=" in failed["message"]
