"""A panel is decided on and packed as one, with every run that it is of."""

import base64
import json
import shutil
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from audit.commands.evidence import main as evidence
from audit.commands.gate import main as gate
from audit.commands.report import main as report
from audit.commands.review import main as review
from audit.decision import failed
from audit.governance.reviews import bound_to
from audit.panel import write_panel

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)


@pytest.fixture
def panel(run_dir: Path, tmp_path: Path) -> Path:
    """A panel of one run, with that run's report as its own."""
    folder = tmp_path / "panel"
    shutil.copytree(run_dir / "report", folder / "report")
    write_panel(folder, [run_dir])
    return folder


def test_a_decision_on_a_panel_binds_every_run_of_it(
    panel: Path, run_dir: Path, keys: Path, capsys: pytest.CaptureFixture
) -> None:
    trusted = ["--keys", str(keys / "trusted")]
    assert gate([str(panel), *trusted], NOW) == 4
    assert review(["list", str(panel.parent), *trusted], NOW) == 0
    listed = capsys.readouterr().out
    assert "1 of 1 runs" in listed  # its run is decided on with it
    words = ["--reason", "for the demo", "--expires", "2026-12-31", *trusted]
    assert review(["override", str(panel), *words, "--key", str(keys / "carol.key")], NOW) == 0
    assert gate([str(panel), *trusted], NOW) == 4  # who ran one of its runs does not decide alone
    assert review(["override", str(panel), *words, "--key", str(keys / "alice.key")], NOW) == 0
    assert gate([str(panel), *trusted], NOW) == 0
    told = json.loads(base64.b64decode(json.loads((panel / "decisions/0001.dsse.json").read_text())["payload"]))
    assert told["predicate"]["models"] == {"../run": {"m": "abc123"}} and told["predicate"]["run"] == {"../run": "f00"}
    manifest = json.loads((run_dir / "manifest.json").read_text())
    (run_dir / "manifest.json").write_text(json.dumps({**manifest, "platform": "another"}))
    assert gate([str(panel), *trusted], NOW) == 1
    assert "another ../run/manifest.json" in capsys.readouterr().err


def test_runs_of_one_name_are_all_bound(panel: Path, run_dir: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(run_dir, tmp_path / "elsewhere" / run_dir.name))
    write_panel(panel, [run_dir, other])
    bound = bound_to(panel, panel / "report" / "verdict.json", failed("panel", ""))
    assert {"../run/manifest.json", "../elsewhere/run/manifest.json"} < set(bound.subjects)
    assert set(bound.facts["models"]) == {"../run", "../elsewhere/run"}


@pytest.mark.usefixtures("no_figures")
def test_the_pack_of_merged_runs_has_each_of_them_and_its_verdict_is_computed_again(
    run_dir: Path, other: Path, keys: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    pack, panel, trusted = tmp_path / "pack.zip", tmp_path / "merged", ["--keys", str(keys / "trusted")]
    sign = ["-o", str(pack), "--key", str(keys / "alice.key"), "--with-shards"]
    assert report([str(run_dir), str(other), "--out", str(panel)]) == 0
    assert evidence([str(panel), *sign]) == 0
    assert evidence(["verify", str(pack), *trusted]) == 0
    assert "computed again from the shards: the same bytes" in capsys.readouterr().out
    with zipfile.ZipFile(pack) as archive:
        names = set(archive.namelist())
    both = {f"run/{run}/{file}" for run in ("run", "other") for file in ("manifest.json", "shards.json")}
    assert both | {"run/panel.json", "run/report/verdict.json", "run/report/report.html"} <= names
    data = pack.read_bytes()
    at = data.index(b'"fingerprint"', data.index(b"run/run/manifest.json"))
    pack.write_bytes(data[:at] + b"\x01" + data[at + 1 :])
    assert evidence(["verify", str(pack), *trusted]) == 1
    assert "manifest.json" in capsys.readouterr().err
    # Whoever holds a key and writes other verdicts, of the panel and of one of its runs, is found by the shards.
    texts = {path: path.read_text() for path in (panel / "verdict.json", run_dir / "report" / "verdict.json")}
    for path, text in texts.items():
        path.write_text(text.replace('"underpowered"', '"no_excess_detected"'))
    assert evidence([str(panel), *sign]) == 0
    assert evidence(["verify", str(pack), *trusted]) == 1
    assert "(run/report/verdict.json, run/run/report/verdict.json)" in capsys.readouterr().err
    for path, text in texts.items():
        path.write_text(text)
    shutil.copy(panel / "verdict.json", run_dir / "report")
    assert evidence([str(panel), *sign]) == 1 and "2 runs together" in capsys.readouterr().err


def test_a_folder_of_several_runs_is_told_the_command_that_reports_them(
    run_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_panel(tmp_path / "panel", [run_dir])
    assert report([str(tmp_path / "panel")]) == 1
    assert f"audit report {tmp_path / 'panel'}" in (said := capsys.readouterr().err) and "--out" in said
