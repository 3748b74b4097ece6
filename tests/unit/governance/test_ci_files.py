"""The very shell lines of the CI files, run as they stand; only what installs and what needs an
engine is replaced."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from documents import verdict_named
from junitparser import JUnitXml

from audit.commands import tree

ROOT = Path(__file__).resolve().parents[3]
KINDS = ("github-actions.yml", "gitlab-ci.yml", "rayjob-gate.yaml")


def verdict_text(word: str) -> str:
    return json.dumps(verdict_named(word))


def load(name: str) -> Any:
    folder = ROOT / "cluster" / "kuberay" if name.startswith("rayjob") else ROOT / "docs" / "ci"
    return yaml.safe_load((folder / name).read_text())


def test_the_projects_workflow_runs_what_a_contributor_runs() -> None:
    text = (ROOT / ".github/workflows/ci.yml").read_text()
    steps = [step for job in yaml.safe_load(text)["jobs"].values() for step in job["steps"]]
    targets = re.findall(r"\bmake (\w+)", "\n".join(step.get("run", "") for step in steps))
    assert targets == ["check", "docs", "test"]
    assert all(
        re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
        for target in targets
    )
    pinned = [
        re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", step["uses"]) for step in steps if "uses" in step
    ]
    assert pinned and all(pinned)


def shell_lines(name: str) -> tuple[str, dict[str, str]]:
    """The script of a CI file as its service runs it, and its environment."""
    document = load(name)
    if name.startswith("github"):
        (job,) = document["jobs"].values()
        env = {k: v for k, v in job["env"].items() if "${{" not in v} | {"SUITE": "demo"}
        return "\n".join(step["run"] for step in job["steps"] if "run" in step), env
    if name.startswith("gitlab"):
        job = document["benchmark-audit"]
        return "\n".join(job["script"]), job["variables"]
    return document["spec"]["entrypoint"], {}


def run_script(name: str, folder: Path, word: str) -> tuple[int, str, list[str]]:
    """The exit code, the output and what was called by the script in a folder with stubs of `make`,
    the audits and the pack; the gate is the real one."""
    script, env = shell_lines(name)
    (folder / "fake").mkdir()
    log = folder / "called"
    inside = "benchmark-audit" if name.startswith("github") else "."
    python = folder / inside / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(
        f"""#!{sys.executable}
import os, sys, pathlib
open({str(log)!r}, "a").write(" ".join(sys.argv[1:]) + "\\n")
if sys.argv[1:4] == ["-m", "audit", "evidence"]:
    pathlib.Path(sys.argv[6]).write_text("a pack")
    sys.exit(0)
if "audit.sweep" in sys.argv or "suite" in sys.argv:
    (run_dir,) = [word.split("=", 1)[1] for word in sys.argv if word.startswith("run_dir=")]
    report = pathlib.Path(run_dir.replace("/runs", {str(folder)!r})) / "report"
    report.mkdir(parents=True)
    if {word!r}:
        (report / "verdict.json").write_text({verdict_text(word)!r})
    sys.exit({{"excess": 3, "underpowered": 5}}.get({word!r}, 0) if "suite" in sys.argv else 0)
