"""A result as metadata of a model: the card read back by huggingface_hub, MLflow's tags, W&B; and
never changed."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests
import yaml
from commands_here import registry as main
from governed import Capsys, Patch
from huggingface_hub import HfApi, ModelCard, parse_eval_result_entries
from registered_runs import EditedRun
from servers_here import Quiet, free_port, http_here

from audit.registry.entry import read_entry


def test_a_card_is_read_back_and_added_to(
    edited_run: EditedRun, tmp_path: Path, capsys: Capsys
) -> None:
    out = tmp_path / "model"
    out.mkdir()
    (out / "README.md").write_text("---\nlicense: mit\n---\n\n# Mine\n\nA person's own text.\n")
    first = edited_run("a")
    words = ["--out", str(out), "--dataset", "org/synthetic"]
    assert main(["card", str(first), *words]) == 0
    before = {path.name: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert main(["card", str(first), *words]) == 0  # the same run again changes nothing
    assert before == {path.name: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    card, entry = ModelCard.load(out / "README.md"), read_entry(first)
    assert card.data.license == "mit" and "A person's own text." in card.text
    scores = {score.metric_type: score for score in card.data.eval_results}
    (cell,) = entry.cells
    assert scores["score"].metric_value == cell.indicators[0].estimate
    assert (
        scores["excess"].metric_args["verdict"] == cell.verdict
        and scores["score"].dataset_type == "org/synthetic"
    )
    (path,) = (out / ".eval_results").iterdir()
    (result,) = parse_eval_result_entries(yaml.safe_load(path.read_text()))
    assert result.dataset_id == "org/synthetic" and result.value == round(
        100 * cell.indicators[0].estimate, 4
    )
    facts = json.loads((out / f"audit-{entry.key[:12]}.json").read_text())
    assert facts["verdict_sha256"] == entry.verdict_sha256 and facts["decision"] == "no decision"
    assert (
        main(["card", str(edited_run("b", cell={"verdict": "excess"})), *words, "--trust-report"])
        == 0
    )
    second = ModelCard.load(out / "README.md")
    assert len(second.data.eval_results) == 4 and second.text.count("## Benchmark audit") == 2
    (out / f"audit-{entry.key[:12]}.json").write_text("{}")
    capsys.readouterr()
    assert main(["card", str(first), *words]) == 1 and "same run" in capsys.readouterr().err


def test_no_verdict_is_published_that_the_answers_do_not_give(
    edited_run: EditedRun, tmp_path: Path, capsys: Capsys
) -> None:
    run = str(edited_run(cell={"verdict": "no_excess_detected"}))
    for words in (
        ["card", run, "--out", str(tmp_path / "out")],
        ["mlflow", run, "--name", "m", "--version", "1"],
        ["wandb", run, "--project", "p"],
    ):
        assert main(words) == 1 and "verdict" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_hostile_text_is_no_markup_in_a_card(edited_run: EditedRun, tmp_path: Path) -> None:
    bad = "<img src=x onerror=alert(1)> [a](http://b) | x\n---\nlicense: evil"
    assert (
        main(
            [
                "card",
                str(edited_run(cell={"headline": bad})),
                "--trust-report",
                "--out",
                str(tmp_path / "out"),
            ]
        )
        == 0
    )
    card = ModelCard.load(tmp_path / "out" / "README.md")
    assert "<img" not in card.text and "[a](" not in card.text and card.data.get("license") is None


def test_what_cannot_be_written_is_refused(
    edited_run: EditedRun, tmp_path: Path, monkeypatch: Patch, capsys: Capsys
) -> None:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    run, out = str(edited_run()), str(tmp_path / "out")
    for words, says in (
        (["card", run, "--out", out, "--model", "other"], "Expected one of them: --model m"),
        (["card", run, "--out", out, "--push", "me/model"], "HF_TOKEN"),
        (["mlflow", run, "--name", "m", "--version", "1"], "MLFLOW_TRACKING_URI"),
    ):
        assert main(words) == 1 and says in capsys.readouterr().err


def test_a_card_is_pushed_only_when_asked_and_nothing_else_with_it(
    edited_run: EditedRun, tmp_path: Path, monkeypatch: Patch, capsys: Capsys
) -> None:
    uploads: list[dict[str, Any]] = []

    def upload_folder(self: HfApi, **words: Any) -> Any:
        uploads.append(words)
        if len(uploads) > 1:
            raise OSError("token hf_secret refused")
        return SimpleNamespace(commit_url="https://hub/commit/1")

    monkeypatch.setattr(HfApi, "upload_folder", upload_folder)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    words = ["card", str(edited_run()), "--out", str(tmp_path / "out")]
    assert main(words) == 0 and not uploads
    assert (
        main([*words, "--push", "me/model"]) == 0
        and "https://hub/commit/1" in capsys.readouterr().out
    )
    assert uploads[0]["repo_id"] == "me/model" and "*" not in uploads[0]["allow_patterns"]
    assert main([*words, "--push", "me/model"]) == 1
    message = capsys.readouterr().err
    assert "me/model" in message and "hf_secret" not in message


class Mlflow(Quiet):
    """MLflow's answers, as its documentation has them; 503 the first time of everything. It keeps
    what it is sent."""

    version: dict[str, Any]
    files: dict[str, bytes]
    seen: set[str]

    def answer(self) -> None:
        body = self.request_body() if self.command != "GET" else b""
        if self.path not in self.seen or self.headers["Authorization"] != "Bearer tok":
            self.seen.add(self.path)
            self.reply(503)
        elif "/runs/get" in self.path:
            self.reply_json({"run": {"info": {"artifact_uri": "mlflow-artifacts:/0/r1/artifacts"}}})
        elif "/model-versions/get" in self.path:
            self.reply_json(
                {"model_version": self.version}, 200 if self.path.endswith("version=1") else 404
            )
        elif self.path.endswith("/set-tag"):
            self.version["tags"].append(json.loads(body))
            self.reply_json({})
        else:
            self.files[self.path.split("/artifacts/", 1)[1]] = body
            self.reply_json({})

    do_GET = do_POST = do_PUT = answer


def tagged_once(
    folder: Path, name: str, version: Callable[[], dict[str, Any]], set_tag: Callable[[str], None]
) -> None:
    """The run's verdict as tags of a version, once; another value there is refused, and so is a
    version of none."""
    words = ["mlflow", str(folder), "--name", name, "--version"]
    assert main([*words, "1"]) == 0
    tags = {tag["key"]: tag["value"] for tag in version()["tags"]}
    head = f"audit.{read_entry(folder).key[:12]}"
    assert (
        tags[f"{head}.decision"] == "no decision"
        and tags[f"{head}.synthetic.verdict"] == "underpowered"
    )
    assert main([*words, "1"]) == 0 and len(version()["tags"]) == len(tags)
    set_tag(f"{head}.decision")
    assert main([*words, "1"]) == 1
    assert main([*words, "7"]) == 1


def test_mlflow_is_tagged_once_and_never_otherwise(
    edited_run: EditedRun, monkeypatch: Patch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "tok")
    Mlflow.version, Mlflow.files, Mlflow.seen = (
        {"name": "m", "version": "1", "run_id": "r1", "tags": []},
        {},
        set(),
    )

    def set_tag(key: str) -> None:
        next(tag for tag in Mlflow.version["tags"] if tag["key"] == key)["value"] = "pass"

    folder = edited_run()
    with http_here(Mlflow) as address:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
        tagged_once(folder, "m", lambda: Mlflow.version, set_tag)
    place = f"0/r1/artifacts/audit/{read_entry(folder).key[:12]}/verdict.json"
    assert Mlflow.files == {place: (folder / "report" / "verdict.json").read_bytes()}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real MLflow server: the command in AUDIT_TEST_MLFLOW, or `mlflow` of the path."""
    command = os.environ.get("AUDIT_TEST_MLFLOW") or shutil.which("mlflow")
    if command is None:
        pytest.skip(
            "mlflow is not installed: AUDIT_TEST_MLFLOW may name its command in an environment of its own"
        )
    folder = tmp_path_factory.mktemp("mlflow")
    port = free_port()
    words = [
        command,
        "server",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--workers",
        "1",
        "--backend-store-uri",
        f"sqlite:///{folder}/db",
        "--artifacts-destination",
        f"{folder}/artifacts",
    ]
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            words, stdout=log, stderr=log, env=env, cwd=folder, start_new_session=True
        )
    try:
        deadline = time.monotonic() + 240
        while True:
            try:
                if requests.get(f"http://127.0.0.1:{port}/health", timeout=2).ok:
                    break
            except requests.RequestException:
                assert process.poll() is None and time.monotonic() < deadline, (
                    folder / "log"
                ).read_text()[-2000:]
                time.sleep(0.5)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # it and its workers; nothing of it is kept
        process.wait(20)


