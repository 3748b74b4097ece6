"""Files that somebody else put into a run, beside it or in its place: a row each, each of which
ends at once, in a sentence. Every command runs in a process of its own with 3 GiB of address space
and 60 s."""

import json
import os
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from audit_here import undrawn
from commands_here import evidence, gate, report
from governed import Capsys, add_questions, decided, first, flip, rewrite

from audit.core.errors import ConfigError, ShardError, SignatureError
from audit.core.guarded_files import MAX_DEPTH, parse_json, read_bytes
from audit.governance.keys import load_signer
from audit.governance.pack import write_pack
from audit.imports.detect import read_log
from audit.imports.record import Wanted
from audit.runtime.loading import find_runs
from audit.shards.complete import unhashed_tables
from audit.shards.manifest import Manifest
from audit.shards.questions import QUESTIONS

Put = Callable[[Path], object]


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(6 << 30)


def sock(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # the name of a socket has at most 107 bytes
    try:
        socket.socket(socket.AF_UNIX).bind(path.name)
    finally:
        os.chdir(here)


# What stands in the place of a file.
PUT: dict[str, Put] = {
    "a pipe": os.mkfifo,
    "a link to zeros": lambda path: path.symlink_to("/dev/zero"),
    "a link to a terminal's end": lambda path: path.symlink_to("/dev/ptmx"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to another's file": lambda path: path.symlink_to("/etc/passwd"),
    "6 GiB of nothing": sparse,
    "a socket": sock,
    "a folder": lambda path: path.mkdir(),
    "brackets": lambda path: path.write_text("[" * 100_000),
    "objects in objects": lambda path: path.write_text('{"a":' * 900 + "1" + "}" * 900),
    "empty lists": lambda path: path.write_text(f"[{'[],' * 15_000_000}[]]"),
    "a number of 100,000 digits": lambda path: path.write_text("1" * 100_000),
    "not a number": lambda path: path.write_text('{"cells": NaN, "runs": Infinity}'),
    "bytes": lambda path: path.write_bytes(b"\xff\xfe\x00\xd8" * 9),
}


def limited(*words: str) -> "subprocess.CompletedProcess[str]":
    """A command in a process that cannot take the machine's memory."""
    command = [sys.executable, "-m", "audit", *words]

    def bounded() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))

    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, preexec_fn=bounded
    )


@pytest.mark.parametrize("name", PUT)
@pytest.mark.parametrize("at", ["manifest.json", "report/verdict.json"])
def test_a_neighbour_stops_nobodys_gate(at: str, name: str, built: Path, tmp_path: Path) -> None:
    """The run is answered with 4 beside whatever lies there; a list of runs has a line for each."""
    run, other = (Path(shutil.copytree(built, tmp_path / folder)) for folder in ("run", "other"))
    (other / at).unlink()
    PUT[name](other / at)
    assert gate([str(run)]) == 5
    assert {listed.path.name for listed in find_runs(tmp_path) if not listed.problem} >= {"run"}


@pytest.mark.parametrize("name", PUT)
@pytest.mark.parametrize(
    "at",
    [
        "manifest.json",
        "report/verdict.json",
        "panel.json",
        "suite.json",
        "suite.yaml",
        "decisions/0001.dsse.json",
    ],
)
def test_what_stands_for_a_file_of_the_run_lets_nothing_pass(
    at: str, name: str, run_dir: Path, keys: Path, tmp_path: Path
) -> None:
    """1, or 5 as before where the file is not looked at: a folder or pipe that is called like a
    suite is none."""
    (run_dir / "decisions").mkdir()
    (run_dir / at).unlink(missing_ok=True)
    PUT[name](run_dir / at)
    words = [str(run_dir), "--trust-report", "--keys", str(keys / "trusted")]
    assert gate(words) == (5 if at.startswith("suite") else 1)
    if not at.startswith("suite"):
        with pytest.raises((ConfigError, ShardError, SignatureError)):
            write_pack(run_dir, tmp_path / "pack.zip", with_shards=True, signer=None)


