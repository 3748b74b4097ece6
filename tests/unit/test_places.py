"""Paths that a person types: a file is not replaced unsaid, and a mistyped path is answered with the
nearest one before anything is loaded or asked."""

import json
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands_here import compare, gate, import_logs, reanalyze, runs, suite
from hypothesis import given
from hypothesis import strategies as st

from audit.commands import COMMANDS, tree
from audit.commands import run as typed
from audit.config.audits import find_audit
from audit.config.command_line import configured
from audit.core.errors import BenchmarkError, ConfigError
from audit.core.guarded_files import nearest_path
from audit.runtime.first_checks import check_start

Capsys = pytest.CaptureFixture[str]
MINE = "kept"
# Each command with the file that it would replace. IT stands for the file, IN for its folder.
WRITES = {
    "leaderboard": ("leaderboard.json", "nowhere.csv --split date=2024 -o IN"),
    "compare": ("changed.html", "nowhere nowhere --out IT"),
    "evidence": ("pack.zip", "nowhere -o IT --unsigned"),
    "variants export": ("texts.jsonl", "elementary IT"),
    "variants review": ("form.html", "elementary --n 3 --out IT"),
    "registry draw": ("new.jsonl", "elementary --n 3 --out IT --registry IN/nowhere.db"),
    "registry trends": ("chart.svg", "--chart IT --registry IN/nowhere.db"),
    "export tasks": ("audit_tasks.py", "n=3 --out IN"),
    "calibrate": ("table.json", "audit=memory --simulations 0 --out IT"),
    "reanalyze": ("reanalysis.json", "--n 0 --out IN"),
    "reanalyze li2026": ("reanalysis.json", "--out IN"),
    "demo": ("verdict.json", "--out IN"),
}
# Further files of those commands, any of which is a person's own until the command has run there.
OTHERS = [
    ("leaderboard", "leaderboard.html"),
    ("leaderboard", "tables/mine.csv"),
    ("leaderboard", "figures/mine.svg"),
    ("reanalyze", "settings.csv"),
    ("demo", "report.html"),
    ("demo", "figures/scores.svg"),
]
SLOW = ("demo", "reanalyze li2026")  # with --force these would draw their figures
# Options that name a place, and why they need no --force.
OTHERWISE = {
    "import": "a run directory refuses another run",
    "plan": "a seal is never replaced",
    "publish": "an order is drawn once",
    "review keygen": "a key is never replaced",
    "registry card": "a card is extended",
    "export inspect": "the file's name is that of the run",
    "export eee": "the file's name is that of the run",
}


@pytest.mark.parametrize("command", WRITES)
def test_a_file_is_replaced_with_force_alone(command: str, tmp_path: Path, capsys: Capsys) -> None:
    name, rest = WRITES[command]
    file = tmp_path / "kept" / name
    file.parent.mkdir()
    file.write_text(MINE)
    words = rest.replace("IT", str(file)).replace("IN", str(file.parent)).split()
    assert typed([*command.split(), *words]) == 1
    assert "--force" in capsys.readouterr().err and file.read_text() == MINE
    if command not in SLOW:
        typed([*command.split(), *words, "--force"])  # most are refused for another reason then
        assert "--force" not in capsys.readouterr().err


@pytest.mark.parametrize(("command", "name"), OTHERS)
def test_any_file_that_a_command_would_replace_needs_force(
    command: str, name: str, tmp_path: Path, capsys: Capsys
) -> None:
    file = tmp_path / "kept" / name
    file.parent.mkdir(parents=True)
    file.write_text(MINE)
    words = WRITES[command][1].replace("IN", str(tmp_path / "kept")).split()
    assert typed([command, *words]) == 1
    assert "--force" in capsys.readouterr().err and file.read_text() == MINE


def parsers(parser: ArgumentParser, name: str) -> Iterator[tuple[str, ArgumentParser]]:
    yield name, parser
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            for word, inner in action.choices.items():
                yield from parsers(inner, f"{name} {word}")


def test_every_command_that_writes_where_a_person_says_has_force_or_a_reason() -> None:
    writing, lacking = set(), set()
    for name in COMMANDS:
        words = [[name], [name, "li2026"]] if name == "reanalyze" else [[name]]
        for typed_words in words:
            (root,) = (a for a in tree(typed_words)._actions if isinstance(a, _SubParsersAction))
            for command, parser in parsers(root.choices[name], name):
                options = set(parser._option_string_actions)
                if options & {"--out", "--chart"}:
                    (writing if "--force" in options else lacking).add(command)
    assert lacking == set(OTHERWISE)
    assert {"leaderboard", "compare", "report", "export hub", "demo"} <= writing


@pytest.mark.usefixtures("no_figures")
def test_a_table_of_ones_own_has_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    from audit.papers.song2026 import shipped

    Path("mine.csv").write_text(shipped("table2_model_router"))
    assert reanalyze(["song2026"]) == 0
    before = Path("outputs/reanalysis/reanalysis.json").read_text()
    assert reanalyze(["mine.csv", "--n", "200"]) == 0
    assert Path("outputs/reanalysis/reanalysis.json").read_text() == before
    assert Path("outputs/reanalysis_mine/reanalysis.json").read_text() != before
    assert reanalyze(["song2026"]) == 0  # the program's own folder


NAMES = st.text("abcdefgh", min_size=5, max_size=9)


