"""A run as Every Eval Ever and for the hub: valid by the schemas, and the same outcomes when it is
read back."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from commands_here import export, import_logs
from governed import Capsys
from registered_runs import make_run

from audit.core.errors import AuditError
from audit.export.eee import AGGREGATE, INSTANCE, UNPARSED, safe_name, validator
from audit.imports.detect import read_log
from audit.imports.join import Joined, counts
from audit.imports.record import Wanted
from audit.shards.manifest import Manifest

ITEMS = ("What barks?", "What meows?", "What moos?", "What brays?")
OPTIONS = ("dog", "cat", "cow", "ass")


def lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models, four items in two epochs: one answer is unparsed, one failed, one item was never
    asked of b."""
    folder = tmp_path_factory.mktemp("eee")
    rows = [
        {
            "model": model,
            "text": text,
            "options": OPTIONS,
            "gold": "ABCD"[k],
            "epoch": epoch,
            "answer": "A",
            "correct": int(k == 0 or model == "b"),
            "error": None,
        }
        for model in ("a", "b")
        for k, text in enumerate(ITEMS)
        for epoch in (1, 2)
        if (model, k) != ("b", 3)
    ]
    rows[2] |= {"correct": "", "answer": "<b>hm</b>"}
    rows[5] |= {"error": "no reply", "correct": ""}
    out = folder / "run"
    assert import_logs([str(lines(folder / "exam.jsonl", rows)), "-o", str(out)]) == 0
    return out


def joined(*paths: Path, **wanted: str) -> Joined:
    table = Joined()
    for path in paths:
        table.add(path.name, read_log(path, Wanted(**wanted)).outcomes)
    return table


def outcomes(table: Joined) -> dict[Any, Any]:
    return {
        (cell, key): [(epoch.right, epoch.of, epoch.answer, epoch.error) for epoch in epochs]
        for cell, answers in table.answers.items()
        for key, epochs in answers.items()
    }


def pairs(out: Path) -> tuple[list[Path], list[Path]]:
    samples = sorted(out.rglob("*_samples.jsonl"))
    return sorted(set(out.rglob("*.json"))), samples


@pytest.fixture(scope="module")
def exported(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the run's pairs. To be read only."""
    out = tmp_path_factory.mktemp("exported")
    assert export(["eee", str(run), "--out", str(out), "--organization", "Us"]) == 0
    return out


def test_the_round_trip(run: Path, exported: Path, tmp_path: Path, capsys: Capsys) -> None:
    assert export(["eee", str(run), "--out", str(tmp_path), "--organization", "Us"]) == 0
    output = capsys.readouterr().out
    assert "exam: 2 of 8" in output  # a: one unparsed, one failed
    first, second = (
        {p.relative_to(out): p.read_bytes() for p in out.rglob("*.json*")}
        for out in (exported, tmp_path)
    )
    assert first == second
    aggregates, samples = pairs(tmp_path)
    assert len(aggregates) == len(samples) == 2
    for path in aggregates:
        whole = json.loads(path.read_text())
        validator(AGGREGATE).validate(whole)
        assert whole["source_metadata"]["source_organization_name"] == "Us"
        assert whole["detailed_evaluation_results"]["file_path"] == str(
            path.with_name(f"{path.stem}_samples.jsonl").relative_to(tmp_path)
        )
        (result,) = whole["evaluation_results"]
        # a is right on the first item alone, in two epochs, of 8 - 2 parsed answers; b on all six
        right = {"a": 2 / 6, "b": 1.0}[whole["model_info"]["name"]]
        assert result["score_details"]["score"] == pytest.approx(right)
    records = [json.loads(line) for path in samples for line in path.read_text().splitlines()]
    for record in records:
        validator(INSTANCE).validate(record)
    assert sorted(str(row["error"]) for row in records if row["error"]) == ["no reply", UNPARSED]
    assert len(records) == 8 + 6
    assert outcomes(joined(run)) == outcomes(joined(*aggregates)) == outcomes(joined(*samples))
    imported = tmp_path / "again"
    assert import_logs([*map(str, aggregates), "-o", str(imported)]) == 0
    assert outcomes(joined(imported)) == outcomes(joined(run))
    assert Manifest.load(imported).config["logs"][0]["tool"] == "every_eval_ever"


def test_settings_of_a_sweep_have_names_of_their_own(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    assert export(["eee", str(run)]) == 0
    (aggregate,), _ = pairs(run / "every_eval_ever")
    whole = json.loads(aggregate.read_text())
    validator(AGGREGATE).validate(whole)
    names = {result["evaluation_name"] for result in whole["evaluation_results"]}
    assert names == {"synthetic forward_full routers 1", "synthetic noisy_rewrite routers 1"}
    with pytest.raises(AuditError, match="asked no item as published"):
        read_log(run, Wanted())
    setting = joined(aggregate, benchmark="synthetic noisy_rewrite routers 1")
    assert list(setting.items) == [
        "synthetic noisy_rewrite routers 1"
    ]  # the one of several, and not all by its name


def test_what_lacks_answers_is_marked_and_is_no_log(run: Path, tmp_path: Path) -> None:
    less, out = tmp_path / "less", tmp_path / "out"
    shutil.copytree(run, less)
    next((less / "shards").glob("*.arrow")).unlink()
    assert export(["eee", str(less), "--out", str(out)]) == 0
    details = [
        json.loads(path.read_text())["eval_library"]["additional_details"] for path in pairs(out)[0]
    ]
    assert len(details) == 1 and details[0]["incomplete"] in {
        f"{who} on exam incomplete, 0 of 8 answers" for who in "ab"
    }
    with pytest.raises(AuditError, match="incomplete"):
        read_log(less, Wanted())


def test_what_breaks_the_schema_is_refused(exported: Path, tmp_path: Path) -> None:
    (_, aggregate), (samples, _) = pairs(exported)
    good = json.loads(samples.read_text().splitlines()[0])
    for change, message in (
        ({"evaluation": {"score": 1.0, "is_correct": "yes"}}, "evaluation/is_correct"),
        ({"extra": 1}, "the whole"),
        ({"evaluation": {"score": float("nan"), "is_correct": True}}, "expected 0, 1"),
    ):
        bad = lines(tmp_path / "bad_samples.jsonl", [good | change])
        with pytest.raises(AuditError, match=message):
            joined(bad)
    alone = tmp_path / "alone.json"
    alone.write_text(aggregate.read_text())
    with pytest.raises(AuditError, match="holds only totals"):
        joined(alone)


def test_one_record_a_metric(exported: Path, tmp_path: Path) -> None:
    rows = [json.loads(line) for line in pairs(exported)[1][0].read_text().splitlines()]
    second = [
        row | {"evaluation_result_id": "f1", "evaluation": {"score": 0.5, "is_correct": False}}
        for row in rows
    ]
    both = lines(tmp_path / "both_samples.jsonl", [*rows, *second])
    (answers,) = joined(both).answers.values()
    assert sum(map(len, answers.values())) == len(rows)
    of_f1 = outcomes(joined(both, metric="f1"))
    assert {epoch[:2] for epochs in of_f1.values() for epoch in epochs} == {(1, 2), (None, 1)}


def test_an_own_run_is_joined_by_text(run: Path, tmp_path: Path) -> None:
    """With a log of another harness, whose options stand in another order."""
    log = {
        "eval": {"model": "other", "task": "exam"},
        "samples": [
            {
                "id": k,
                "epoch": 1,
                "input": text.upper(),
                "choices": OPTIONS[::-1],
                "target": "DCBA"[k],
                "scores": {"choice": {"value": "C", "answer": "A"}},
            }
            for k, text in enumerate(ITEMS)
        ],
    }
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log))
    missing = {count.model: count.lacking for count in counts(joined(run, path))}
    assert missing == {"a": 0, "b": 1, "other": 0}


