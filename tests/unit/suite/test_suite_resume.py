"""What a suite takes for done, and what it refuses to go on with."""

import json
import shutil
from pathlib import Path

import pytest
from suites import suite

from audit.core.errors import ConfigError
from audit.shards.manifest import Manifest
from audit.suite.commands import Step, audit_words, steps
from audit.suite.run import SUITE, _open, _run_all, finished, run_dir_of
from audit.suite.schema import Suite

MODEL = {"name": "scripted", "stated": "scripted", "found": "scripted", "claimed": False}


def planned(definition: Suite, run_dir: Path, *more: str) -> list[Step]:
    return steps(definition, audit_words(definition, more), str(run_dir))


def test_a_run_is_done_only_as_the_one_that_the_suite_saw_finish(tmp_path: Path) -> None:
    Manifest("mine", {}, audit="perturb", status="finished").save(tmp_path)
    assert not finished(tmp_path, None)  # somebody else's run that lies there
    assert not finished(tmp_path, "other")
    assert not finished(tmp_path, "mine")  # its shards are gone
    assert not finished(tmp_path / "nowhere", "mine")


@pytest.mark.long  # seven CPU seconds; tests/pipeline/test_suite.py resumes a suite
def test_a_directory_goes_on_with_its_own_suite_alone(tmp_path: Path) -> None:
    definition = suite()
    state = _open(definition, planned(definition, tmp_path), tmp_path, MODEL)
    assert (
        state["finished"] == {}
        and _open(definition, planned(definition, tmp_path), tmp_path, MODEL) == state
    )
    # where and how fast it runs may change, and what is done is kept
    (tmp_path / SUITE).write_text(json.dumps({**state, "finished": {"perturb": "f"}}))
    tuned = planned(
        definition, tmp_path, "progress=false", "model.scripted.replicas=2", "cost.gpu_hour=2.5"
    )
    assert _open(definition, tuned, tmp_path, MODEL)["finished"] == {"perturb": "f"}
    for changed, plan, model, field in (
        (suite(gate="source"), planned(definition, tmp_path), MODEL, "suite.gate"),
        (definition, planned(definition, tmp_path, "n=21"), MODEL, "words.perturb"),
        (definition, planned(definition, tmp_path, "verdict.power=0.9"), MODEL, "words.perturb"),
        (definition, planned(definition, tmp_path), {**MODEL, "found": "other"}, "model.found"),
    ):
        with pytest.raises(ConfigError, match=f"contains another suite.*{field}"):
            _open(changed, plan, tmp_path, model)
    (tmp_path / SUITE).write_text(json.dumps({**state, "note": ""}))
    with pytest.raises(ConfigError, match="note"):
        _open(definition, planned(definition, tmp_path), tmp_path, MODEL)
    damaged = [
        "{",
        "[]",
        *(json.dumps({**state, "finished": done}) for done in ("", [], ["ab"], 5, None)),
    ]
    for text in damaged:
        (tmp_path / SUITE).write_text(text)
        with pytest.raises(ConfigError, match="cannot be read"):
            _open(definition, planned(definition, tmp_path), tmp_path, MODEL)
    shutil.rmtree(tmp_path)


def test_the_same_suite_and_words_give_the_same_directory() -> None:
    def folder(definition: Suite, *more: str) -> str:
        return run_dir_of(definition, audit_words(definition, more)).name

    assert folder(suite()) == folder(suite()) == folder(suite(), "progress=false")
    assert len({folder(suite()), folder(suite(gate="source")), folder(suite(), "n=3")}) == 3


def test_why_an_audit_did_not_run_holds_nothing_that_a_terminal_obeys(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [step, *_] = planned(suite(), tmp_path)
    step.config.benchmark.path = "\x1b[2J"
    state = {"finished": {}}
    assert _run_all([step], {step.audit: tmp_path / "run"}, state, tmp_path / SUITE) == [step.audit]
    message = capsys.readouterr().err
    assert (
        "\nerror: " in message
        and "\N{REPLACEMENT CHARACTER}[2J" in message
        and "\x1b" not in message
    )