@given(NAMES, st.integers(0, 3), st.sampled_from(["drop", "double", "swap", "other"]))
def test_a_mistyped_name_is_answered_with_the_file_that_exists(
    tmp_path_factory: pytest.TempPathFactory, name: str, at: int, mistake: str
) -> None:
    folder = tmp_path_factory.mktemp("n")
    (folder / f"{name}.csv").write_text("")
    (folder / "zzzz").mkdir()
    wrong = {
        "drop": name[:at] + name[at + 1 :],
        "double": name[: at + 1] + name[at:],
        "swap": name[:at] + name[at + 1] + name[at] + name[at + 2 :],
        "other": name[:at] + "x" + name[at + 1 :],
    }[mistake]
    expected = None if wrong == name else folder / f"{name}.csv"
    assert nearest_path(folder / f"{wrong}.csv") == expected
    assert nearest_path(folder / "zzz" / "nothing.csv") is None
    (folder / "zzzz" / "exam.csv").write_text("")
    assert nearest_path(folder / "zzz" / "exam.csv") == folder / "zzzz" / "exam.csv"


QUESTION = '{"question": "1 + 1?", "choices": ["2", "3"], "answer": 0}\n'
SERVED = ["endpoint=http://127.0.0.1:9/v1", "model_id=m"]  # nothing listens there


@pytest.mark.parametrize(
    ("audit", "words", "near"),
    [
        ("sweep", [*SERVED, "data=exma.jsonl"], "exam.jsonl"),
        ("memory", [*SERVED, "data=exam.jsonl", "control_data=unsen.jsonl"], "unseen.jsonl"),
        ("sweep", [*SERVED, "benchmark=mcq_file", "benchmark.path=exam.json"], "exam.jsonl"),
        (
            "memory",
            ["model=scripted", "data=exam.jsonl", "published_order=exam.ordr.json"],
            "exam.order.json",
        ),
        (
            "memory",
            [*SERVED, "data=exam.jsonl", "control_data=unseen.jsonl", "references=[a,runs/mine_]"],
            "runs/mine",
        ),
        (
            "memory",
            [*SERVED, "data=exam.jsonl", "control_data=unseen.jsonl", "references=[a@./rnus/mine]"],
            "runs/mine",
        ),
        (
            "memory",
            ["model=scripted", "control_benchmark=elementary", "references=[rnus/mine]"],
            "runs/mine",
        ),
    ],
)
def test_a_mistyped_file_ends_an_audit_before_its_endpoint_is_asked(
    audit: str, words: list[str], near: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("exam.jsonl", "unseen.jsonl", "exam.order.json"):
        Path(name).write_text(QUESTION)
    Path("runs/mine").mkdir(parents=True)
    Path("runs/mine/manifest.json").write_text("{}")
    with pytest.raises((BenchmarkError, ConfigError), match=rf"Did you mean {near}\?"):
        check_start(find_audit(audit), configured(audit, words))


def test_a_name_with_a_slash_may_be_a_model_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("exam.jsonl").write_text(QUESTION)
    Path("Qwen/Qwen3-14B").mkdir(parents=True)  # weights, and no run
    words = [*SERVED, "data=exam.jsonl", "control_data=exam.jsonl", "references=[Qwen/Qwen3-8B]"]
    assert "Qwen_Qwen3-8B" in configured("memory", words).model
    with pytest.raises(ConfigError, match=r"\./nowhere holds no run"):
        configured("memory", [*words[:-1], "references=[./nowhere]"])


def test_every_reader_names_the_nearest_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runs/mine").mkdir(parents=True)
    Path("seen.csv").write_text("model,item,correct\n")
    Path("suite.json").write_text("{}")
    near_run, near_log = "runs/mine?", "seen.csv?"
    for command, words, near in (
        (gate, ["runs/mnie"], near_run),
        (compare, ["runs/mine_", "runs/mine"], near_run),
        (runs, ["rnus"], "runs?"),
        (import_logs, ["sen.csv", "-o", "out"], near_log),
        (import_logs, ["seen.csv", "--held-out", "seeen.csv", "-o", "out"], near_log),
        (suite, ["sute.json"], "suite.json?"),
        (reanalyze, ["sene.csv", "--out", "out"], near_log),
    ):
        assert command(words) == 1
        assert f"Did you mean {near}" in capsys.readouterr().err, words


def test_a_gate_on_a_log_says_how_a_log_becomes_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("seen.csv").write_text("model,item,correct\n")
    assert gate(["seen.csv"]) == 1
    assert "audit import seen.csv" in capsys.readouterr().err
    Path("run/report").mkdir(parents=True)
    for name in ("run/manifest.json", "run/report/verdict.json"):
        Path(name).write_text("{}")
        assert gate([name]) == 1
        assert capsys.readouterr().err.rstrip().endswith("Example: run")


def test_a_suite_checks_the_files_of_every_audit_before_the_first_one_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("unseen.jsonl").write_text(QUESTION)
    plan = {
        "audit_suite_id": "two",
        "model_config": {"model_id": "scripted", "model_version": "scripted"},
        "dataset_config": {"benchmark_name": "elementary", "sample_size": 5},
        "audits": {"sweep": ["r=1"], "memory": ["control_data=unsen.jsonl"]},
    }
    Path("suite.json").write_text(json.dumps(plan))
    assert suite(["suite.json", "run_dir=out"]) == 1
    assert "Did you mean unseen.jsonl?" in capsys.readouterr().err
    assert not Path("out").exists()