LARGE = "6 GiB of nothing"  # hashed whole, for twenty CPU seconds


@pytest.mark.parametrize(
    "name", [pytest.param(case, marks=pytest.mark.long) if case == LARGE else case for case in PUT]
)
def test_a_suite_that_cannot_be_read_lets_no_decision_count(
    name: str, overridden: Path, keys: Path, tmp_path: Path
) -> None:
    """It may ask for more people: the gate says 1 with a decision; a folder, pipe or socket is no
    suite, and is not bound either."""
    run = Path(shutil.copytree(overridden, tmp_path / "run"))
    PUT[name](run / "suite.yaml")
    code = gate([str(run), "--trust-report", "--keys", str(keys / "trusted")])
    assert code == (1 if (run / "suite.yaml").is_file() else 0)


SUFFIXES = ("eval", "csv", "jsonl", "parquet", "json")


@pytest.mark.parametrize(
    ("name", "suffix"),
    [
        # Of each suffix a pipe, and of one all: what stands there is opened by one reader.
        pytest.param(
            name, suffix, marks=() if "pipe" in name or suffix == "jsonl" else pytest.mark.long
        )
        for name in (*list(PUT)[:4], *list(PUT)[5:9])
        for suffix in SUFFIXES
    ],
)
def test_no_log_is_waited_for(name: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"log.{suffix}"
    PUT[name](path)
    with pytest.raises(Exception) as raised:
        list(read_log(path, Wanted(model="m", columns={})).outcomes)
    assert type(raised.value).__module__ == "audit.core.errors"


def test_six_gigabytes_take_no_memory(run_dir: Path) -> None:
    """In a process of 6 GiB in all."""
    (run_dir / "report/verdict.json").unlink()
    sparse(run_dir / "report/verdict.json")
    done = limited("gate", str(run_dir))
    assert done.returncode == 1 and "Traceback" not in done.stderr


ALPHAS = [1e-9, 5e-324, 0.0, -1.0, float("inf"), float("nan"), True, "0.05", [0.05], None]


@pytest.mark.parametrize("alpha", ALPHAS)
def test_no_threshold_of_a_manifest_takes_all_memory(alpha: object, run_dir: Path) -> None:
    """Of 1e-9 numpy was asked for 119 GiB. Each is a verdict or a sentence."""
    rewrite(
        run_dir / "manifest.json",
        lambda plain: plain["analysis"].update(thresholds={"alpha": alpha}),
    )
    with undrawn():
        assert report([str(run_dir)]) == (0 if alpha == 1e-9 else 1)
    assert gate([str(run_dir)]) in (1, 5)


def test_thresholds_of_the_runs_own_pass_no_gate_that_asks_for_those_that_ship(
    run_dir: Path, capsys: Capsys
) -> None:
    words = [str(run_dir), "--trust-report", "--format", "json"]
    assert gate([*words, "--rule", "shipped"]) == 5
    rewrite(
        run_dir / "report/verdict.json",
        lambda plain: plain["thresholds"].update(effect_of_interest=0.99),
    )
    capsys.readouterr()
    assert gate(words) == 5
    assert gate([*words, "--rule", "shipped"]) == 1
    assert "effect_of_interest 0.99 (0.05)" in capsys.readouterr().err


# --- tables
# ----------------------------------------------------------------------------------------------------------


TABLES: dict[str, Put] = {
    "a bit": lambda run: flip(run / QUESTIONS),
    "gone": lambda run: (run / QUESTIONS).unlink(),
    "a link": lambda run: ((run / QUESTIONS).rename(run / "q"), (run / QUESTIONS).symlink_to("q")),
    "a pipe": lambda run: ((run / QUESTIONS).unlink(), os.mkfifo(run / QUESTIONS)),
    "a name that leaves the folder": lambda run: rewrite(
        run / "manifest.json", lambda plain: plain["tables"].update({"../q.arrow": "0" * 64})
    ),
    "a number for a hash": lambda run: rewrite(
        run / "manifest.json", lambda plain: plain.update(tables={"q": 1})
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_questions_are_those_that_the_manifest_lists(
    name: str, run_dir: Path, tmp_path: Path
) -> None:
    add_questions(run_dir, listed=True)
    assert gate([str(run_dir), "--trust-report"]) == 5
    TABLES[name](run_dir)
    assert gate([str(run_dir), "--trust-report"]) == 1
    with pytest.raises((ConfigError, ShardError)):
        write_pack(run_dir, tmp_path / "pack.zip", with_shards=True, signer=None)


def test_questions_of_an_earlier_version_are_read_and_said_to_be_unhashed(
    run_dir: Path, keys: Path, tmp_path: Path, capsys: Capsys
) -> None:
    add_questions(run_dir, listed=False)
    assert unhashed_tables(run_dir, Manifest.load(run_dir)) == [QUESTIONS]
    assert gate([str(run_dir), "--trust-report"]) == 5
    assert QUESTIONS in capsys.readouterr().out
    write_pack(
        run_dir, tmp_path / "p.zip", with_shards=True, signer=load_signer(keys / "alice.key")
    )
    assert evidence(["verify", str(tmp_path / "p.zip"), "--keys", str(keys / "trusted")]) == 0
    assert f"run/{QUESTIONS}" in capsys.readouterr().out


# --- decisions in packs
# ----------------------------------------------------------------------------------------------

TAKEN_OUT: dict[str, Put] = {
    "the rejection": lambda run: first(run).unlink(),
    "the rejection, the other in its place": lambda run: (run / "decisions/0002.dsse.json").replace(
        first(run)
    ),
    "the rejection, the other twice": lambda run: shutil.copy(
        run / "decisions/0002.dsse.json", first(run)
    ),
    "garbage": lambda run: (run / "decisions/0003.dsse.json").write_text("{}"),
    "a third with another name": lambda run: shutil.copy(
        first(run), run / "decisions/0003b.dsse.json"
    ),
    "another page": lambda run: (run / "report/report.html").write_text("<h1>All is well</h1>"),
}


@pytest.mark.parametrize("name", TAKEN_OUT)
def test_no_pack_is_made_of_decisions_that_do_not_hold(
    name: str, run_dir: Path, keys: Path, tmp_path: Path
) -> None:
    """With keys and without: order and what is bound need none."""
    assert decided(run_dir, keys, "alice", kind="reject") == 0
    assert decided(run_dir, keys, "bob") == 0
    words = [str(run_dir), "-o", str(tmp_path / "p.zip"), "--unsigned"]
    assert evidence(words) == 0
    TAKEN_OUT[name](run_dir)
    assert evidence(words) == 1
    assert evidence([*words, "--keys", str(keys / "trusted")]) == 1


# --- the reader
# ------------------------------------------------------------------------------------------------------


def test_what_is_nested_or_empty_without_end_is_no_document(tmp_path: Path) -> None:
    """100 levels are read and 101 are not; of 64 MiB at most a sixteenth may be lists."""
    assert parse_json(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH) is not None
    for data in (
        b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1),
        b"[" + b"[]," * 5_000_000 + b"[]]",
    ):
        with pytest.raises(ValueError, match=r"nested|lists"):
            parse_json(data)
    path = tmp_path / "x"
    path.write_bytes(b"12345678")
    assert read_bytes(path, 8) == b"12345678"
    with pytest.raises(OSError, match="more than 7"):
        read_bytes(path, 7)


def test_parquet_of_another_width_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({f"c{k}": [json.dumps(k)] for k in range(3000)}), path)
    with pytest.raises(ConfigError):
        list(read_log(path, Wanted(model="m", columns={})).outcomes)
