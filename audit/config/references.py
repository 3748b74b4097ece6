"""Find the reference models of an audit, in the same job or in earlier runs (`references=[...]`).

A reference that is not a model of this job has one of these forms:

- RUN_DIR: the references of that run;
- MODEL@RUN_DIR: a model that the run judged;
- set:NAME: some models of a reference set.

A reference set is the directory of an imported run without judged models, with `set.json` beside
its manifest. Sets are in the folder that the variable AUDIT_REFERENCES names, or in the user's
cache.
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
from audit.core.guarded_files import nearest_path, read_json
from audit.core.number_text import percent
from audit.engines.config import ModelConfig
from audit.shards.working_copy import need_folder

if TYPE_CHECKING:  # This import loads Arrow, and refused arguments must not wait for it.
    from audit.core.records import Item
    from audit.shards.manifest import Manifest

PREFIX = "set:"
ABOUT = "set.json"
JOINED_MIN = 0.90  # the smallest share of this run's items that an imported run must hold
DEFAULT_COUNT = 8  # Calibrations simulate at most this number of references.


@dataclass(frozen=True)
class SetModel:
    """Describe one model of a reference set.

    Attributes
    ----------
    name : str
        The name of the model.
    accuracy : float
        The accuracy over parsed answers, between 0 and 1.
    answers, unparsed : int
        The number of items that the model was asked, and the number of items without a parsed
        answer.
    released, family : str or None
        The release date and the family.
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

    Attributes
    ----------
    name, path : str, Path
        The name and the directory of the set.
    version : str
        The hash of all answers.
    benchmark : str
        The benchmark of the answers.
    source, licence : str
        The source and the licence of the published answers.
    models : tuple of SetModel
        The models of the set.
    """

    name: str
    path: Path
    version: str
    benchmark: str
    source: str
    licence: str
    models: tuple[SetModel, ...]


def sets_folder() -> Path:
    """Return the folder of reference sets: AUDIT_REFERENCES, or a folder in the user's cache."""
    folder = os.environ.get("AUDIT_REFERENCES")
    if folder:
        return Path(folder)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "benchmark-audit" / "references"


def known_sets() -> list[str]:
    """Return the names of the installed sets."""
    return sorted(path.parent.name for path in sets_folder().glob(f"*/{ABOUT}"))


def load_set(name: str) -> ReferenceSet:
    """Load a reference set by name, and check its shards against their hashes.

    Parameters
    ----------
    name : str
        The name of the set.

    Returns
    -------
    ReferenceSet
        The set.

    Raises
    ------
    ConfigError
        If no such set is installed.
    DataError
        If the set cannot be read, or a shard differs from its hash.
    """
    from audit.shards.complete import listed_shards

    path = sets_folder() / name
    check_known(
        f"reference set (in {sets_folder()}; audit references build makes one)", name, known_sets()
    )
    try:
        about = read_json(path / ABOUT)
        models = tuple(SetModel(**facts) for facts in about.pop("models"))
        reference_set = ReferenceSet(path=path, models=models, **about)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(
            f"{path / ABOUT} cannot be read ({error!r}). Build the set again."
        ) from error
    manifest = _manifest(path)
    listed_shards(path, manifest)
    if version_of(manifest) != reference_set.version:
        raise DataError(
            f"Reference set {name} has other answers than version {reference_set.version}. "
            "Build it again."
        )
    return reference_set


def version_of(manifest: Manifest) -> str:
    """Return a hash (16 hex digits) of the shards' hashes and the ids of the items."""
    hashes = sorted(shard["sha256"] for shard in manifest.shards)
    plain = json.dumps({"shards": hashes, "ids": manifest.sampled_ids}, sort_keys=True)
    return hashlib.sha256(plain.encode()).hexdigest()[:16]


def save_about(reference_set: ReferenceSet) -> None:
    """Write the description of a reference set into the set's directory."""
    about = asdict(reference_set)
    path = about.pop("path")
    text = json.dumps(about, indent=1, ensure_ascii=False) + "\n"
    (path / ABOUT).write_text(text, encoding="utf-8")


