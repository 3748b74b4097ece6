"""The whole life of two versions of a model under one suite, by the commands that people type.

Suite, run, review needed, notified, approved by two, gate passes, evidence, card; a worse version:
the trend flags it, the gate blocks, an override with an expiry, blocked again after it; a deleted
decision; retention. Everything is the program's own but for one function: who answers. Its rows are
synthetic, with an effect of known size."""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands_here import evidence, gate, registry, review, suite
from governed import Capsys, Patch
from outcome_tables import finished_run
from servers_here import mail_here
from synthetic import synthetic_outcomes

from audit.config.base import RunConfig, load_model_config
from audit.core.errors import EngineError
from audit.core.json_types import plain
from audit.engines.weights import resolve_weights
from audit.registry.entry import key_of
from audit.shards.manifest import now
from audit.sweep import __main__ as sweep_command
from audit.sweep.config import hint_references
from audit.sweep.design import Arm

Taken = Callable[[], list[tuple[str, str]]]
READER = "reader"  # another model that answers from the same messages: what hints in them explain
NAME = "smollm2_135m"  # a model of conf/model; its weights are a folder of the test
SUITE: dict[str, Any] = {
    "audit_suite_id": "life-v1",
    "dataset_config": {"benchmark_name": "elementary", "sample_size": 120},
    "governance": {
        "result_retention_days": 30,
        "notify_on_failure": ["governance@example.org"],
        "approvals_required": 2,
    },
    "audits": {"sweep": ["r=1"]},
}


@pytest.fixture
def mail(monkeypatch: Patch) -> Iterator[Taken]:
    """What gives (to, subject) of what came since its last call, sorted."""
    messages: list[Any] = []

    def received() -> list[tuple[str, str]]:
        pairs = sorted((str(message["to"]), str(message["subject"])) for message in messages)
        messages.clear()
        return pairs

    with mail_here(messages) as address:
        monkeypatch.setenv("AUDIT_NOTIFY", address)
        yield received


@pytest.fixture
def answering(monkeypatch: Patch) -> dict[str, float]:
    """gain: what noise adds to the accuracy of the model that is asked next (0-1)."""
    model = {"gain": 0.0}

    def sweep(config: RunConfig) -> int:
        """A finished run, as the sweep's own command leaves it where it builds no report."""
        revision = resolve_weights(config.model[NAME]).revision
        analysis = {"seed": 42, "references": hint_references(config)}
        finished(
            Path(config.run_dir), NAME, revision, plain(asdict(config)), analysis, model["gain"]
        )
        return 0

    monkeypatch.setattr(sweep_command, "sweep", sweep)
    return model


def finished(
    run_dir: Path,
    name: str,
    revision: str,
    config: dict[str, Any],
    analysis: dict[str, Any],
    gain: float,
) -> None:
    """A finished run of a model. READER is sent the messages that a model of this gain was, and
    gains nothing."""
    rows = synthetic_outcomes(
        120, (1,), rng=np.random.default_rng(3), model=name, benchmark="elementary", gain=gain
    )
    if name == READER:
        clean = {row.question_id: row for row in rows if row.arm == Arm.FORWARD_FULL}
        clean_fields = {key: (row.answer, row.correct, row.response) for key, row in clean.items()}
        rows = [
            replace(
                row,
                **dict(
                    zip(
                        ("answer", "correct", "response"),
                        clean_fields[row.question_id],
                        strict=True,
                    )
                ),
            )
            if row.arm == Arm.NOISY_REWRITE
            else row
            for row in rows
        ]
    finished_run(
        run_dir,
        rows,
        config=config,
        analysis=analysis,
        started=now(),
        ended=now(),
        prompt_hashes={name: "0" * 64},
        models={name: {"revision": revision, "reading": "letter", "worker": name}},
        benchmark={"elementary": {"n": 120, "revision": "sha256:b", "ids_sha256": "1" * 64}},
    )


