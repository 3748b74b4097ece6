"""Store the answers of an imported run as a reference set.

A reference set has a name and facts about each of its models. Later imports can use these models as
references.

The module also reads a run of this program as a log. The log contains the answers to items that
were asked as published.
"""

import json
import re
import shutil
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

from audit.benchmarks.fresh import Origin
from audit.benchmarks.rows import text_key
from audit.config.audits import audit_of
from audit.config.references import (
    ReferenceSet,
    SetModel,
    check_logs_passed,
    choose,
    is_imported,
    known_sets,
    load_set,
    save_about,
    sets_folder,
    version_of,
)
from audit.core.errors import ConfigError
from audit.core.guarded_files import nearest, read_json
from audit.core.records import AS_PUBLISHED, ITEM_ID
from audit.export.inspect_log import answer_of, asked_rows
from audit.imports.join import Joined, counts
from audit.imports.record import Imported, Log, Record, Wanted, rows_of
from audit.registry.convictions import found_in
from audit.shards.complete import cell_rows, count_rows, listed_shards
from audit.shards.manifest import MANIFEST, Manifest
from audit.shards.schema import RowSchema

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
# This folder contains facts about the models of published reference sets.
FACTS = Path(str(files("audit").joinpath("data", "references")))
_COLUMNS = ("model", "released", "family")