def choose(
    models: Sequence[SetModel],
    families: Collection[str],
    count: int = DEFAULT_COUNT,
    before: str | None = None,
) -> tuple[str, ...]:
    """Choose models that are spread evenly over the accuracies of a set.

    The choice does not depend on any answer of a tested model.

    Parameters
    ----------
    models : sequence of SetModel
        The models of the set. A model that lacks many items is left out.
    families : collection of str
        The families of the tested models. Models of these families are left out, but models of
        unknown family stay.
    count : int
        The number of models.
    before : str or None
        A date. Models that were released later are left out.

    Returns
    -------
    tuple of str
        The names, sorted by accuracy. Two chosen models have the same family only if no model of
        another family has a similar rank.

    Raises
    ------
    ConfigError
        If no family is known at all, or fewer than three models are left.

    Examples
    --------
    >>> few = [SetModel(name, accuracy, 9, 0) for name, accuracy in (("a", 0.2), ("b", 0.5), ("c", 0.6), ("d", 0.9))]
    >>> choose(few, (), 3)
    ('a', 'b', 'd')
    """
    excluded = set(map(str.casefold, families))
    if excluded and not any(model.family for model in models):
        raise ConfigError(
            "The set does not state the families of its models, so relatives of the tested model "
            "could not be left out. Expected a set built with families. "
            "Example: audit references build ... --facts models.csv"
        )
    whole = JOINED_MIN * max((model.answers for model in models), default=0)
    left = []
    for model in models:
        related = (model.family or "").casefold() in excluded
        early = before is None or (model.released and is_newer(before, model.released))
        if not related and model.answers >= whole and early:
            left.append(model)
    left.sort(key=lambda model: (model.accuracy, model.name))
    if len(left) < 3:
        dated = f", released before the held-out items of {before}" if before else ""
        raise ConfigError(
            f"The set has {len(left)} models of other families than {', '.join(sorted(families))}"
            f"{dated}. Expected 3 or more. "
            "Name another set, or other references. Example: 'references=[qwen3_8b,mistral_7b]'"
        )
    return _spread(left, min(count, len(left)))


def _spread(left: Sequence[SetModel], count: int) -> tuple[str, ...]:
    """Return the names of models whose ranks are evenly spread.

    Among models of similar rank, a model of a new family is preferred.
    """
    step = (len(left) - 1) / (count - 1)
    # The accuracies of all other models lie between those of the weakest and the best model.
    chosen = [0, len(left) - 1]
    for k in range(1, count - 1):
        families = {left[i].family for i in chosen} - {None}
        free = set(range(len(left))) - set(chosen)
        nearest = sorted(free, key=lambda i: (abs(i - k * step), i))
        best = nearest[0]
        for i in nearest:
            if abs(i - k * step) <= step / 2 and left[i].family not in families:
                best = i
                break
        chosen.append(best)
    return tuple(left[i].name for i in sorted(chosen))


IMPORTED = "imported"  # The provenance of a run that `audit import` wrote.
IMPORTED_CAVEAT = (
    "that prompts, decoding and scoring differed between the two sets, or between the models: "
    "the evaluations were imported, so these were not under our control"
)
ItemKey = tuple[str, str]  # (benchmark, id)
Facts = Mapping[str, Any]  # the facts about a model in a manifest


@dataclass
class ReferencedConfig(RunConfig):
    """Define the options of an audit with references: names of models, and directories of runs."""

    references: list[str] = field(default_factory=list)
    # These references are used although an audit found contamination in them.
    allow_convicted: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ReferenceRun:
    """Describe an earlier run and its models that serve as references.

    Attributes
    ----------
    path, models : Path, tuple of str
        The directory, and the names of the models.
    origins : mapping of str to Origin
        Release date and family of each model for which they are known.
    """

    path: Path
    models: tuple[str, ...]
    origins: Mapping[str, Origin] = field(default_factory=dict)


def with_references(config: ReferencedConfig) -> dict[str, ModelConfig]:
    """Return the models of a run, and those references that run in the same job.

    Raises ConfigError if a reference is unknown, or no model is judged.
    """
    models = dict(config.model)
    for name in config.references:
        if name in models or name.startswith(PREFIX) or _run_of(name) is not None:
            continue
        need_folder(name.partition("@")[2] or name, "A reference")
        if name not in (*known_models(), *described_models()):
            kind = "reference (a model, the directory of a run, MODEL@RUN_DIR, or set:NAME)"
            unknown = unknown_name(kind, name, {*config.model, *known_models()})
            raise ConfigError(f"{unknown}{nearest_run(name)}")
        models[name] = load_model_config(name)
    if models and not set(models) - set(config.references):
        raise ConfigError(
            "Every model is a reference, so no model is judged. "
            "Expected model=<name> beside 'references=[..]'."
        )
    return models


