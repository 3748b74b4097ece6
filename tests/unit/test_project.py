"""audit.yaml of a folder: what it adds to a command, that the command's words win, and what it may
not hold."""

import io
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from commands_here import init
from documents import cell_of, verdict_of_cells
from hypothesis import given, settings
from hypothesis import strategies as st
from suites import small
from typed_here import typed

import audit
from audit.config.project import (
    KEYS,
    PROJECT,
    check_project,
    project_text,
    read_project,
    with_project,
)
from audit.core.errors import ConfigError
from audit.registry.database import open_registry

FULL = {
    "endpoint": "http://127.0.0.1:9/v1",
    "model_id": "mine",
    "api_key_env": "MY_KEY",
    "data": "exam.csv",
    "control_data": "unseen.csv",
    "references": ["b", "c@http://127.0.0.1:8/v1"],
    "registry": "runs.db",
}


def written(folder: Path, values: Any) -> Path:
    (folder / PROJECT).write_text(yaml.safe_dump(values))
    return folder


def added(folder: Path, command: str, *words: str) -> dict[str, str]:
    extended, _ = with_project(words, command, folder)
    assert extended[len(extended) - len(words) :] == list(words)
    return dict(word.split("=", 1) for word in extended[: len(extended) - len(words)])


@pytest.mark.parametrize(
    ("command", "keys"),
    [
        ("memory", KEYS),
        ("perturb", ("endpoint", "model_id", "api_key_env", "data", "references", "registry")),
        ("sweep", ("endpoint", "model_id", "api_key_env", "data", "registry")),
        ("validity", ("endpoint", "model_id", "api_key_env", "data", "registry")),
        ("variants", ("endpoint", "model_id", "api_key_env", "data")),
        ("suite", ("registry",)),
        ("registry", ("registry",)),
    ],
)
def test_a_command_takes_what_it_knows(tmp_path: Path, command: str, keys: tuple[str, ...]) -> None:
    options = added(written(tmp_path, FULL), command)
    assert set(options) == set(FULL) & set(keys)
    assert options.get("references", "[b,c@http://127.0.0.1:8/v1]") == "[b,c@http://127.0.0.1:8/v1]"


@pytest.mark.parametrize(
    ("word", "gone"),
    [
        ("model=scripted", {"endpoint", "model_id", "api_key_env"}),
        ("endpoint=http://127.0.0.1:7/v1", {"endpoint", "model_id", "api_key_env"}),
        ("model_id=other", {"model_id"}),
        ("api_key_env=OTHER", {"api_key_env"}),
        ("data=other.csv", {"data"}),
        ("benchmark=mmlu", {"data"}),
        ("control_benchmark=gsm1k", {"control_data"}),
        ("fresh_after=2024-06", {"control_data"}),
        ("references=[d]", {"references"}),
        ("registry=null", {"registry"}),
        ("n=20", set()),
        ("benchmark.id_column=id", set()),
    ],
)
def test_the_words_of_a_command_have_the_last_say(
    tmp_path: Path, word: str, gone: set[str]
) -> None:
    assert set(added(written(tmp_path, FULL), "memory", word)) == set(FULL) - gone


def test_without_a_file_and_for_help_nothing_is_added(tmp_path: Path) -> None:
    assert with_project(["n=5"], "sweep", tmp_path) == (["n=5"], "")
    assert with_project(["--help"], "sweep", written(tmp_path, FULL)) == (["--help"], "")


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.dates(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=8), JUNK, max_size=5) | JUNK)
@settings(max_examples=300, deadline=None)
def test_whatever_it_holds_is_taken_whole_or_refused(values: Any) -> None:
    try:
        checked = check_project(values)
    except ConfigError as error:
        assert "Expected" in str(error) or "Known" in str(error)
        return
    assert set(checked) <= set(KEYS)
    assert (
        check_project(yaml.safe_load(project_text(checked)) or {}) == checked
    )  # as `audit init` writes it
    for key, value in checked.items():
        assert value == values[key] or value == [values[key]] or [value] == values[key]