def test_an_unfinished_run_is_no_log(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "run"
    other.mkdir()
    content = json.loads((run / "manifest.json").read_text()) | {"status": "running"}
    (other / "manifest.json").write_text(json.dumps(content))
    with pytest.raises(AuditError, match="is running"):
        read_log(other, Wanted())


def test_the_schemas_are_those_of_the_release(shared_data: Path) -> None:
    for name in (AGGREGATE, INSTANCE):
        published = json.loads((shared_data / "eval_logs/eee_schema" / name).read_text())
        packaged = validator(name).schema
        assert (
            published["version"] == packaged["version"] == "0.3.0"
            and published["required"] == packaged["required"]
        )


@pytest.mark.parametrize("name", ["../x", "/", "..", "", "a/b\n", "\u202ex"])
def test_no_name_leaves_its_folder(name: str) -> None:
    assert (
        "/" not in safe_name(name)
        and safe_name(name) not in ("", ".", "..")
        and safe_name(name).isascii()
    )


# --- the hub's form


def test_the_hubs_form(run: Path, tmp_path: Path) -> None:
    import yaml
    from huggingface_hub._eval_results import parse_eval_result_entries

    assert (
        export(["hub", str(run), "--out", str(tmp_path)]) == 1
    )  # an imported table is no dataset of the hub
    copy = tmp_path / "run"
    copy.mkdir()
    (copy / "shards").symlink_to(run / "shards")
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["config"]["benchmark"] = {"name": "exam", "hub": "we/exam", "path": None}
    (copy / "manifest.json").write_text(json.dumps(manifest))
    assert (
        export(
            ["hub", str(copy), "--out", str(tmp_path), "--source-url", "https://example.org/run"]
        )
        == 0
    )
    words = ["hub", str(copy), "--out", str(tmp_path), "--source-url", "https://example.org/run"]
    assert export(words) == 1 and export([*words, "--force"]) == 0  # a file of another run
    (entry,) = parse_eval_result_entries(
        yaml.safe_load((tmp_path / "a/.eval_results/exam.yaml").read_text())
    )
    assert (entry.dataset_id, entry.task_id, entry.value) == (
        "we/exam",
        "default",
        33.33,
    )  # 2 of 6 parsed
    assert entry.source_url == "https://example.org/run" and "2 of 8 answers" in entry.notes
