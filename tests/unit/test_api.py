"""The public functions of the package: what is public, and options that are those of the
commands."""

import inspect
import re
from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

import pytest

import audit
from audit import api
from audit.commands import tree
from audit.config.base import SHORT, described_models
from audit.core.errors import ConfigError
from audit.memory.config import MemoryConfig
from audit.perturb.config import PerturbConfig
from audit.sweep.config import SweepConfig
from audit.validity.config import ValidityConfig

TYPED = {
    "sweep": (api.SweepOptions, SweepConfig),
    "perturb": (api.PerturbOptions, PerturbConfig),
    "memory": (api.MemoryOptions, MemoryConfig),
    "validity": (api.ValidityOptions, ValidityConfig),
}


def test_the_package_shows_what_is_public_alone() -> None:
    assert dir(audit) == sorted(audit.__all__)
    assert all(hasattr(audit, name) for name in audit.__all__)
    assert issubclass(audit.ConfigError, audit.AuditError)


@pytest.mark.parametrize("name", TYPED)
def test_every_typed_option_is_one_of_the_command_and_completes(name: str) -> None:
    options, config = TYPED[name]
    known = {field.name for field in fields(config)} | set(SHORT)
    names = set(get_type_hints(options))
    assert names <= known, names - known
    shown = inspect.signature(getattr(audit, f"run_{name}")).parameters
    assert set(shown) == names | {"options"}
    with pytest.raises(ConfigError, match="modle"):
        getattr(audit, f"run_{name}")(model="scripted", modle=1)


def test_the_reference_page_shows_all_that_is_public() -> None:
    """mkdocstrings makes it from the docstrings; each public function and error is of a module that
    the page names."""
    page = (Path(__file__).parents[2] / "docs" / "reference" / "python.md").read_text()
    shown = re.findall(r"^::: ([\w.]+)$", page, re.MULTILINE)
    errors = re.findall(
        r"\w+",
        page.partition("::: audit.core.errors")[2].partition("members: [")[2].partition("]")[0],
    )
    for name in audit.__all__:
        public = getattr(audit, name)
        assert public.__module__ in shown and public.__doc__, name
        assert public.__module__ != "audit.core.errors" or name in errors
    assert set(errors) <= set(audit.__all__)


def test_the_models_of_one_call_are_not_those_of_the_next(tmp_path: Path) -> None:
    """A reference that one call describes is unknown to the next, and to Hydra too."""
    rows = "".join(
        f'{{"question": "{k}?", "choices": ["a", "b"], "answer": {k % 2}}}\n' for k in range(4)
    )
    for name in ("exam", "unseen"):
        (tmp_path / f"{name}.jsonl").write_text(rows)
    options = {
        "data": tmp_path / "exam.jsonl",
        "control_data": tmp_path / "unseen.jsonl",
        "run_dir": tmp_path / "run",
    }
    with pytest.raises(audit.AuditError):  # nobody listens there
        audit.run_memory(
            endpoint="http://127.0.0.1:9/v1", model_id="mine", references=["b"], n=4, **options
        )
    assert not {"mine", "b"} & described_models().keys()
    with pytest.raises(ConfigError, match="'b'"):
        audit.run_memory(model="scripted", references=["b"], **options)
    with pytest.raises(ConfigError, match="mine"):
        audit.run_memory(model="mine", **options)


def test_an_import_that_is_refused_raises(tmp_path: Path) -> None:
    with pytest.raises(audit.UsageError, match="--options"):
        audit.import_logs(["log.csv"], tmp_path / "run", options="four")  # type: ignore[typeddict-item]


def test_a_run_that_names_no_model_asks_for_one(tmp_path: Path) -> None:
    for call in (audit.run_sweep, audit.run_memory, audit.run_perturb):
        with pytest.raises(ConfigError, match="No model is named"):
            call(data=tmp_path / "exam.csv")


def test_logs_are_imported_gated_and_compared(tmp_path: Path) -> None:
    """One model without held-out items: no decision (5); against itself nothing changes."""
    rows = "\n".join(f"a,q{k},{k % 2},exam" for k in range(40))
    (tmp_path / "log.csv").write_text(f"model,item,right,benchmark\n{rows}\n")
    run = audit.import_logs([tmp_path / "log.csv"], tmp_path / "run", map={"correct": "right"})
    assert run.verdict().num_rows == 1
    ruling = audit.gate(tmp_path / "run")
    assert (ruling.exit_code, ruling.problem) == (5, "")
    assert audit.gate(tmp_path / "nowhere").problem
    (change,) = audit.compare(tmp_path / "run", tmp_path / "run")
    assert change.changed == 0
    with pytest.raises(audit.ConfigError, match="benchmrk"):
        audit.import_logs(["log.csv"], tmp_path / "b", benchmrk="exam")  # type: ignore[call-arg]
    with pytest.raises(audit.ConfigError, match="judge is empty"):
        audit.import_logs(["log.csv"], tmp_path / "b", judge=[])


def test_typed_options_of_an_import_are_those_of_the_command() -> None:
    words = ["import", "log", "-o", "run"]
    known = set(vars(tree(words).parse_args(words))) - {"logs", "out", "run", "typed"}
    assert set(get_type_hints(api.ImportOptions)) == known
