"""`audit.run`, as a notebook has it."""

from pathlib import Path

import pytest
from notebook_cells import NOTEBOOKS, run_cells

import audit
from audit.core.errors import ConfigError


def test_the_first_audit_of_a_notebook(
    driver: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AUDIT_REGISTRY", raising=False)
    monkeypatch.chdir(tmp_path)
    run_cells(NOTEBOOKS / "first_audit.ipynb")
    assert audit.load(tmp_path / "first_audit").manifest.status == "finished"
    assert (tmp_path / "first_audit" / "report" / "report.html").is_file()


def test_what_the_command_refuses_is_an_exception() -> None:
    with pytest.raises(ConfigError, match="modle"):
        audit.run("sweep", model="scripted", modle="scripted")
    with pytest.raises(ConfigError, match="audit sweep plan=true"):
        audit.run("sweep", model="scripted", plan=True)
    with pytest.raises(ConfigError, match="sweeep"):
        audit.run("sweeep")
