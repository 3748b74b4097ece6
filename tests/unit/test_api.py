"""The public functions of the package: what is public, and options that are those of the commands."""

import inspect
from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

import pytest

import audit
from audit import api
from audit.config import SHORT
from audit.errors import ConfigError
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


def test_a_run_that_names_no_model_asks_for_one(tmp_path: Path) -> None:
    for call in (audit.run_sweep, audit.run_memory, audit.run_perturb):
        with pytest.raises(ConfigError, match="No model is named"):
            call(data=tmp_path / "exam.csv")