@pytest.mark.parametrize(
    "text",
    [
        "model: [a",
        "a: &x [1]\nb: *x",
        "model: a\nmodel: b",
        "- a",
        "7",
        "x" * 70_000,
        "\0",
        "[" * 5_000,
        "api_key: sk-1234567890123456",
        "api_key_env: sk-12345678901234567",
        "endpoint: http://u:pw@h/v1",
        "endpoint: http://h/v1?api_key=abcdefgh",
        "data: ${oc.env:HOME}",
        'data: "a\\nb"',
        "model: a,b",
        "model: '{a}'",
        "api_key_env: 'MY KEY'",
        "model_id: alone",
        "endpoint: http://h/v1",
        "data: a.csv\nbenchmark: mmlu",
        "hydra.searchpath: [x]",
        "run_dir: /etc",
    ],
)
def test_a_wrong_file_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / PROJECT).write_text(text)
    with pytest.raises(ConfigError) as error:
        read_project(tmp_path)
    assert PROJECT in str(error.value) and len(str(error.value)) < 700
    assert "12345678901234567" not in str(error.value) and "pw@" not in str(error.value)


def test_no_link_or_pipe_is_read(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("data: a.csv")
    (tmp_path / PROJECT).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="link"):
        read_project(tmp_path)
    (tmp_path / PROJECT).unlink()
    os.mkfifo(tmp_path / PROJECT)
    with pytest.raises(ConfigError, match="not a regular file"):
        read_project(tmp_path)


def answers(monkeypatch: pytest.MonkeyPatch, *given_: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{answer}\n" for answer in given_)))


@pytest.mark.parametrize(
    ("replies", "expected"),
    [
        (
            ("http://127.0.0.1:9/v1", "mine", "exam.csv", "b, c", "runs.db"),
            {
                "endpoint": "http://127.0.0.1:9/v1",
                "model_id": "mine",
                "data": "exam.csv",
                "references": ["b", "c"],
                "registry": "runs.db",
            },
        ),
        (("qwen3_8b", "mmlu", "", ""), {"model": "qwen3_8b", "benchmark": "mmlu"}),
    ],
)
def test_init_asks_and_writes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    replies: tuple[str, ...],
    expected: dict[str, Any],
) -> None:
    monkeypatch.chdir(tmp_path)
    answers(monkeypatch, *replies)
    assert init([]) == 0 and read_project(tmp_path) == expected
    assert (
        init([]) == 1 and read_project(tmp_path) == expected
    )  # it replaces no file unless it is told to


def test_init_takes_its_answers_from_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answers(monkeypatch)
    options = {
        k.replace("_", "-"): ",".join(v) if isinstance(v, list) else v for k, v in FULL.items()
    }
    assert init(["--yes", *(word for k, v in options.items() for word in (f"--{k}", v))]) == 0
    assert read_project(tmp_path) == FULL
    assert init(["--yes", "--force"]) == 2 and read_project(tmp_path) == FULL  # no model is named
    assert init(["--yes", "--force", "--model", "a", "--api-key-env", "sk-12345678901234567"]) == 1


