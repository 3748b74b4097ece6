"""The authors' files at one commit: taken once, held to their sha256, refused when they are
others."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from servers_here import Quiet, http_here

from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.load import open_benchmark
from audit.core.errors import BenchmarkError, ConfigError

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT.parent / "shared" / "data"


def category(name: str, examples: int) -> bytes:
    answers = {"ans0": "the first", "ans1": "the second", "ans2": "unknown"}
    rows = [
        {
            "example_id": i,
            "category": name,
            "context": "They met.",
            "question": "Who?",
            "label": 2,
            **answers,
        }
        for i in range(examples)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


FILES = {"Age.jsonl": category("Age", 8), "Religion.jsonl": category("Religion", 4)}


@pytest.fixture
def served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, dict[str, bytes], list[str]]]:
    """(address, the files behind it, which were asked for); the cache is a folder of the test's
    own."""
    files, requested = dict(FILES), []

    class Handler(Quiet):
        def do_GET(self) -> None:
            name = self.path.rsplit("/", 1)[1]
            requested.append(name)
            self.reply(200 if files.get(name) else 404, files.get(name) or b"")

    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with http_here(Handler) as address:
        yield f"{address}/data", files, requested


def bbq(url: str, **more: object) -> BenchmarkConfig:
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in FILES.items()}
    return BenchmarkConfig(name="bbq", format="bbq", url=url, files=hashes, **more)  # type: ignore[arg-type]


def test_files_are_taken_once_and_only_the_asked_subjects(
    served: tuple[str, dict[str, bytes], list[str]],
) -> None:
    url, files, requested = served
    first = open_benchmark(bbq(url, subjects=["Religion"]))
    assert [q.id for q in first.iter_questions()] == [f"bbq/Religion/{i}" for i in range(4)]
    assert requested == ["Religion.jsonl"]
    assert first.revision == f"sha256:{hashlib.sha256(FILES['Religion.jsonl']).hexdigest()}"
    files.clear()  # gone from the net: the cache holds what was taken
    assert open_benchmark(bbq(url, subjects=["Religion"])).revision == first.revision
    assert requested == ["Religion.jsonl"]
    with pytest.raises(
        BenchmarkError, match=r"Age\.jsonl could not be fetched .*404.*benchmark\.path="
    ):
        open_benchmark(bbq(url))


def test_another_file_under_the_name_is_refused_and_not_kept(
    served: tuple[str, dict[str, bytes], list[str]],
) -> None:
    url, files, _ = served
    files["Age.jsonl"] = category("Age", 9)
    with pytest.raises(BenchmarkError, match=r"the sha256 of .*Age\.jsonl is not"):
        open_benchmark(bbq(url))
    files["Age.jsonl"] = FILES["Age.jsonl"]
    assert open_benchmark(bbq(url)).census.n_total == 12


def test_a_cached_file_that_was_changed_is_taken_again(
    served: tuple[str, dict[str, bytes], list[str]],
) -> None:
    url, _, requested = served
    [path] = [file.path for file in open_benchmark(bbq(url, subjects=["Age"])).files]
    path.write_bytes(category("Age", 1))
    assert open_benchmark(bbq(url, subjects=["Age"])).census.n_total == 8
    assert requested == ["Age.jsonl", "Age.jsonl"]


def test_refusals(served: tuple[str, dict[str, bytes], list[str]]) -> None:
    with pytest.raises(ConfigError, match="user name or key"):
        open_benchmark(bbq("https://me:secret@example.org/data"))
    with pytest.raises(
        BenchmarkError, match=r"http://127\.0\.0\.1:9/data \(\[Errno \d+\] Connection refused\)"
    ):
        open_benchmark(bbq("http://127.0.0.1:9/data"))
    with pytest.raises(ConfigError, match=r"Agee.*Age"):
        open_benchmark(bbq(served[0], subjects=["Agee"]))


@pytest.mark.parametrize("name", ["bbq", "crows_pairs", "toxigen"])
def test_what_the_configuration_pins_is_the_real_file(name: str) -> None:
    config = yaml.safe_load((ROOT / "conf" / "benchmark" / f"{name}.yaml").read_text())
    commit = config["url"].split("/")[5]
    assert len(commit) == 40 and int(commit, 16)
    if not DATA.is_dir():
        pytest.skip("../shared/data is not here")
    whole = [path for path in DATA.joinpath(name).rglob("*") if path.name in config["files"]]
    assert {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in whole
    }.items() <= config["files"].items()
    assert len(whole) == {"bbq": 5, "crows_pairs": 1, "toxigen": 1}[name]
