"""Resolve the models that an audit compares with: run in the same job, or taken from earlier runs
(`references=[...]`).

RUN_DIR stands for the references of that run. A model that the run judged is named: MODEL@RUN_DIR.
set:NAME is a reference set: the directory of an imported run in which no model is judged, with
`set.json` beside its manifest. It lies in the folder that AUDIT_REFERENCES names, or in the user's
cache. Some of its models are chosen.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.benchmarks.fresh import Origin, is_newer, last_date
from audit.benchmarks.rows import text_key
from audit.config.base import RunConfig, described_models, known_models, load_model_config
from audit.core.errors import ConfigError, DataError, check_known, unknown_name
from audit.core.guarded_files import read_json
from audit.core.number_text import percent
from audit.engines.config import ModelConfig
from audit.shards.working_copy import need_folder

if TYPE_CHECKING:  # it needs Arrow, and a refused override does not
    from audit.core.records import Item
    from audit.shards.manifest import Manifest

PREFIX = "set:"
ABOUT = "set.json"
JOINED_MIN = 0.90  # share of the items that it must hold
DEFAULT_COUNT = 8  # the most that calibrations simulate


@dataclass(frozen=True)
class SetModel:
    """Describe one model of a reference set.

    accuracy: over its parsed answers (0-1). answers: number of its items. unparsed: number of its
    unparsed answers.
    """

    name: str
    accuracy: float
    answers: int
    unparsed: int
    released: str | None = None
    family: str | None = None


@dataclass(frozen=True)
class ReferenceSet:
    """Describe a reference set.

    version: a hash of all its answers. source, licence: of the published answers, in words.
    """

    name: str
    path: Path
    version: str
    benchmark: str
    source: str
    licence: str
    models: tuple[SetModel, ...]


def sets_folder() -> Path:
    """Return the folder of reference sets: AUDIT_REFERENCES, or a folder of the user's cache."""
    if given := os.environ.get("AUDIT_REFERENCES"):
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "benchmark-audit" / "references"


def known_sets() -> list[str]:
    """Return the names of the sets that exist here."""
    return sorted(path.parent.name for path in sets_folder().glob(f"*/{ABOUT}"))


def load_set(name: str) -> ReferenceSet:
    """Load a reference set by name.

    Raises ConfigError if it does not exist, and DataError if a shard does not have its hash.
    """
    from audit.shards.complete import listed_shards

    path = sets_folder() / name
    check_known(
        f"reference set (in {sets_folder()}; audit references build makes one)", name, known_sets()
    )
    try:
        about = read_json(path / ABOUT)
        models = tuple(SetModel(**one) for one in about.pop("models"))
        found = ReferenceSet(path=path, models=models, **about)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(
            f"{path / ABOUT} cannot be read ({error!r}). Build the set again."
        ) from error
    manifest = _manifest(path)
    listed_shards(path, manifest)
    if version_of(manifest) != found.version:
        raise DataError(
            f"Reference set {name} has other answers than version {found.version}. Build it again."
        )
    return found


