"""The inputs that were answered worst in the notes of the first hour: each has its exit code and
the line to type."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
import ray
from typed_here import typed

from audit.commands.demo import shipped
from audit.judging.instrument import Indicator
from audit.registry.comparison import CellChange, page
from audit.registry.entry import Cell
from audit.runtime.loading import _as

ROOT = Path(__file__).resolve().parents[2]
ROW = '{{"question": "{}?", "choices": ["3", "4"], "answer": 1}}\n'
OWN = "Nr;Prompt Text;Opt A;Opt B;Opt C;Opt D;Correct Answer;Topic\n1;Where is Oslo?;Norway;Peru;Chad;Fiji;A;geo\n"
PLAN = ("model=scripted", "n=2", "plan=true")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a space that holds what people have."""
    home = tmp_path / "my data"
    for name in ("x/report", "conf/model", "outputs/none"):
        (home / name).mkdir(parents=True)
    rows = "".join(ROW.format(n) for n in range(3))
    (home / "exam.jsonl").write_text(rows)
    (home / "my exam ü (1).jsonl").write_text(rows)
    (home / "own.csv").write_text(
        OWN + OWN.splitlines()[1].replace("1;Where is Oslo", "2;What is far") + "\n"
    )
    (home / "choices.csv").write_text("input,choice1,choice2,target\nq1,a,b,2\nq2,a,b,\n")
    (home / "hostile.jsonl").write_text(ROW.format("\\u001b[2J\\u202eevil"))
    (home / "hostile.csv").write_text("\x1b[2J,\x1b[2J\nq1,a\n")
    (home / "x/report/report.html").write_text("<p>")
    (home / "begun/shards").mkdir(parents=True)
    shutil.copy(shipped() / "manifest.json", home / "begun")
    (home / "conf/model/mine.yaml").write_text("name: mine\nengine: scripted\n")
    return home


WORST = [
    # words; exit code; what is printed
    (["--version"], 0, "audit 0."),
    (["version"], 0, "audit 0."),
    (["sweep", "help"], 0, "audit plan <the same overrides>"),
    (["sweep", "--model", "scripted", "--n", "20"], 2, "Example: audit sweep model=scripted n=20"),
    (["sweep", "--model=scripted", "n=20"], 2, "Example: audit sweep model=scripted n=20"),
    (["sweep", "plan", "model=scripted"], 2, "audit plan audit=sweep model=scripted"),
    (["memory", "scripted"], 2, "Argument is 'scripted'. Expected key=value"),
    (["sweep", "benchmark=/data/ok.jsonl"], 2, "Example: data=/data/ok.jsonl"),
    (
        ["sweep", "benchmark=mcq_file", "benchmark.path=my exam ü (1).jsonl", *PLAN],
        0,
        "questions                     2",
    ),
    (["sweep", "data=my exam ü (1).jsonl", *PLAN], 0, "questions                     2"),
    (
        ["sweep", "data=exam.jsonl", "benchmark.choices_column=[a,b]", *PLAN],
        1,
        "'benchmark.choice_columns=[a,b]'",
    ),
    (["sweep", "data=exam.jsonl", "benchmark.question_column=[a,b]", *PLAN], 1, "Expected a text."),
    (["sweep", "model=[scripted", "n=2"], 1, "'model=[a,b]'"),
    (["perturb", "model=scriptd"], 1, "Unknown model: 'scriptd'. Did you mean 'scripted'?"),
    (["perturb", "model=scripted", "seed=x"], 1, "seed=x does not fit. Expected a whole number."),
    (
        [
            "sweep",
            "model=openai_compatible",
            "model.openai_compatible.endpoints=http://localhost:8000/v1",
        ],
        1,
        "model.openai_compatible.endpoints=[{url: 'http://localhost:8000/v1', model: NAME}]",
    ),
    (["sweep", "verdict.alfa=.05", *PLAN], 1, "Did you mean 'verdict.alpha'?"),
    (["sweep", "model.scriptd.reading=letter", *PLAN], 1, "Did you mean 'model.scripted'?"),
    (["sweep", "model.scripted=5", *PLAN], 1, "such as model.scripted.name="),
    (["sweep", "cost=5", *PLAN], 1, "cost is 5. Expected a name"),
    (["sweep", "model=null"], 1, "model is null. Expected a name"),
    (
        ["sweep", "cost.prices.scripted={prompt: 1, generated: 2}", *PLAN],
        0,
        "questions                     2",
    ),
    (["sweep", "N=20", *PLAN], 1, "Did you mean 'n'?"),
    (["sweep", "model=scripted", "data="], 1, "data= names no file"),
    (
        ["sweep", "hydra.searchpath=[file:///nowhere]", "model=mine"],
        1,
        "Folder /nowhere of hydra.searchpath does not exist",
    ),
    (["sweep", "hydra.searchpath=[file://conf]", "model=mine"], 1, "# @package model.mine"),
    (["sweep", "hydra.searchpath=[file://conf]", "model=mone"], 1, "Did you mean 'mine'?"),
    (
        ["sweep", "model=meta-llama/Llama-3-8B", "n=2"],
        1,
        "For a model of the hub: model=hf:meta-llama/Llama-3-8B",
    ),
    (
        ["sweep", "model=openai_compatible", "model.openai_compatible.name=mymodel"],
        2,
        "Example: endpoint=URL model_id=mymodel",
    ),
    (
        ["plan", "model=scripted", "n=20", "r=1"],
        0,
        "20 questions of elementary are likely too few for a verdict",
    ),
    (["sweep", "data=own.csv", *PLAN], 1, "audit data show own.csv"),
    (["data", "show", "own.csv"], 0, "'benchmark.choice_columns=[Opt A,Opt B,Opt C,Opt D]'"),
    (
        ["data", "show", "own.csv"],
        0,
        "'benchmark.answer_column=Correct Answer' benchmark.group_column=Topic",
    ),
    (["data", "show", "own.csv"], 0, "'benchmark.delimiter=\";\"'"),
    (["data", "show", "choices.csv"], 1, "'benchmark.choice_columns=[choice1,choice2]'"),
    (["data", "show", "choices.csv"], 1, "choices.csv, line 3: the gold answer is empty"),
    (["data", "show", "hostile.jsonl"], 0, "\ufffd[2J\ufffdevil?"),
    (["sweep", "data=hostile.csv", *PLAN], 1, "repeats a column: \ufffd[2J"),
    (
        ["perturb", "data=exam.jsonl", "model=scripted", "n=2"],
        1,
        "audit variants build benchmark=mcq_file benchmark.name=",
    ),
    (["sweep", "-n", "20"], 2, "Example: audit sweep n=20"),
    (["sweep", "-r", "1..9"], 2, "Example: audit sweep r=1..9"),
    (["sweep", "-n=20", "model=scripted"], 2, "Example: audit sweep n=20 model=scripted"),
    (
        ["sweep", "model=scripted", "endpoints=http://localhost:8000/v1"],
        1,
        "Did you mean 'endpoint'?",
    ),
    (
        ["sweep", "endpoint=localhost:8000/v1", "model_id=m"],
        1,
        "Example: endpoint=http://localhost:8000/v1",
    ),
    (["runs", "nowhere"], 1, "my data/nowhere"),
    (["open", "nowhere"], 1, "my data/nowhere"),
    (["report", "x/report/report.html"], 1, "Expected the folder of a run. Example: x"),
    (["gate", "x/report/report.html"], 1, "Expected the folder of a run. Example: x"),
    (["report", "begun"], 1, "begun has no answers yet"),
    (["compare", "x", "outputs"], 1, "x is not a run directory"),
    (["suite", "nosuch.yaml"], 1, "No such file or directory, looked from"),
    (["sweep", "run_dir=/proc/x", "model=scripted", "n=2"], 1, "run_dir=outputs/my_run"),
]
_NEVER = ("Traceback", "full_key", "reference_type", "Lexer", "EOF", "hydra.cc", "Errno", "\x1b[2J")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    WORST,
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_the_answer(words: list[str], code: int, message: str, folder: Path) -> None:
    result = typed(*words, folder=folder)
    printed = result.out + result.err
    assert result.code == code and message in printed, printed
    assert not [sign for sign in _NEVER if sign in printed], printed