def build_set(
    run_dir: Path, name: str, source: str, licence: str, facts: Path | None = None
) -> ReferenceSet:
    """Write a reference set from a finished import. The set is written completely or not at all.

    Parameters
    ----------
    facts : Path or str
        A csv file with the columns model, released and family, or the name of such a file that the
        program ships.

    Returns
    -------
    ReferenceSet
        The reference set, which is stored in the folder of sets.

    Raises
    ------
    ConfigError
        If the run is not a finished import, if the name is taken, or if `facts` names a model that
        the run lacks.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"--name {name!r}; expected small letters, digits, '_', '-', '.', such as gsm8k_2024."
        )
    if name in known_sets():
        raise ConfigError(
            f"The reference set {name} exists already, and sets never change. Expected a new name. "
            f"Example: {name}_2"
        )
    manifest = Manifest.load(run_dir)
    if not is_imported(manifest) or manifest.status != "finished":
        raise ConfigError(
            f"{run_dir} is not a finished import. Expected the directory that audit import wrote."
        )
    check_logs_passed(run_dir, manifest)
    for model in manifest.models:
        if verdicts := list(found_in(run_dir, model)):
            why = f"{model} was itself convicted: {verdicts[0]}"
            raise ConfigError(
                f"{why}. A reference with memory would hide memory in other models: import the "
                f"logs again without {model}."
            )
    shards = listed_shards(run_dir, manifest)
    about = facts_of(facts, manifest.models)
    models = tuple(replace(model, **about[model.name]) for model in _counted(run_dir, manifest))
    part = sets_folder() / f".{name}.part"
    shutil.rmtree(part, ignore_errors=True)
    (part / "shards").mkdir(parents=True)
    for path in (*shards, *run_dir.glob("*.arrow")):
        shutil.copy2(path, part / path.relative_to(run_dir))
    document = read_json(run_dir / MANIFEST)
    document["analysis"]["judged"] = []
    (part / MANIFEST).write_text(
        json.dumps(document, indent=1, ensure_ascii=False), encoding="utf-8"
    )
    benchmark = str(manifest.analysis["benchmark"])
    new = ReferenceSet(name, part, version_of(manifest), benchmark, source, licence, models)
    save_about(new)
    part.rename(sets_folder() / name)
    return replace(new, path=sets_folder() / name)


@dataclass(frozen=True)
class ChosenReferences:
    """Hold the models that an import takes from a reference set, and their outcomes.

    Attributes
    ----------
    models : dict
        Maps each chosen model to its origin (release date and family).
    outcomes : iterator of Imported
        The outcomes of the chosen models.
    about : dict
        Name and version of the set, for the manifest.
    """

    models: dict[str, Origin]
    outcomes: Iterator[Imported]
    about: dict[str, str]


def take_set(
    name: str, family: str, benchmark: str, held_out: str, before: str | None
) -> ChosenReferences:
    """Choose reference models from a reference set, before any log is read.

    Parameters
    ----------
    family : str
        Family of the tested models. Models of this family are not chosen.
    benchmark, held_out : str
        Names of the benchmark and of the held-out items in this import. "" keeps the name that the
        set uses.
    before : str or None
        Reference models must be released before this date; see `choose`.

    Returns
    -------
    ChosenReferences
        The chosen models and their outcomes.

    Raises
    ------
    ConfigError
        If `family` is empty.
    """
    if not family:
        raise ConfigError(
            f"The family of the tested models is missing. set:{name} leaves out models of this family. "
            "Example: --family llama"
        )
    stored = load_set(name)
    origins = {model.name: Origin(model.released, model.family) for model in stored.models}
    chosen = choose(stored.models, [family], before=before)
    models = {model: origins[model] for model in chosen}
    fresh = Manifest.load(stored.path).analysis["fresh"]
    names = {stored.benchmark: benchmark, fresh: held_out}
    about = {
        "file": f"set:{name}",
        "sha256": stored.version,
        "tool": "reference set",
        "version": stored.source,
    }
    outcomes = read_own(stored.path, Wanted(key=ITEM_ID)).outcomes
    return ChosenReferences(models, _chosen(outcomes, models, names), about)


def _chosen(
    outcomes: Iterator[Imported], models: Container[str], names: Mapping[str, str]
) -> Iterator[Imported]:
    """Yield the outcomes of some models. Their benchmarks are renamed to the names in this
    import.
    """
    for outcome in outcomes:
        if outcome.model in models:
            benchmark = names.get(outcome.benchmark) or outcome.benchmark
            yield replace(outcome, benchmark=benchmark)


def _counted(run_dir: Path, manifest: Manifest) -> list[SetModel]:
    """Return the accuracy and counts of each model on the benchmark.

    Several trials of an item count as one trial. Answers to held-out items are left out, so that
    the choice of references cannot depend on these answers.
    """
    joined, benchmark = Joined(), str(manifest.analysis["benchmark"])
    outcomes = read_own(run_dir, Wanted(key=ITEM_ID)).outcomes
    joined.add(run_dir.name, (outcome for outcome in outcomes if outcome.benchmark == benchmark))
    models = []
    for row in counts(joined):
        models.append(SetModel(row.model, row.accuracy, row.items, row.unparsed))
    return models


def facts_of(path: Path | None, models: Iterable[str]) -> dict[str, Record]:
    """Return the facts that a csv file states about each model.

    Parameters
    ----------
    path : Path or None
        The csv file, or the name of a csv file that the program ships. None means that no facts are
        known.
    models : iterable of str
        Models of the run.

    Returns
    -------
    dict
        {model: {"released": date, "family": name}}. A model that the csv lacks has an empty
        mapping.

    Raises
    ------
    ConfigError
        If the csv does not exist or lacks a column, or if it names a model that the run lacks.
    """
    facts: dict[str, Record] = {name: {} for name in models}
    if path is None:
        return facts
    file = path if path.is_file() else FACTS / f"{path.name}.csv"
    if not file.is_file():
        known = ", ".join(sorted(csv.stem for csv in FACTS.glob("*.csv")))
        raise ConfigError(
            f"--facts {path} does not exist.{nearest(path)} Expected a csv file, or what is "
            f"shipped: {known}."
        )
    rows = [row for _, row in rows_of(file, ".csv")]
    if not rows or not set(_COLUMNS) <= set(rows[0]):
        raise ConfigError(f"{path}: expected a csv with the columns {', '.join(_COLUMNS)}.")
    for row in rows:
        model = row["model"]
        if model not in facts:
            raise ConfigError(
                f"{path} names {model}, which is not a model of the run: {', '.join(facts)}."
            )
        facts[model] = {"released": row["released"] or None, "family": row["family"] or None}
    return facts


def read_own(path: Path, wanted: Wanted) -> Log:
    """Read a finished run of this program as a log.

    Parameters
    ----------
    path : Path
        Directory of the run.
    wanted : Wanted
        How to read it.

    Raises
    ------
    ConfigError
        If the run is not finished, lacks answers, or has no question that was asked as published.
    """
    manifest = Manifest.load(path)
    if manifest.status != "finished":
        raise ConfigError(
            f"The run {path} is {manifest.status}. Expected a finished run: type its command again."
        )
    check_logs_passed(path, manifest)
    schema = audit_of(path).schema
    for rows in cell_rows(path, count_rows(path, schema)):
        if not rows.complete:
            raise ConfigError(
                f"The run {path} is {rows.watermark}. Expected a complete run: type its command "
                "again."
            )
    if not any(setting["arm"] in AS_PUBLISHED for setting in manifest.settings):
        raise ConfigError(
            f"The run {path} asked no item as published. Expected a run such as a sweep with arm "
            "direct."
        )
    version = manifest.packages.get("benchmark-audit", "")
    return Log("benchmark-audit", version, _published(path, schema, wanted))


def _published(path: Path, schema: RowSchema, wanted: Wanted) -> Iterator[Imported]:
    """Yield the answers to items that were asked as published."""
    for row in asked_rows(path, schema):
        if row["arm"] in AS_PUBLISHED and row[schema.level] == 0:
            yield _read(row, wanted)


def _read(row: Record, wanted: Wanted) -> Imported:
    options, answer = tuple(row["options"] or ()), answer_of(row)
    return Imported(
        model=wanted.model or row["model"],
        benchmark=wanted.benchmark or row["benchmark"],
        key=row["question_id"] if wanted.key == ITEM_ID else text_key(row["question"], options),
        sample=row["question_id"],
        right=int(row["correct"]) if row["error"] is None and row["parsed"] else None,
        text=row["question"],
        options=options,
        gold=row["gold"] if options and row["gold"] >= 0 else None,
        answer=(row["response"] if answer is None else answer)[:200],
        epoch=int(row["replicate"]) + 1,
        error=row["error"],
        target="" if options else str(row.get("target") or ""),
        revision=str(row["model_revision"]),
    )