def version_of(manifest: Manifest) -> str:
    """Return 16 hex digits: a hash of the shards' hashes and of the requests."""
    facts = {
        "shards": sorted(one["sha256"] for one in manifest.shards),
        "ids": manifest.sampled_ids,
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def save_about(reference_set: ReferenceSet) -> None:
    facts = {key: value for key, value in asdict(reference_set).items() if key != "path"}
    (reference_set.path / ABOUT).write_text(
        json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )


def choose(
    models: Sequence[SetModel],
    families: Collection[str],
    count: int = DEFAULT_COUNT,
    before: str | None = None,
) -> tuple[str, ...]:
    """Choose reference models from a set, spread evenly over its accuracies.

    Parameters
    ----------
    models : sequence of SetModel
        The models of the set. Only those that hold nearly all items are candidates.
    families : collection of str
        Families of the tested models, which are left out. A model of unknown family stays.
    count : int
        The number of models to choose.
    before : str, optional
        Only models that were released before this date are candidates.

    Returns
    -------
    tuple of str
        Names. A second model of a family is chosen only if no other is near.

    Raises
    ------
    ConfigError
        If no family is known, or fewer than three models are left.

    Notes
    -----
    No answer of a tested model is used.

    Examples
    --------
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
    left = [
        one for one in models if (one.family or "").casefold() not in shut and one.answers >= whole
    ]
    if before is not None:
        left = [one for one in left if one.released is not None and is_newer(before, one.released)]
    left.sort(key=lambda one: (one.accuracy, one.name))
    if len(left) < 3:
        raise ConfigError(
            f"The set has {len(left)} models of other families than {', '.join(sorted(families))}"
            f"{f', released before the held-out items of {before}' if before else ''}; expected 3 or more. "
            "Name another set, or references of your own: 'references=[qwen3_8b,mistral_7b]'."
        )
    return _spread(left, min(count, len(left)))


def _spread(left: Sequence[SetModel], count: int) -> tuple[str, ...]:
    """Return `count` names evenly by place in the order of accuracy, each of another family if one
    is near."""
    step = (len(left) - 1) / (count - 1)
    chosen = [0, len(left) - 1]  # the weakest and the best bracket whatever is between them
    for k in range(1, count - 1):
        taken = {left[i].family for i in chosen} - {None}
        nearest = sorted(set(range(len(left))) - set(chosen), key=lambda i: (abs(i - k * step), i))
        near = [i for i in nearest if abs(i - k * step) <= step / 2 and left[i].family not in taken]
        chosen.append((near or nearest)[0])
    return tuple(left[i].name for i in sorted(chosen))


IMPORTED = "imported"  # provenance of a run that `audit import` wrote
NOT_OURS = (
    "that prompts, decoding and scoring differed between the two sets, or between the models: the evaluations were "
    "imported, so these were not under our control"
)
ItemKey = tuple[str, str]  # (benchmark, id)
Facts = Mapping[str, Any]  # of a model, as the manifest has them


@dataclass
class ReferencedConfig(RunConfig):
    """Hold the options of an audit with references: names of models, and directories of runs."""

    references: list[str] = field(default_factory=list)
    allow_convicted: list[str] = field(
        default_factory=list
    )  # references in which an audit found something


@dataclass(frozen=True)
class ReferenceRun:
    """Hold an earlier run and those of its models that serve as references. origins: of models
    whose origin is stated."""

    path: Path
    models: tuple[str, ...]
    origins: Mapping[str, Origin] = field(default_factory=dict)


def with_references(config: ReferencedConfig) -> dict[str, ModelConfig]:
    """Return the run's models and the references that are models. Raises ConfigError if one is
    unknown, or none is judged."""
    models = dict(config.model)
    for one in config.references:
        if one in models or one.startswith(PREFIX) or _run_of(one) is not None:
            continue
        need_folder(one.partition("@")[2] or one, "A reference")
        if one not in (*known_models(), *described_models()):
            what = "reference (a model, the directory of a run, MODEL@RUN_DIR, or set:NAME)"
            raise unknown_name(what, one, {*config.model, *known_models()})
        models[one] = load_model_config(one)
    if models and not set(models) - set(config.references):
        raise ConfigError(
            "Every model is a reference: none is judged. Expected model=<name> beside 'references=[..]'."
        )
    return models


def judged(config: ReferencedConfig) -> list[str]:
    """Return the models that are judged; the other models of the run are references."""
    return [name for name in config.model if name not in config.references]


def reference_runs(config: ReferencedConfig) -> list[ReferenceRun]:
    """Return the references that are earlier runs, with absolute paths. Raises ConfigError if a run
    has no such model."""
    asked: dict[Path, list[str]] = {}
    for one in config.references:
        if (found := _run_of(one)) is not None and one not in config.model:
            asked.setdefault(found[0].resolve(), []).append(found[1])
    sets = [
        _chosen(config, one.removeprefix(PREFIX))
        for one in config.references
        if one.startswith(PREFIX)
    ]
    return [*(_serving(path, names) for path, names in asked.items()), *sets]


def _chosen(config: ReferencedConfig, name: str) -> ReferenceRun:
    """Choose models of a reference set before the tested model answers anything. Raises ConfigError
    if its family is not known."""
    families = {one: config.model[one].family for one in judged(config)}
    if unknown := [one for one, family in families.items() if not family]:
        raise ConfigError(
            f"The family of {unknown[0]} is not known. Expected such as model.{unknown[0]}.family=llama."
        )
    found = load_set(name)
    tested = [Origin(config.model[one].released) for one in families]
    before = last_date(config.control_benchmark.date if config.control_benchmark else None, tested)
    chosen = choose(found.models, set(filter(None, families.values())), before=before)
    origins = {one.name: Origin(one.released, one.family) for one in found.models}
    return ReferenceRun(found.path.resolve(), chosen, origins)


def recorded_references(
    manifest: Manifest, benchmark: str, same: Sequence[str]
) -> list[ReferenceRun]:
    """Return the reference runs that a manifest names, after `check_runs`. benchmark: the audited
    one."""
    analysis, facts = manifest.analysis, manifest.benchmark
    kept = zip(
        analysis["references"], analysis.get("reference_models", ()), strict=True
    )  # an import has neither
    runs = [_serving(Path(path), models) for path, models in kept]
    names = (benchmark, *(name for name in facts if name != benchmark))
    revisions = {name: facts.get(name, {}).get("revision") for name in names}
    check_runs(
        runs,
        manifest.audit,
        manifest.models,
        manifest.analysis["judged"],
        revisions,
        manifest.config,
        same,
    )
    return runs


def check_runs(
    runs: Sequence[ReferenceRun],
    audit: str,
    models: Mapping[str, Facts],
    judged: Sequence[str],
    benchmarks: Mapping[str, str | None],
    config: Mapping[str, Any],
    same: Sequence[str],
) -> None:
    """Raise ConfigError if reference runs cannot be compared with this run.

    They cannot if they are of another audit or other items, are unfinished, or had other requests.
    Nor may a model occur twice by name or weights, or be a judged model.

    models: facts of every model of this run. benchmarks: {name: revision} of this run, the audited
    one first. config: of this run. same: the options that decide the requests.
    """
    found = [(run, _checked(run, audit, benchmarks)) for run in runs]
    tested = {name: models[name] for name in judged if name in models}
    served = [(name, facts, "this run") for name, facts in models.items() if name not in judged]
    served += [
        (name, manifest.models[name], str(run.path))
        for run, manifest in found
        for name in run.models
    ]
    for name, facts, where in served:
        _check_not_tested(name, facts, where, tested)
    _check_distinct(served)
    for run, manifest in found:
        for name in () if is_imported(manifest) else same:
            theirs, ours = _asked(manifest.config.get(name)), _asked(config.get(name))
            if theirs != ours:
                other = f"was run with {name}={theirs}, and this run has {ours}"
                raise ConfigError(f"Reference {run.path} {other}. Run it again with {name}={ours}.")


def _check_distinct(served: Sequence[tuple[str, Facts, str]]) -> None:
    """Raise ConfigError if a reference (name, facts, run) occurs twice, by name or by weights."""
    name, times = Counter(name for name, _, _ in served).most_common(1)[0] if served else ("", 0)
    if times > 1:
        raise ConfigError(
            f"Reference model {name} is given {times} times. Expected one run of each reference."
        )
    weights: dict[str, str] = {}
    for name, facts, _ in served:
        revision, engine = facts.get("revision"), facts.get("engine")
        if (
            revision not in (None, engine)
            and engine != "scripted"
            and weights.setdefault(revision, name) != name
        ):
            raise ConfigError(
                f"References {weights[revision]} and {name} are one model (weights {revision}). Leave out one."
            )


def check_logs_passed(path: Path, manifest: Manifest) -> None:
    """Raise ConfigError if a check of an import's logs failed: its answers carry no verdict, here
    or elsewhere."""
    bad = [one for one in manifest.analysis.get("log_checks", ()) if not one["passed"]]
    if bad:
        found = f"The check {bad[0]['name']} of the import {path} failed: {bad[0]['detail']}"
        raise ConfigError(f"{found} Expected an import whose checks pass. Import its logs again.")


def is_imported(manifest: Manifest) -> bool:
    """Return whether a run's rows were read from other programs' logs (`audit import`)."""
    return manifest.config.get("provenance") == IMPORTED


def _asked(value: Any) -> Any:
    """Return a value of the configuration without what only describes the items."""
    if not isinstance(value, Mapping):
        return value
    return {k: v for k, v in value.items() if k not in ("date", "written_by")}


def check_items(runs: Sequence[ReferenceRun], questions: Iterable[Item]) -> None:
    """Raise ConfigError if a reference run has other items under the same ids, or none of these
    items."""
    from audit.shards.questions import QuestionFile

    ours = {(q.benchmark, q.id): (q.text, q.options, q.gold, q.target) for q in questions}
    for run in runs:
        if imported(run.path):
            joined_items(
                run.path, [(key, text, options) for key, (text, options, _, _) in ours.items()]
            )
            continue
        theirs = {
            (q.benchmark, q.id): (q.text, q.options, q.gold, q.target)
            for q in QuestionFile(run.path)
        }
        shared = [key for key in ours if key in theirs]
        other = [key for key in shared if ours[key] != theirs[key]]
        if other or not shared:
            what = "none of the items of this run was asked there"
            if other:
                what = f"{len(other)} of {len(shared)} items differ in text, options or key, such as {other[0][1]}"
            raise ConfigError(
                f"Reference {run.path}: {what}. Run it again with this benchmark, seed and n."
            )


def joined_items(
    path: Path, ours: Sequence[tuple[ItemKey, str, Sequence[str]]]
) -> dict[ItemKey, ItemKey]:
    """Return {(benchmark, id) in an imported run: the same in this run}, by text, or by name if
    both agree.

    ours: (key, text, options) of this run's items. Raises ConfigError if less than JOINED_MIN of
    them are in the imported run.
    """
    from audit.shards.questions import QuestionFile

    by_text = {text_key(text, options): key for key, text, options in ours}
    named = {key for key, _, _ in ours}
    found, untold = {}, set()
    for q in QuestionFile(path):
        if not q.text:
            untold.add(q.benchmark)
        key = (q.benchmark, q.id) if not q.text else by_text.get(text_key(q.text, q.options))
        if key in named:
            found[q.benchmark, q.id] = key
    share = len(set(found.values())) / max(len(named), 1)
    if share < JOINED_MIN:
        other = ", ".join(sorted(untold - {benchmark for benchmark, _ in named}))
        also = (
            f" Items without a text are joined by the benchmark's name and id: there is {other} in it, which "
            "benchmark.name and control_benchmark.name can be."
        )
        raise ConfigError(
            f"Reference {path} holds {len(set(found.values())):,} of the {len(named):,} items of this run; expected "
            f"at least {percent(JOINED_MIN)}, with the same text and options. Import logs of this benchmark and of the "
            f"held-out items.{also if other else ''}"
        )
    return found


def imported(path: Path) -> bool:
    return is_imported(_manifest(path))


def _manifest(run_dir: Path) -> Manifest:
    from audit.shards.manifest import Manifest

    return Manifest.load(run_dir)


def _checked(run: ReferenceRun, audit: str, benchmarks: Mapping[str, str | None]) -> Manifest:
    path, manifest = run.path, _manifest(run.path)
    if manifest.audit != audit:
        raise ConfigError(
            f"Reference {path} is a run of audit {manifest.audit or 'unknown'}; expected {audit}."
        )
    benchmark = next(iter(benchmarks))
    if benchmark not in manifest.benchmark and not is_imported(manifest):
        raise ConfigError(
            f"Reference {path} is of {', '.join(manifest.benchmark)}; expected {benchmark}."
        )
    if manifest.status != "finished":
        raise ConfigError(
            f"Reference {path} is {manifest.status}. Type its command again to finish it."
        )
    check_logs_passed(path, manifest)
    if is_imported(manifest):
        return manifest  # the items' texts tell what was asked
    for name, revision in benchmarks.items():
        theirs = manifest.benchmark.get(name, {}).get("revision")
        if None not in (revision, theirs) and revision != theirs:
            raise ConfigError(
                f"Reference {path} was asked another version of {name}: {theirs}, and this run has {revision}. Run the "
                f"reference again on this version, or this model on that one (benchmark.revision={theirs})."
            )
    return manifest  # its names are its log's; what was asked is told by the items' texts


def _check_not_tested(name: str, facts: Facts, where: str, tested: Mapping[str, Facts]) -> None:
    """Raise ConfigError if a reference has the weights of a tested model; scripted engines have
    none, so their names count."""
    revision = facts.get("revision")
    weighed = revision is not None and facts.get("engine") != "scripted"
    for other, theirs in tested.items():
        if revision == theirs.get("revision") and (name == other or weighed):
            found = f"is the tested model {other}: both have the weights {revision}"
            raise ConfigError(
                f"Reference {name} of {where} {found}. Name another, such as 'references=[qwen3_8b]'."
            )
        if name == other:
            raise ConfigError(
                f"Reference {name} of {where} has the name of the tested model and other weights ({revision}, not "
                f"{theirs.get('revision')}). Run one of the two under a name of its own, such as {name}_before."
            )


def _serving(path: Path, names: Sequence[str]) -> ReferenceRun:
    """Return the models that a run provides: the named ones, or for "" its own references."""
    manifest = _manifest(path)
    own = [
        name
        for name in manifest.models
        if name not in manifest.analysis.get("judged", manifest.models)
    ]
    for name in names:
        if name and name not in manifest.models:
            raise unknown_name(f"model of {path}", name, manifest.models)
    if "" in names and not own:
        named = f"'references=[{next(iter(manifest.models), 'MODEL')}@{path}]'"
        raise ConfigError(
            f"Reference {path} judged {', '.join(manifest.models)}. Name one, such as {named}."
        )
    chosen = [one for name in names for one in ([name] if name else own)]
    told = {**manifest.config.get("model", {}), **manifest.analysis.get("origins", {})}
    origins = {name: Origin(one.get("released"), one.get("family")) for name, one in told.items()}
    return ReferenceRun(path, tuple(dict.fromkeys(chosen)), origins)


def _run_of(reference: str) -> tuple[Path, str] | None:
    """Split RUN_DIR or MODEL@RUN_DIR into (run directory, model or ""); None for any other text."""
    from audit.shards.manifest import MANIFEST

    name, _, folder = reference.partition("@")
    given = [(Path(reference), ""), *([(Path(folder), name)] if name and folder else [])]
    return next((one for one in given if (one[0] / MANIFEST).is_file()), None)