def nearest_run(reference: str) -> str:
    """Return a message about a reference that is a path without a run; "" if it is a name.

    A reference with a slash may be the ID of a model. It counts as a path if it begins with ".",
    "/" or "~", or if a run with a similar path exists.
    """
    from audit.shards.manifest import MANIFEST

    path = reference.partition("@")[2] or reference
    nearest = nearest_path(Path(path).expanduser()) if "://" not in path else None
    if nearest is not None and (nearest / MANIFEST).is_file():
        return f" Did you mean {nearest}?"
    return f" {path} holds no run." if path.startswith((".", "/", "~")) else ""


def judged(config: ReferencedConfig) -> list[str]:
    """Return the models that are judged. The other models of the run are references."""
    return [name for name in config.model if name not in config.references]


def reference_runs(config: ReferencedConfig) -> list[ReferenceRun]:
    """Return the references that are earlier runs, with absolute paths.

    Raises ConfigError if a run does not have the named model.
    """
    names_of: dict[Path, list[str]] = {}
    sets = []
    for reference in config.references:
        earlier = _run_of(reference)
        if earlier is not None and reference not in config.model:
            run_dir, name = earlier
            names_of.setdefault(run_dir.resolve(), []).append(name)
        if reference.startswith(PREFIX):
            sets.append(_chosen(config, reference.removeprefix(PREFIX)))
    runs = [_serving(path, names) for path, names in names_of.items()]
    return [*runs, *sets]


def _chosen(config: ReferencedConfig, name: str) -> ReferenceRun:
    """Choose models of a reference set, before the tested model has answered any question.

    Raises ConfigError if the family of a tested model is not known.
    """
    families, tested = set(), []
    for model_name in judged(config):
        model = config.model[model_name]
        if not model.family:
            raise ConfigError(
                f"The family of {model_name} is not known. Expected its name. "
                f"Example: model.{model_name}.family=llama."
            )
        families.add(model.family)
        tested.append(Origin(model.released))
    reference_set = load_set(name)
    before = last_date(config.control_benchmark.date if config.control_benchmark else None, tested)
    chosen = choose(reference_set.models, families, before=before)
    origins = {model.name: Origin(model.released, model.family) for model in reference_set.models}
    return ReferenceRun(reference_set.path.resolve(), chosen, origins)


