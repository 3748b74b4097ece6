"""A run as Inspect logs: read back by inspect_ai where it is installed, and held against the format
where it is not."""

import json
import shutil
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest
from commands_here import export as main
from governed import Capsys, rewrite
from outcome_tables import outcomes_to_table
from registered_runs import make_run

from audit.export.inspect_log import sample_id, sample_of
from audit.sweep.audit import SCHEMA

HOSTILE = "</script><img src=x onerror=alert(1)>\x00\u202e::error::"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(the run, the folder of its logs)."""
    run = make_run(tmp_path_factory.mktemp("exported") / "run")
    assert main(["inspect", str(run)]) == 0
    return run, run / "inspect"


def rows_of(run: Path) -> list[dict[str, Any]]:
    from audit.shards.read import iter_columns

    return [
        row
        for batch in iter_columns(run, SCHEMA, SCHEMA.columns.names)
        for row in batch.to_pylist()
    ]


def header(path: Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("header.json"))


def test_every_row_is_a_sample_of_its_setting(exported: tuple[Path, Path]) -> None:
    run, out = exported
    rows, samples = rows_of(run), {}
    for path in out.iterdir():
        with zipfile.ZipFile(path) as archive:
            assert archive.testzip() is None
            spec = json.loads(archive.read("header.json"))["eval"]
            names = [name for name in archive.namelist() if name.startswith("samples/")]
            for name in names:
                sample = json.loads(archive.read(name))
                assert name == f"samples/{sample['id']}_epoch_{sample['epoch']}.json"
                key = (
                    spec["task_args"]["arm"],
                    spec["task_args"]["routers"],
                    sample["epoch"] - 1,
                    sample["id"],
                )
                samples[key] = sample
            assert len(json.loads(archive.read("summaries.json"))) == len(names)
    assert set(samples) == {
        (r["arm"], r["routers"], r["replicate"], r["question_id"]) for r in rows
    }
    for row in rows:
        sample = samples[row["arm"], row["routers"], row["replicate"], row["question_id"]]
        assert (
            sample["messages"][0]["content"] == row["prompt"]
            and sample["choices"] == row["options"]
        )
        assert sample["output"]["completion"] == row["response"]
        assert (sample["scores"]["audit"]["value"] == "C") == bool(row["correct"])
        assert sample["metadata"]["router_messages"] == row["router_messages"]


def test_accuracy_is_of_what_was_read(exported: tuple[Path, Path]) -> None:
    run, out = exported
    for path in out.iterdir():
        head = header(path)
        setting_rows = [
            r
            for r in rows_of(run)
            if (r["arm"], r["routers"]) == tuple(head["eval"]["task_args"].values())
        ]
        (score,) = head["results"]["scores"]
        assert score["metrics"]["accuracy"]["value"] == pytest.approx(
            sum(r["correct"] for r in setting_rows) / len(setting_rows)
        )
        assert head["status"] == "success" and head["results"]["completed_samples"] == len(
            setting_rows
        )


def test_the_same_run_gives_the_same_bytes(exported: tuple[Path, Path], tmp_path: Path) -> None:
    run, out = exported
    assert main(["inspect", str(run), "--out", str(tmp_path)]) == 0
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {
        p.name: p.read_bytes() for p in out.iterdir()
    }


def row(**changes: Any) -> dict[str, Any]:
    from synthetic import np, synthetic_outcomes

    table = outcomes_to_table(synthetic_outcomes(1, (1,), rng=np.random.default_rng(0)))
    return {**table.to_pylist()[0], **changes}


def test_a_failure_and_what_could_not_be_read_are_no_wrong_answers() -> None:
    failed = sample_of(row(error="no reply", parsed=False, correct=None, answer=None), "routers")
    assert (
        failed["scores"] == {}
        and failed["error"]["message"] == "no reply"
        and len(failed["messages"]) == 1
    )
    unread = sample_of(row(parsed=False, correct=None, answer=None), "routers")["scores"]["audit"]
    assert (unread["value"], unread["answer"]) == ("N", None)
    assert sample_of(row(reading="text"), "routers")["scores"] == {}
    number = sample_of(
        row(options=[], gold=-1, answer=None, answer_number=42.0, target=41.5, correct=False),
        "routers",
    )
    assert (number["target"], number["scores"]["audit"]["answer"], number["choices"]) == (
        "41.5",
        "42",
        None,
    )
    json.dumps(
        sample_of(row(option_logprobs=[float("nan"), float("-inf")]), "routers"), allow_nan=False
    )


@pytest.mark.parametrize(
    "name", ["../x", "a/../../x", "/etc/x", "a\\..\\x", "..", ".", "a//b", "x\n", "\u202ex", ""]
)
def test_no_name_in_a_log_leaves_its_folder(name: str) -> None:
    id_ = sample_id(name)
    assert "/" not in id_ and "\\" not in id_ and id_ not in (".", "..") and id_.isprintable()
    assert sample_id("elementary/3") == "elementary/3"


def test_replies_that_a_judge_read_are_not_exported_as_unparsed(
    exported: tuple[Path, Path], tmp_path: Path
) -> None:
    run = Path(shutil.copytree(exported[0], tmp_path / "run"))
    (run / "judgements.arrow").write_bytes(b"")
    for name in ("inspect", "eee", "hub"):
        assert main([name, str(run), "--out", str(tmp_path / name)]) == 1


def test_an_interrupted_run_does_not_look_finished(
    exported: tuple[Path, Path], tmp_path: Path, capsys: Capsys
) -> None:
    run = Path(shutil.copytree(exported[0], tmp_path / "run"))
    shutil.rmtree(run / "inspect")
    rewrite(run / "manifest.json", lambda plain: plain.update(status="failed"))
    assert main(["inspect", str(run)]) == 0
    assert "failed" in capsys.readouterr().out
    assert {header(path)["status"] for path in (run / "inspect").iterdir()} == {"cancelled"}
    more = {
        "status": "finished",
        "benchmark": {"synthetic": {"n": 99}},
    }  # it says so, and most questions lack
    rewrite(run / "manifest.json", lambda plain: plain.update(more))
    assert main(["inspect", str(run), "--out", str(tmp_path / "lacking")]) == 0
    assert {header(path)["status"] for path in (tmp_path / "lacking").iterdir()} == {"cancelled"}
    next((run / "shards").glob("*.arrow")).write_bytes(b"x")
    assert main(["inspect", str(run), "--out", str(tmp_path / "out")]) == 1
    assert not list((tmp_path / "out").glob("*")) if (tmp_path / "out").exists() else True
    assert main(["inspect", str(tmp_path / "nowhere")]) == 1


def test_inspect_reads_them_back(exported: tuple[Path, Path], tmp_path: Path) -> None:
    log = pytest.importorskip(
        "inspect_ai.log", reason="inspect_ai needs other versions of fsspec and python-dateutil"
    )
    run, out = exported
    rows = rows_of(run)
    assert len(log.list_eval_logs(str(out))) == len(list(out.iterdir()))
    seen = 0
    for path in out.iterdir():
        read = log.read_eval_log(str(path))
        assert (
            read.status == "success"
            and read.eval.model == "m"
            and read.eval.dataset.name == "synthetic"
        )
        assert len(read.samples) == read.results.completed_samples
        arm, routers = read.eval.task_args["arm"], read.eval.task_args["routers"]
        setting_rows = {
            (r["question_id"], r["replicate"] + 1): r
            for r in rows
            if (r["arm"], r["routers"]) == (arm, routers)
        }
        for sample in read.samples:
            expected = setting_rows[sample.id, sample.epoch]
            assert (
                sample.output.completion == expected["response"]
                and sample.choices == expected["options"]
            )
            assert sample.target == "ABCD"[expected["gold"]]
            assert sample.scores["audit"].as_str() == ("C" if expected["correct"] else "I")
        first = log.read_eval_log_sample(str(path), read.samples[0].id, read.samples[0].epoch)
        assert first.messages[0].text == setting_rows[first.id, first.epoch]["prompt"]
        assert len(log.read_eval_log_sample_summaries(str(path))) == len(read.samples)
        assert read.results.scores[0].metrics["accuracy"].value == pytest.approx(
            sum(r["correct"] for r in setting_rows.values()) / len(setting_rows)
        )
        seen += len(setting_rows)
    assert seen == len(rows)


@pytest.mark.long
def test_summaries_wait_on_disk(tmp_path: Path) -> None:
    """What grows with a sample is its place in the archive's index."""
    peaks = []
    for n in (20, 360, 720):  # the first for the imports; the others are more than a batch of rows
        run = make_run(tmp_path / f"{len(peaks)}", n=n)
        tracemalloc.start()
        assert main(["inspect", str(run)]) == 0
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    rows = len(rows_of(tmp_path / "2")) - len(rows_of(tmp_path / "1"))
    assert (peaks[2] - peaks[1]) / rows < 1500  # 480; 4,880 with every summary kept