words = [word.replace("/runs", {str(folder)!r}) for word in sys.argv[1:]]
words += ["--trust-report"] * ("gate" in words)  # the stub of the sweep left no answers
os.execv({sys.executable!r}, [{sys.executable!r}, *words])
"""
    )
    python.chmod(0o755)
    (folder / "fake" / "python").symlink_to(python)
    make = folder / "fake" / "make"
    make.write_text(f'#!/bin/sh\necho make "$@" >> {shlex.quote(str(log))}\n')
    make.chmod(0o755)
    summary = folder / "summary.md"
    full = {
        "PATH": f"{folder / 'fake'}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "PYTHONPATH": str(ROOT),
        "GITHUB_STEP_SUMMARY": str(summary),
        **env,
    }
    # As the services do: GitHub `bash -e`, GitLab with errexit and pipefail, Ray `bash -c` in the
    # entrypoint itself.
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script],
        cwd=folder,
        env=full,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.returncode, done.stdout + done.stderr, log.read_text().splitlines()


@pytest.mark.parametrize(
    ("name", "word", "code"),
    [
        pytest.param(KINDS[0], "no_excess_detected", 0, marks=pytest.mark.long),
        (KINDS[0], "excess", 3),
        (KINDS[1], "excess", 3),
        pytest.param(KINDS[0], "underpowered", 5, marks=pytest.mark.long),
        (KINDS[2], "no_excess_detected", 0),
        (KINDS[2], "", 1),  # the sweep left no report
    ],
)
def test_the_lines_run_and_only_a_pass_is_green(
    name: str, word: str, code: int, tmp_path: Path
) -> None:
    exit_code, out, called = run_script(name, tmp_path, word)
    assert exit_code == code, out
    if name.startswith("rayjob"):
        assert called[0].startswith("-m audit.sweep ")
    else:
        assert called[:3] == [
            f"make {'-C benchmark-audit ' if name == KINDS[0] else ''}install ENGINE=cpu",
            "-m audit suite demo run_dir=outputs/candidate",
            "-m audit evidence outputs/candidate -o outputs/pack.zip",
        ]
        assert (tmp_path / "outputs" / "pack.zip").is_file()  # kept whatever the gate says
    if name.startswith("gitlab"):
        xml = JUnitXml.fromstring((tmp_path / "gate.xml").read_bytes())
        assert (xml.tests, xml.failures, xml.errors) == (1, 1, 0)
    if name.startswith("github"):
        assert f"Exit code {code}." in (tmp_path / "summary.md").read_text()
        assert "::error" in out if code else "::notice title=audit gate::decision pass" in out


@pytest.mark.long  # three commands in processes of their own; the file seldom changes
def test_the_workflow_of_logs_keeps_the_evidence_of_a_gate_that_is_red(tmp_path: Path) -> None:
    """Four models of 40 items each: too few for a decision, so the gate ends with 5."""
    steps = {
        step.get("name"): step
        for step in load("github-actions-import.yml")["jobs"]["audit"]["steps"]
    }
    (tmp_path / "logs").mkdir()
    for name in ("seen", "new"):
        lines = ["model,item,correct"]
        for k, model in enumerate(("MODEL", "REF_A", "REF_B", "REF_C")):
            lines += [f"{model},{name}{i},{int((7 * i + k) % 4 > 1)}" for i in range(40)]
        (tmp_path / "logs" / f"{name}.csv").write_text("\n".join(lines))
    codes = []
    for name in ("import", "gate", "pack"):
        line = steps[name]["run"].replace(".venv/bin/python", shlex.quote(sys.executable))
        env = os.environ | {"PYTHONPATH": str(ROOT)}
        done = subprocess.run(["bash", "-e", "-c", line], cwd=tmp_path, env=env, timeout=300)
        codes.append(done.returncode)
    assert codes == [0, 5, 0] and (tmp_path / "outputs" / "pack.zip").is_file()
    assert [name for name, step in steps.items() if step.get("if") == "always()"] == [
        "pack",
        "keep the evidence",
    ]
    files = re.findall(r"benchmark-audit/([\w./-]+)", steps["install"]["run"])
    assert files and all((ROOT / file).is_file() for file in files)


def test_what_the_ci_files_name_is_there_and_pinned() -> None:
    assert (
        tree(["evidence"])
        .parse_args(["evidence", "outputs/candidate", "-o", "outputs/pack.zip"])
        .key
        is None
    )
    suite = yaml.safe_load((ROOT / "conf" / "suite" / "demo.yaml").read_text())
    assert suite["model_config"]["model_version"].startswith("sha256:")
    document = load("github-actions.yml")
    (job,) = document["jobs"].values()
    uses = [step["uses"] for step in job["steps"] if "uses" in step]
    assert uses and all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", use) for use in uses)
    assert "${{" not in shell_lines("github-actions.yml")[0]  # no input is pasted into a script
    assert document["permissions"] == {"contents": "read"}
    assert not any(
        "continue-on-error" in step for step in job["steps"]
    )  # nor may a job fail softly
    assert not {"allow_failure"} & set(load("gitlab-ci.yml")["benchmark-audit"])