def recorded_references(
    manifest: Manifest, benchmark: str, same: Sequence[str]
) -> list[ReferenceRun]:
    """Return the reference runs that a manifest names, checked by `check_runs`.

    Parameters
    ----------
    manifest : Manifest
        The manifest of the run.
    benchmark : str
        The name of the audited benchmark.
    same : sequence of str
        Names of the options whose values must be equal in all runs, as in `check_runs`.

    Returns
    -------
    list of ReferenceRun
        The reference runs.

    Raises
    ------
    ConfigError
        If a run cannot be compared.
    """
    analysis, facts = manifest.analysis, manifest.benchmark
    runs = []
    # The manifest of an imported run has neither of these lists.
    recorded = zip(analysis["references"], analysis.get("reference_models", ()), strict=True)
    for path, models in recorded:
        runs.append(_serving(Path(path), models))
    revisions = {name: facts.get(name, {}).get("revision") for name in (benchmark, *facts)}
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

    Parameters
    ----------
    runs : sequence of ReferenceRun
        Earlier runs whose models serve as references.
    audit : str
        The audit of this run.
    models : mapping of str to mapping
        The facts about every model of this run.
    judged : sequence of str
        The models that are judged.
    benchmarks : mapping of str to (str or None)
        The revisions of the benchmarks of this run, the audited benchmark first.
    config : mapping
        The configuration of this run.
    same : sequence of str
        Names of the options that change the prompts. Their values must be equal in all runs.

    Raises
    ------
    ConfigError
        If a run is unfinished, or has another audit, other items or other options. Also if two
        models have the same name or weights, or if a reference is a judged model.
    """
    checked = [(run, _checked(run, audit, benchmarks)) for run in runs]
    tested: dict[str, Facts] = {}
    served: list[tuple[str, Facts, str]] = []
    for name, facts in models.items():
        if name in judged:
            tested[name] = facts
        else:
            served.append((name, facts, "this run"))
    for run, manifest in checked:
        served += [(name, manifest.models[name], str(run.path)) for name in run.models]
    for name, facts, where in served:
        _check_not_tested(name, facts, where, tested)
    _check_distinct(served)
    for run, manifest in checked:
        for name in () if is_imported(manifest) else same:
            reference_value, value = (
                _deciding(manifest.config.get(name)),
                _deciding(config.get(name)),
            )
            if reference_value != value:
                other = f"was run with {name}={reference_value}, and this run has {value}"
                raise ConfigError(
                    f"Reference {run.path} {other}. Run it again with {name}={value}."
                )


def _check_distinct(served: Sequence[tuple[str, Facts, str]]) -> None:
    """Raise ConfigError if two references (name, facts, run) have the same name or weights."""
    name, times = Counter(name for name, _, _ in served).most_common(1)[0] if served else ("", 0)
    if times > 1:
        raise ConfigError(
            f"Reference model {name} is given {times} times. Expected one run of each reference."
        )
    weights: dict[str, str] = {}
    for name, facts, _ in served:
        revision, engine = facts.get("revision"), facts.get("engine")
        if revision in (None, engine) or engine == "scripted":
            continue
        first = weights.setdefault(revision, name)
        if first != name:
            raise ConfigError(
                f"References {first} and {name} are one model (weights {revision}). Leave out one."
            )


def check_logs_passed(path: Path, manifest: Manifest) -> None:
    """Raise ConfigError if a check of an import's logs failed, since no verdict can be based on
    such logs."""
    for check in manifest.analysis.get("log_checks", ()):
        if not check["passed"]:
            problem = f"The check {check['name']} of the import {path} failed: {check['detail']}"
            raise ConfigError(
                f"{problem} Expected an import whose checks pass. Import its logs again."
            )


def is_imported(manifest: Manifest) -> bool:
    """Return True if the rows of a run were read from the logs of another tool (`audit import`)."""
    return manifest.config.get("provenance") == IMPORTED


def _deciding(value: Any) -> Any:
    """Return a value of the configuration without the entries that only describe the items."""
    if not isinstance(value, Mapping):
        return value
    return {key: item for key, item in value.items() if key not in ("date", "written_by")}


def check_items(runs: Sequence[ReferenceRun], questions: Iterable[Item]) -> None:
    """Raise ConfigError if a reference run has no item of this run, or changed items.

    Parameters
    ----------
    runs : sequence of ReferenceRun
        Earlier runs whose models serve as references.
    questions : iterable of Item
        The items of this run.

    Raises
    ------
    ConfigError
        If a run has other texts, options or keys under the ids of this run.
    """
    from audit.shards.questions import QuestionFile

    contents = _item_contents(questions)
    for run in runs:
        if imported(run.path):
            joined_items(
                run.path, [(key, text, options) for key, (text, options, _, _) in contents.items()]
            )
            continue
        reference_contents = _item_contents(QuestionFile(run.path))
        shared, changed = 0, []
        for key, item in contents.items():
            if key in reference_contents:
                shared += 1
                if item != reference_contents[key]:
                    changed.append(key)
        if changed or not shared:
            problem = "has no item of this run"
            if changed:
                problem = f"has {len(changed)} of {shared} items with another text, option or key"
                problem += f", such as {changed[0][1]}"
            raise ConfigError(
                f"Reference {run.path} {problem}. Run it again with this benchmark, seed and n."
            )


def _item_contents(questions: Iterable[Item]) -> dict[ItemKey, tuple[Any, ...]]:
    """Map each item to the part of its content that must be equal in two runs."""
    return {(q.benchmark, q.id): (q.text, q.options, q.gold, q.target) for q in questions}


def joined_items(
    path: Path, items: Sequence[tuple[ItemKey, str, Sequence[str]]]
) -> dict[ItemKey, ItemKey]:
    """Join the items of an imported run with the items of this run.

    Items are joined by text and options. Items without a text are joined by benchmark and id.

    Parameters
    ----------
    path : Path
        The directory of the imported run.
    items : sequence of (key, text, options)
        The items of this run.

    Returns
    -------
    dict
        Maps the key (benchmark, id) of an item in the imported run to its key in this run.

    Raises
    ------
    ConfigError
        If the imported run has less than JOINED_MIN of the items.
    """
    from audit.shards.questions import QuestionFile

    by_text, keys = {}, set()
    for key, text, options in items:
        by_text[text_key(text, options)] = key
        keys.add(key)
    joined: dict[ItemKey, ItemKey] = {}
    without_text = set()
    for q in QuestionFile(path):
        if not q.text:
            without_text.add(q.benchmark)
        item = (q.benchmark, q.id)
        joined_key = by_text.get(text_key(q.text, q.options)) if q.text else item
        if joined_key in keys:
            joined[item] = joined_key
    n = len(set(joined.values()))
    if n / max(len(keys), 1) < JOINED_MIN:
        other = ", ".join(sorted(without_text - {benchmark for benchmark, _ in keys}))
        hint = ""
        if other:
            hint = (
                f" Items of {other} have no text and are joined by benchmark and id. Use this name "
                "as benchmark.name or control_benchmark.name."
            )
        raise ConfigError(
            f"Reference {path} has {n:,} of the {len(keys):,} items of this run. Expected at least "
            f"{percent(JOINED_MIN)}, with equal text and options. Import logs of this benchmark "
            f"and of the held-out items.{hint}"
        )
    return joined


def imported(path: Path) -> bool:
    """Return True if the run in a directory was imported from the logs of another tool."""
    return is_imported(_manifest(path))


def _manifest(run_dir: Path) -> Manifest:
    from audit.shards.manifest import Manifest

    return Manifest.load(run_dir)


def _checked(run: ReferenceRun, audit: str, benchmarks: Mapping[str, str | None]) -> Manifest:
    path, manifest = run.path, _manifest(run.path)
    if manifest.audit != audit:
        raise ConfigError(
            f"Reference {path} is a run of audit {manifest.audit or 'unknown'}. Expected {audit}."
        )
    benchmark = next(iter(benchmarks))
    if benchmark not in manifest.benchmark and not is_imported(manifest):
        raise ConfigError(
            f"Reference {path} is of {', '.join(manifest.benchmark)}. Expected {benchmark}."
        )
    if manifest.status != "finished":
        raise ConfigError(
            f"Status of reference {path} is {manifest.status}. Repeat its command to finish it."
        )
    check_logs_passed(path, manifest)
    if is_imported(manifest):
        return manifest  # The items of an imported run are compared by their texts.
    for name, revision in benchmarks.items():
        reference_revision = manifest.benchmark.get(name, {}).get("revision")
        if None not in (revision, reference_revision) and revision != reference_revision:
            raise ConfigError(
                f"Version of {name} in reference {path} is {reference_revision}. Expected "
                f"{revision}, as in this run. Repeat the reference, or set "
                f"benchmark.revision={reference_revision}."
            )
    return manifest


def _check_not_tested(name: str, facts: Facts, where: str, tested: Mapping[str, Facts]) -> None:
    """Raise ConfigError if a reference is a tested model.

    Models are compared by their weights. Models of the scripted engine have no weights, so they are
    compared by name.
    """
    revision = facts.get("revision")
    weighed = revision is not None and facts.get("engine") != "scripted"
    for other, tested_facts in tested.items():
        if revision == tested_facts.get("revision") and (name == other or weighed):
            problem = f"is the tested model {other}: both have the weights {revision}"
            raise ConfigError(
                f"Reference {name} of {where} {problem}. "
                "Name another, such as 'references=[qwen3_8b]'."
            )
        if name == other:
            raise ConfigError(
                f"Reference {name} of {where} has the name of the tested model and other weights "
                f"({revision}, not {tested_facts.get('revision')}). "
                f"Run one of the two under another name, such as {name}_before."
            )


def _serving(path: Path, names: Sequence[str]) -> ReferenceRun:
    """Return the named models of a run; the name "" stands for all references of the run."""
    manifest = _manifest(path)
    references = list(manifest.models)
    for name in manifest.analysis.get("judged", manifest.models):
        if name in references:
            references.remove(name)
    for name in names:
        if name and name not in manifest.models:
            raise unknown_name(f"model of {path}", name, manifest.models)
    if "" in names and not references:
        named = f"'references=[{next(iter(manifest.models), 'MODEL')}@{path}]'"
        raise ConfigError(
            f"Reference {path} judged {', '.join(manifest.models)}. Name one, such as {named}."
        )
    chosen: dict[str, None] = {}
    for name in names:
        chosen |= dict.fromkeys([name] if name else references)
    origins = {}
    described = {**manifest.config.get("model", {}), **manifest.analysis.get("origins", {})}
    for name, facts in described.items():
        origins[name] = Origin(facts.get("released"), facts.get("family"))
    return ReferenceRun(path, tuple(chosen), origins)


def _run_of(reference: str) -> tuple[Path, str] | None:
    """Split RUN_DIR or MODEL@RUN_DIR into (run directory, model); model is "" if it is not named.

    Return None for any other text.
    """
    from audit.shards.manifest import MANIFEST

    if (Path(reference) / MANIFEST).is_file():
        return Path(reference), ""
    name, _, folder = reference.partition("@")
    if name and folder and (Path(folder) / MANIFEST).is_file():
        return Path(folder), name
    return None