@pytest.mark.usefixtures("no_figures")
def test_the_whole_life(
    keys: Path,
    mail: Taken,
    answering: dict[str, float],
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: Patch,
    capsys: Capsys,
) -> None:
    readers = tmp_path_factory.mktemp("readers")
    place, trusted = (
        ["--registry", str(tmp_path / "registry.db")],
        ["--keys", str(keys / "trusted")],
    )
    start = datetime.now(UTC)

    def audited(version: str, gain: float) -> tuple[Path, int]:
        folder, run_dir = tmp_path / f"weights_{version}", tmp_path / version
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps({"weights": version}))
        monkeypatch.setenv("HOME", str(tmp_path))
        path, model_config = tmp_path / "suite.json", load_model_config(NAME)
        model_config.path = str(folder)
        reader = readers / "newest"  # one name in the suite, so that its versions can be compared
        shutil.rmtree(reader, ignore_errors=True)
        finished(reader, READER, "sha256:r", {}, {"seed": 42}, gain)
        audits = {"sweep": ["r=1", f"hint_reference={reader}"]}
        model = {"model_id": NAME, "model_version": resolve_weights(model_config).revision}
        path.write_text(json.dumps({**SUITE, "audits": audits, "model_config": model}))
        answering["gain"] = gain
        words = [
            f"run_dir={run_dir}",
            f"model.{NAME}.path={folder}",
            f"registry={place[1]}",
            "progress=false",
        ]
        return run_dir, suite([str(path), *words])

    def output_of(
        command: Callable[..., int], *words: str, after: timedelta = timedelta(0), code: int = 0
    ) -> str:
        assert command([str(word) for word in words], start + timedelta(minutes=1) + after) == code
        out = capsys.readouterr()
        return out.out + out.err

    def decided(kind: str, run_dir: Path, who: str, after: timedelta, expires: timedelta) -> str:
        until = (start + expires).isoformat(timespec="seconds")
        key = [
            "--key",
            str(keys / f"{who}.key"),
            "--reason",
            f"{who} has read it",
            "--expires",
            until,
        ]
        return output_of(review, kind, run_dir, *key, *trusted, *place, after=after)

    hour, day = timedelta(hours=1), timedelta(days=1)
    checked = [*trusted, *place]  # the suite asks for two

    # The first version is not decided; people are told: the team, and those whom the suite names.
    first, code = audited("v1", 0.0)
    assert code == 5
    title = f"Audit ends without a decision: {NAME}"
    assert mail() == [("governance@example.org", title), ("team@example.org", title)]
    output_of(gate, first, *checked, code=5)
    assert "1 of 1" in output_of(review, "list", tmp_path, *trusted, *place)
    assert f"no decision  {first}" in output_of(
        review, "list", *trusted, *place
    )  # the suite, which the registry knows of
    assert "UNDERPOWERED" in output_of(review, "show", first, *trusted, *place)

    # Two people override; the first alone is not enough, and who ran it does not count alone.
    assert "1 of 2" in decided("override", first, "alice", hour, 20 * day)
    assert "1 of 2" in output_of(gate, first, *checked, after=hour, code=5)
    decided("override", first, "bob", 2 * hour, 20 * day)
    output_of(gate, first, *checked, after=2 * hour)

    # The evidence, from which the verdict can be computed again.
    pack, signing = tmp_path / "pack.zip", ["--with-shards", "--key", str(keys / "bob.key")]
    output_of(evidence, first, "-o", pack, *signing, *trusted, after=2 * hour)
    verified = output_of(evidence, "verify", pack, *trusted, after=2 * hour)
    assert verified.count("decided: override by") == 2 and "the pack passes" in verified
    assert "the pack does not pass" in output_of(evidence, "verify", pack, *trusted, after=21 * day)
    assert "bob" in verified

    # The model has a card.
    output_of(registry, "card", first, "--out", tmp_path / "card")
    assert "| underpowered |" in (tmp_path / "card" / "README.md").read_text()

    # The second version is worse. The trend says so, and the gate blocks.
    second, code = audited("v2", 0.2)
    title = f"Audit blocks: {NAME}"
    assert code == 3 and mail() == [("governance@example.org", title), ("team@example.org", title)]
    trend = output_of(registry, "trends", *place, "--indicator", "excess", after=2 * hour)
    assert trend.count("CHANGED") == 1
    output_of(gate, second, *checked, after=2 * hour, code=3)

    # An override lets it pass until it expires, and everybody hears of that.
    decided("override", second, "alice", 3 * hour, 10 * day)
    decided("override", second, "bob", 4 * hour, 10 * day)
    assert "block" in output_of(gate, second, *checked, after=5 * hour)
    output_of(registry, "notify", *trusted, *place, after=5 * day)
    assert sorted(subject for _, subject in mail() if "7 days" in subject)[1:]  # of both
    assert "EXPIRED" in output_of(gate, second, *checked, after=10 * day + hour, code=3)

    # Retention: what counts stays; later answers and pages go, figures and hashes and decisions
    # stay.
    assert "0 of 0 runs past" in output_of(registry, "expire", "--dry-run", *place, after=29 * day)
    key = key_of(second / "sweep")
    output_of(registry, "hold", key, "--reason", "case 7", *place)
    listed = output_of(registry, "expire", "--dry-run", *place, after=40 * day)
    assert "1 of 2" in listed and "case 7" in listed
    output_of(registry, "release", key, *place)
    token = (
        output_of(registry, "expire", "--dry-run", *place, after=40 * day)
        .split("--confirm ")[1]
        .strip()
    )
    assert (
        output_of(registry, "expire", "--confirm", token, *place, after=40 * day).count("removed")
        == 2
    )
    for run_dir in (first, second):
        assert not list(run_dir.glob("**/*.arrow")) and not list(run_dir.glob("**/report"))
        assert (run_dir / "sweep" / "tombstone.json").is_file() and len(
            list(run_dir.glob("decisions/*"))
        ) == 2
        output_of(gate, run_dir, *checked, after=40 * day, code=1)
    assert "CHANGED" in output_of(
        registry, "trends", *place, "--indicator", "excess", after=40 * day
    )
    output_of(review, "list", tmp_path, *trusted, *place, after=40 * day, code=1)


def test_a_suite_that_breaks_off_is_told_and_does_not_pass(
    keys: Path, mail: Taken, tmp_path: Path, monkeypatch: Patch, capsys: Capsys
) -> None:
    def broken(config: RunConfig) -> int:
        raise EngineError("no memory")

    monkeypatch.setattr(sweep_command, "sweep", broken)
    path, run_dir = tmp_path / "suite.json", tmp_path / "run"
    path.write_text(
        json.dumps({**SUITE, "model_config": {"model_id": "scripted", "model_version": "scripted"}})
    )
    for _ in range(2):  # the same failure again is no news
        assert suite([str(path), f"run_dir={run_dir}", f"registry={tmp_path / 'r.db'}"]) == 1
    assert [subject for _, subject in mail()] == ["Audit failed: run"] * 2
    assert gate([str(run_dir), "--keys", str(keys / "trusted")]) == 1
    # Without a mail server the people that the suite names cannot be told, and their number is
    # said.
    capsys.readouterr()
    monkeypatch.delenv("AUDIT_NOTIFY")
    assert suite([str(path), f"run_dir={run_dir}"]) == 1
    assert "names (1) are not notified" in capsys.readouterr().err
