"""Published answers from a server of the test's own: what is whole and right is taken, anything
else refused."""

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from commands_here import references
from governed import Patch
from servers_here import Quiet, http_here

from audit.config.references import known_sets, load_set
from audit.core.errors import ConfigError, DataError
from audit.imports.fetch import RECIPES, TAIL, answers_of, answers_sha256, pinned

RECORDS = [
    {"session_id": f"q{k}", "answer": f"# {k}", "output": [f"So it is {k}."]} for k in range(3)
]
KEPT = [{"item": f"q{k}", "gold": f"# {k}", "reply": f"So it is {k}."} for k in range(3)]
RIGHT, RECIPE = answers_sha256(KEPT), RECIPES["gsm8k_zeroeval"]


@pytest.fixture
def served(monkeypatch: Patch) -> Iterator[tuple[str, list[str]]]:
    """(address, paths asked for). The model's name says how its file is answered."""
    requested: list[str] = []

    class Handler(Quiet):
        def do_GET(self) -> None:
            requested.append(self.path)
            how = self.path.rsplit("/", 1)[1].removesuffix(".json")
            body = json.dumps(RECORDS[: 2 if how == "fewer" else 3]).encode()
            to = {"Location": "/result_dirs/gsm/right.json"} if how == "moved" else {}
            sent = body[:-9] if how == "cut" else b"<html>" if how == "page" else body
            self.reply({"moved": 302, "gone": 404}.get(how, 200), sent, to, length=len(body))

    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with http_here(Handler) as address:
        yield f"{address}/", requested


def test_a_file_is_taken_once_and_read(served: tuple[str, list[str]], tmp_path: Path) -> None:
    url, requested = served
    for _ in range(2):
        assert answers_of(RECIPE, "right", RIGHT, url, tmp_path) == KEPT
    assert requested == ["/result_dirs/gsm/right.json"]
    assert (
        answers_of(RECIPE, "right", RIGHT, str(tmp_path), tmp_path / "other") == KEPT
    )  # the same from a folder


@pytest.mark.parametrize(
    ("model", "match"),
    [
        ("fewer", "other answers.*expected " + RIGHT),
        ("moved", "status 302"),
        ("gone", "status 404"),
        ("cut", "could not be fetched"),
        ("page", "could not be fetched|cannot be read"),
    ],
)
def test_what_is_another_file_or_not_whole_is_refused_and_not_kept(
    served: tuple[str, list[str]], tmp_path: Path, model: str, match: str
) -> None:
    with pytest.raises(DataError, match=match):
        answers_of(RECIPE, model, RIGHT, served[0], tmp_path)
    assert not list(tmp_path.iterdir())


def test_without_a_network_or_a_file_the_way_by_hand_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"--from copy"):
        answers_of(RECIPE, "right", RIGHT, "http://127.0.0.1:9", tmp_path)
    with pytest.raises(ConfigError, match=r"--from copy"):
        answers_of(RECIPE, "right", RIGHT, str(tmp_path), tmp_path)
    assert references(["fetch", "gsm8k_nowhere"]) == 1


def test_answers_in_a_zip(tmp_path: Path) -> None:
    record = {"question_id": 7, "answer": "B", "options": ["x", "y", "z"], "pred": None}
    with zipfile.ZipFile(tmp_path / "model_outputs_m_5shots.zip", "w") as archive:
        archive.writestr("m.json", json.dumps([record]))
        archive.writestr("__MACOSX/m.json", "no json")
    rows = [{"item": "7", "gold": "B", "options": 3, "answer": None}]
    assert (
        answers_of(RECIPES["mmlu_pro"], "m", answers_sha256(rows), str(tmp_path), tmp_path) == rows
    )


@pytest.mark.long
def test_gsm8k_becomes_a_set_of_its_44_models(
    tmp_path: Path, shared_data: Path, monkeypatch: Patch
) -> None:
    """Of the published ends of replies; three models' files are whole as published."""
    monkeypatch.setenv("AUDIT_REFERENCES", str(tmp_path / "sets"))
    copy = tmp_path / "copy"
    records: dict[str, list[dict[str, object]]] = {name: [] for name in pinned("gsm8k_zeroeval")}
    copy.mkdir()
    for row in pq.read_table(shared_data / "zeroeval_gsm8k/outputs_tail.parquet").to_pylist():
        more = (
            "before " if len(row["output_tail"]) == TAIL else ""
        )  # of a longer reply the end counts
        record = {
            "session_id": row["session_id"],
            "answer": row["answer"],
            "output": [more + row["output_tail"]],
        }
        records[row["model"]].append(record)
    for name, rows in records.items():
        (copy / f"{name}.json").write_text(json.dumps(rows))
    whole = list((shared_data / "zeroeval_gsm8k/raw").iterdir())
    for path in whole:
        (copy / path.name).write_bytes(path.read_bytes())
    words = ["fetch", "gsm8k_zeroeval", "--from", str(copy)]
    spoilt = copy / "Athene-70B.json"  # which is read first
    text = spoilt.read_text()
    spoilt.write_text(text.replace("# 18", "# 19", 1))
    assert references(words) == 1 and known_sets() == [] and len(whole) == 3
    spoilt.write_text(text)
    assert references(words) == 0
    by_name = {model.name: model for model in load_set("gsm8k_zeroeval").models}
    assert len(by_name) == 44
    assert by_name["gemma-2-2b-it"].accuracy == pytest.approx(
        0.528, abs=0.02
    )  # the site's, of all items
    assert (
        by_name["gpt-4o-2024-08-06"].family == "gpt" and references(words) == 1
    )  # sets never change