def test_what_data_show_says_to_type_is_taken_as_typed(folder: Path) -> None:
    line = typed("data", "show", "own.csv", folder=folder).out.split("To go on:")[1].splitlines()[0]
    words = shlex.split(line)[1:]
    assert words[0] == "plan" and words[-2:] == ["model=scripted", "n=all"]
    assert typed("sweep", *words[1:-1], "n=2", "plan=true", folder=folder).code == 0
    served = ["endpoint=http://127.0.0.1:1/v1", "model_id=m"]
    line = typed("data", "show", "own.csv", *served, folder=folder).out.split("To go on:")[1]
    assert shlex.split(line.splitlines()[0])[-3:] == [*served, "n=all"]


def test_without_its_packages_a_command_says_make_install(tmp_path: Path) -> None:
    """-S: a Python without site-packages, in which omegaconf is not."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    for words in (["-m", "audit", "sweep"], ["-m", "audit.sweep"]):
        done = subprocess.run(
            [sys.executable, "-S", *words],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (
            done.returncode == 1
            and "make install" in done.stderr
            and "Traceback" not in done.stderr
        ), done.stderr


def test_an_endpoint_that_is_not_there_is_refused_before_ray_starts_and_leaves_no_run(
    folder: Path,
) -> None:
    words = [
        "endpoint=http://127.0.0.1:9/v1",
        "model_id=acme/Big",
        "benchmark=elementary",
        "n=2",
        "progress=false",
    ]
    done = typed("sweep", *words, "run_dir=outputs/r", folder=folder)
    assert done.code == 1 and "http://127.0.0.1:9/v1" in done.err
    assert not ray.is_initialized()
    assert not (folder / "outputs" / "r").exists()


def test_a_table_of_answers_has_booleans_that_may_be_missing_and_a_comparison_has_scores_in_per_cent() -> (
    None
):
    table = _as(pa.table({"correct": [True, None]}), "pandas")
    assert str(table["correct"].dtype) == "boolean" and table["correct"].isna().tolist() == [
        False,
        True,
    ]
    cell = Cell("m", "exam", "", "", "", 100, "excess", "", "", True, {}, None, None, ())
    figures = (("score", "", Indicator("score", 0.225), Indicator("score", 0.5)),)
    text = page(
        [CellChange("sweep", (cell,), (cell,), None, (), (), figures, 0, ())], Path("a"), Path("b")
    )
    assert ">22.5 %<" in text and "points</td>" not in text