@pytest.mark.parametrize(
    ("options", "then"),
    [
        (["--model", "qwen3_8b"], "next: audit plan"),
        (
            ["--endpoint", "http://127.0.0.1:8000/v1", "--model-id", "m", "--data", "exam.csv"],
            "next: audit plan audit=memory control_data=unseen.csv 'references=[ref-a,ref-b,ref-c]'",
        ),
    ],
)
def test_init_ends_in_the_plan_of_the_audit_that_suits(
    options: list[str],
    then: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert init(["--yes", *options]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == then


def test_init_without_answers_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answers(monkeypatch)
    assert init([]) == 2 and not (tmp_path / PROJECT).exists()


def test_a_plan_in_the_folder_is_about_its_model(tmp_path: Path) -> None:
    exam(tmp_path)
    written(tmp_path, {"model": "scripted", "data": "exam.jsonl"})
    done = typed("plan", "audit=sweep", "--json", folder=tmp_path)
    assert done.code == 0, done.err
    (plan,) = json.loads(done.out)["plans"]
    assert (plan["model"], plan["benchmark"]) == ("scripted", "exam")
    assert PROJECT in done.err


def exam(folder: Path, n: int = 4) -> Path:
    """Write a file of questions, and return it."""
    row = {"question": "Which?", "choices": ["a", "b"], "answer": 0}
    rows = [row | {"question": f"Which of {i}?"} for i in range(n)]
    (folder / "exam.jsonl").write_text("".join(json.dumps(question) + "\n" for question in rows))
    return folder / "exam.jsonl"


def test_a_suite_takes_the_registry_and_nothing_that_it_pins(tmp_path: Path) -> None:
    """Its own registry and that of a command stay; the suite's model and questions do too."""
    written(tmp_path, FULL)
    suite = small(audits={"sweep": ["registry=own.db"], "memory": [], "perturb": []})
    (tmp_path / "suite.json").write_text(json.dumps(suite))
    done = typed("suite", "suite.json", "plan=true", "memory.registry=word.db", folder=tmp_path)
    assert done.code == 0, done.err
    assert f"{PROJECT}: registry=runs.db" in done.err
    shown = [line for line in done.out.splitlines() if "registry=" in line]
    assert [re.findall(r"registry=(\S+)", line) for line in shown] == [
        ["own.db"],
        ["word.db"],
        ["runs.db"],
    ]
    assert "127.0.0.1:9" not in done.out and "exam.csv" not in done.out
    named = typed("suite", "suite.json", "plan=true", "registry=all.db", folder=tmp_path)
    assert named.out.count("registry=all.db") == 3 and PROJECT not in named.err


def test_the_registry_commands_open_the_registry_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--registry wins over the file, and the file over AUDIT_REGISTRY, as at a run."""
    for name in ("file.db", "word.db", "variable.db"):
        open_registry(str(tmp_path / name), make=True)
    written(tmp_path, {"model": "scripted", "registry": "file.db"})
    monkeypatch.setenv("AUDIT_REGISTRY", "missing.db")
    done = typed("registry", "list", folder=tmp_path)
    assert done.code == 0 and f"{PROJECT}: registry=file.db" in done.err
    gone = typed("registry", "list", "--registry", "missing.db", folder=tmp_path)
    assert gone.code == 1 and PROJECT not in gone.err
    (tmp_path / PROJECT).unlink()
    assert typed("registry", "list", folder=tmp_path).code == 1


def test_the_gate_reads_no_project_file(tmp_path: Path) -> None:
    """A pull request that adds audit.yaml changes neither what a gate compares with nor where its
    passwords go: not even a broken file is noticed."""
    report = tmp_path / "run" / "report"
    report.mkdir(parents=True)
    cells = [cell_of("excess")]
    (report / "verdict.json").write_text(json.dumps(verdict_of_cells(cells, rows=[])))
    words = ("gate", "run", "--trust-report")
    before = typed(*words, folder=tmp_path)
    assert before.code == 3
    for text in ("registry: elsewhere.db\nmodel: scripted\n", "- broken"):
        (tmp_path / PROJECT).write_text(text)
        assert typed(*words, folder=tmp_path) == before


def test_a_python_call_is_about_the_folders_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """The file names the server and the questions; an argument has the last say."""
    monkeypatch.chdir(tmp_path)
    exam(tmp_path)
    nobody = "http://127.0.0.1:9/v1"  # nothing listens there
    written(tmp_path, {"endpoint": nobody, "model_id": "mine", "data": "exam.jsonl"})
    with pytest.raises(audit.AuditError):
        audit.run_memory(n=4, run_dir=tmp_path / "run")
    words = set(capsys.readouterr().err.splitlines()[0].split())
    assert words == {f"{PROJECT}:", f"endpoint={nobody}", "model_id=mine", "data=exam.jsonl"}
    with pytest.raises(ConfigError, match="other"):
        audit.run_memory(model="other", data="exam.jsonl")
    assert PROJECT not in capsys.readouterr().err
