"""Reference sets: answers of many models to one benchmark, imported once and held to a hash; and the choice from one.

A set is the directory of an imported run in which no model is judged, with `set.json` beside its manifest. It lies in
the folder that AUDIT_REFERENCES names, or in the user's cache.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.benchmarks.fresh import is_newer
from audit.errors import ConfigError, DataError, unknown_name

if TYPE_CHECKING:
    from audit.shards.manifest import Manifest

PREFIX = "set:"
ABOUT = "set.json"
JOINED_MIN = 0.90  # share of the items in question that an imported model must hold
DEFAULT_COUNT = 8  # references: the most that the calibration of every audit simulates


@dataclass(frozen=True)
class SetModel:
    """One model of a set. accuracy: over its parsed answers (0-1). answers: items asked; unparsed: of them."""

    name: str
    accuracy: float
    answers: int
    unparsed: int
    released: str | None = None
    family: str | None = None


@dataclass(frozen=True)
class ReferenceSet:
    """A set as found. version: a hash of all its answers. source, licence: of the published answers, in words."""

    name: str
    path: Path
    version: str
    benchmark: str
    source: str
    licence: str
    models: tuple[SetModel, ...]


def sets_folder() -> Path:
    """Where sets lie: AUDIT_REFERENCES, or a folder of the user's cache."""
    if given := os.environ.get("AUDIT_REFERENCES"):
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "benchmark-audit" / "references"


def known_sets() -> list[str]:
    """Names of the sets that are here."""
    return sorted(path.parent.name for path in sets_folder().glob(f"*/{ABOUT}"))


def load_set(name: str) -> ReferenceSet:
    """A set by name, its shards held to their hashes. ConfigError where there is none, DataError where one differs."""
    from audit.shards.complete import listed_shards
    from audit.shards.manifest import Manifest

    path = sets_folder() / name
    if name not in known_sets():
        raise unknown_name(f"reference set (in {sets_folder()}; audit references build makes one)", name, known_sets())
    try:
        about = json.loads((path / ABOUT).read_text(encoding="utf-8"))
        models = tuple(SetModel(**one) for one in about.pop("models"))
        found = ReferenceSet(path=path, models=models, **about)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(f"{path / ABOUT} cannot be read ({error!r}). Build the set again.") from error
    manifest = Manifest.load(path)
    listed_shards(path, manifest)
    if version_of(manifest) != found.version:
        raise DataError(f"Reference set {name} has other answers than version {found.version}. Build it again.")
    return found


def version_of(manifest: Manifest) -> str:
    """16 hex digits: a hash of the shards' hashes and of what was asked."""
    told = {"shards": sorted(one["sha256"] for one in manifest.shards), "ids": manifest.sampled_ids}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def save_about(one: ReferenceSet) -> None:
    told: dict[str, Any] = asdict(one)
    del told["path"]
    (one.path / ABOUT).write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def choose(
    models: Sequence[SetModel], families: Collection[str], count: int = DEFAULT_COUNT, before: str | None = None
) -> tuple[str, ...]:
    """Names of `count` models that hold nearly all items, spread evenly over the set's accuracies, so that they bracket
    a model within them.

    families: of the tested models, which are left out; a model whose family is not known stays. before: those released
    by then alone. A second model of a family is taken where no other is near. No answer of a tested model is looked at.
    ConfigError where no family is known at all, or fewer than three models are left.

    >>> few = [SetModel(name, accuracy, 9, 0) for name, accuracy in (("a", 0.2), ("b", 0.5), ("c", 0.6), ("d", 0.9))]
    >>> choose(few, (), 3)
    ('a', 'b', 'd')
    """
    shut = {one.casefold() for one in families}
    if shut and not any(one.family for one in models):
        raise ConfigError(
            "The set does not say of which family its models are, so kin of the tested model could not be left out. "
            "Expected a set built with families: audit references build ... --facts models.csv"
        )
    whole = JOINED_MIN * max((one.answers for one in models), default=0)
    left = [one for one in models if (one.family or "").casefold() not in shut and one.answers >= whole]
    if before is not None:
        left = [one for one in left if one.released is not None and is_newer(before, one.released)]
    left.sort(key=lambda one: (one.accuracy, one.name))
    if len(left) < 3:
        raise ConfigError(
            f"The set has {len(left)} models of other families than {', '.join(sorted(families))}"
            f"{f', released before the held-out items of {before}' if before else ''}; expected 3 or more. "
            "Name another set, or references of your own: 'references=[qwen3_8b,mistral_7b]'."
        )
    count = min(count, len(left))
    step = (len(left) - 1) / (count - 1)
    chosen = [0, len(left) - 1]  # the weakest and the best bracket whatever is between them
    for k in range(1, count - 1):
        taken = {left[i].family for i in chosen} - {None}
        nearest = sorted(set(range(len(left))) - set(chosen), key=lambda i: (abs(i - k * step), i))
        near = [i for i in nearest if abs(i - k * step) <= step / 2 and left[i].family not in taken]
        chosen.append((near or nearest)[0])
    return tuple(left[i].name for i in sorted(chosen))
