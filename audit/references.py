"""Models that an audit compares with: run in the same job, or taken from earlier runs (`references=[...]`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from audit.config import RunConfig, known_models, load_model_config
from audit.engines.config import ModelConfig
from audit.errors import ConfigError, unknown_name
from audit.shards.working_copy import need_folder

if TYPE_CHECKING:  # it needs Arrow, and a refused override does not
    from audit.shards.manifest import Manifest


@dataclass
class ReferencedConfig(RunConfig):
    """What can be set of an audit that has references: names of models, and directories of runs."""

    references: list[str] = field(default_factory=list)


def with_references(config: ReferencedConfig) -> dict[str, ModelConfig]:
    """The run's models, and the references that are models. ConfigError where one is unknown, or none is judged."""
    models = dict(config.model)
    for one in config.references:
        if one in models or _is_run(one):
            continue
        need_folder(one, "A reference")
        if one not in known_models():
            raise unknown_name("reference (a model, or the directory of a run)", one, {*config.model, *known_models()})
        models[one] = load_model_config(one)
    if models and not set(models) - set(config.references):
        raise ConfigError("Every model is a reference: none is judged. Expected model=<name> beside 'references=[..]'.")
    return models


def judged(config: ReferencedConfig) -> list[str]:
    """The models that are judged; the others of the run are references."""
    return [name for name in config.model if name not in config.references]


def reference_dirs(config: ReferencedConfig) -> list[Path]:
    """References that are earlier runs, as absolute paths."""
    return [Path(one).resolve() for one in config.references if _is_run(one)]


def reference_runs(
    paths: Sequence[Path], audit: str, benchmark: str, own: Sequence[str] = ()
) -> Iterator[tuple[Path, Manifest]]:
    """The manifests of reference runs, for what an audit checks of its own. own: reference models of the run itself.

    ConfigError where a run is of another audit or benchmark, or unfinished, or where a model occurs twice: two runs of
    one model are not two references.
    """
    from audit.shards.manifest import Manifest

    found = Counter(own)
    for path in paths:
        manifest = Manifest.load(path)
        if manifest.audit != audit:
            raise ConfigError(f"Reference {path} is a run of audit {manifest.audit or 'unknown'}; expected {audit}.")
        if benchmark not in manifest.benchmark:
            raise ConfigError(
                f"Reference {path} is of {', '.join(manifest.benchmark) or 'no benchmark'}; expected {benchmark}."
            )
        if manifest.status != "finished":
            raise ConfigError(f"Reference {path} is {manifest.status}. Type its command again to finish it.")
        yield path, manifest
        found.update(list(manifest.models))
    for name, times in found.items():
        if times > 1:
            raise ConfigError(
                f"Reference model {name} is given {times} times: runs of one model are one reference. Leave out all "
                "but one."
            )


def _is_run(reference: str) -> bool:
    from audit.shards.manifest import MANIFEST

    return (Path(reference) / MANIFEST).is_file()