def test_a_real_mlflow_takes_tags_and_verdict(
    server: str, edited_run: EditedRun, monkeypatch: Patch
) -> None:
    api = f"{server}/api/2.0/mlflow"

    def post(path: str, **content: Any) -> Any:
        answer = requests.post(f"{api}/{path}", json=content, timeout=30)
        answer.raise_for_status()
        return answer.json()

    run = post("runs/create", experiment_id="0")["run"]["info"]
    post("registered-models/create", name="mine")
    post(
        "model-versions/create",
        name="mine",
        source=f"{run['artifact_uri']}/model",
        run_id=run["run_id"],
    )
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
    for name in ("TOKEN", "USERNAME"):
        monkeypatch.delenv(f"MLFLOW_TRACKING_{name}", raising=False)

    def version() -> dict[str, Any]:
        reply = requests.get(
            f"{api}/model-versions/get", params={"name": "mine", "version": "1"}, timeout=30
        )
        return reply.json()["model_version"]

    folder = edited_run()
    tagged_once(
        folder,
        "mine",
        version,
        lambda key: post("model-versions/set-tag", name="mine", version="1", key=key, value="pass"),
    )
    params = {
        "run_uuid": run["run_id"],
        "path": f"audit/{read_entry(folder).key[:12]}/verdict.json",
    }
    answer = requests.get(f"{server}/get-artifact", params=params, timeout=30)
    assert answer.content == (folder / "report" / "verdict.json").read_bytes()


def test_wandb_is_offered_where_it_is_installed(
    edited_run: EditedRun, tmp_path: Path, monkeypatch: Patch, capsys: Capsys
) -> None:
    words = ["wandb", str(edited_run()), "--project", "audits"]
    if find_spec("wandb") is None:
        assert main(words) == 1 and "wandb" in capsys.readouterr().err
        pytest.skip(
            "wandb is not installed: its absence is said; what it would be given is not tested"
        )
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    assert main(words) == 0 and "logged   audit-" in capsys.readouterr().out
    assert list(tmp_path.rglob("run-audit-*.wandb"))


def test_a_local_file_is_not_called_the_hubs_data_set(tmp_path: Path) -> None:
    from audit.registry.cards import _hub_id
    from audit.shards.manifest import Manifest

    for path, expected in ((None, "allenai/ai2_arc"), ("mine.jsonl", None)):
        Manifest(
            fingerprint="f", config={"benchmark": {"hub": "allenai/ai2_arc", "path": path}}
        ).save(tmp_path)
        assert _hub_id(tmp_path) == expected
