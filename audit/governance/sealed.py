"""A preregistration as an artefact (li2026, App. K): the design of a run, its thresholds and what it can detect, signed
before its first answer; and where the run is another one.

`audit plan --seal` writes RUN_DIR/seal.dsse.json, and the run's manifest keeps its hash from the first start on. Codes
begin the message of what does not hold: seal_edited, seal_key_unknown, seal_no_keys, seal_missing, seal_replaced,
seal_after_start, seal_of_another_design.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from securesystemslib.signer import Signer

from audit.audits import part_of
from audit.decision import Changed, Ruling, Seal, failed
from audit.errors import AuditError, ConfigError, SignatureError
from audit.governance.keys import MAX_BYTES, Keys, load_trusted, seal, sha256, statement, unseal
from audit.governance.reviews import add_file
from audit.guarded_files import read_bytes
from audit.json_types import plain
from audit.panel import panel_runs
from audit.shards.files import SHARDS
from audit.shards.manifest import MANIFEST, SEAL, Manifest, deciding
from audit.shards.object_store import is_url
from audit.shards.shard_file import shard_paths

if TYPE_CHECKING:
    from audit.dry_run import Planned

PREDICATE = "urn:benchmark-audit:seal:v1"
_DETECTS = ("model", "benchmark", "questions_needed")
_NAMED = ("model", "protocols", "answering")  # parts of a configuration with an entry a model


def write_seal(planned: Planned, out: Path | None, signer: Signer, now: datetime) -> Path:
    """Sign what a run will be; out: the file, by default in the run's directory. Raises ConfigError where the run has
    begun or a seal is there, EngineError where a model cannot run."""
    run = planned.resolved
    if (run.path / MANIFEST).exists() or shard_paths(run.path / SHARDS):
        raise ConfigError(f"seal_after_start: {run.path} has begun. Seal before the run, or choose another run_dir=.")
    if out is None and is_url(run.config.run_dir or ""):
        raise ConfigError(f"A seal is a local file. Name it: --seal -o seal.dsse.json, beside {run.config.run_dir}.")
    facts = [planned.facts(one) for one in planned.asked()]
    kind = getattr(part_of(run.audit.name, "config"), f"{run.audit.name.capitalize()}Thresholds")
    as_run = Manifest(
        run.identity,
        run.plain,
        analysis={"thresholds": kind.from_mapping(run.config.verdict).to_dict(), **run.analysis},
        prompt_hashes={name: protocol.sha256 for name, protocol in run.protocols.items()},
        benchmark={one.benchmark.name: one.facts() for one in run.samples},
        models=run.models,
    )
    predicate = {
        "audit": run.audit.name,
        "sealed": now.isoformat(timespec="seconds"),
        "design": _design(as_run),
        "detects": [{k: v for k, v in one.items() if k in _DETECTS or "detectable" in k} for one in facts],
    }
    path = out or run.path / SEAL
    return add_file(path, seal(statement(PREDICATE, {"design": run.identity}, plain(predicate)), signer))


def _design(run: Manifest) -> dict[str, Any]:
    """What decides answers and verdict, by dotted names."""
    found = deciding(run.config) | {f"verdict.{k}": value for k, value in run.analysis.get("thresholds", {}).items()}
    found["references"] = [Path(one).name for one in run.analysis.get("references") or ()]
    found |= {f"prompts.{name}": value for name, value in run.prompt_hashes.items()}
    for name, facts in run.benchmark.items():
        found |= {f"questions.{name}.{key}": facts.get(key) for key in ("revision", "n", "ids_sha256")}
    return found | {f"weights.{name}": facts.get("revision") for name, facts in run.models.items()}


def with_seals(ruling: Ruling, folder: Path, asked: Path | None, keys: Path | None) -> Ruling:
    """The ruling with what was sealed of each run; failed where a seal does not hold. asked: a seal that lies elsewhere
    than in the run's directory."""
    if ruling.problem:
        return ruling
    try:
        runs = panel_runs(folder) or [folder]
        if asked is not None and len(runs) > 1:
            raise ConfigError("--seal is of one run. The seals of a panel's runs are read from their directories.")
        trusted = load_trusted(keys) if keys else None
        found = [_seal_of(run, asked, trusted) for run in runs]
    except (AuditError, OSError) as error:
        return failed(ruling.run, str(error))
    return replace(ruling, seals=tuple(filter(None, found)))


def _seal_of(run: Path, asked: Path | None, trusted: Keys | None) -> Seal | None:
    if not (run / MANIFEST).is_file():  # a report alone
        return None
    manifest, path = Manifest.load(run), asked or run / SEAL
    if not path.is_file():
        if asked or manifest.seal:
            raise SignatureError(f"seal_missing: {path} is not there. Put the seal of {run} back.")
        return None
    data = read_bytes(path, MAX_BYTES, follow=asked is not None)
    if trusted is None:
        raise SignatureError(f"seal_no_keys: {path} counts by a trusted key. Expected --keys FOLDER.")
    return checked(data, manifest, trusted, str(path), inside=asked is None)


def checked(data: bytes, manifest: Manifest, trusted: Keys | None, what: str, *, inside: bool) -> Seal:
    """What was sealed, and each field in which the run differs. trusted: None to take the seal's word unsigned. inside:
    the seal lies in the run's own directory. Raises SignatureError that begins with a code."""
    if manifest.seal and sha256(data) != manifest.seal:
        raise SignatureError(f"seal_replaced: {what} is not the seal that the run started with.")
    if inside and not manifest.seal:
        raise SignatureError(f"seal_after_start: {what} was put beside a run that had started without it.")
    signer = None
    try:
        if trusted is None:
            stated = json.loads(base64.b64decode(json.loads(data)["payload"]))
        else:
            stated, signer = unseal(data, trusted, PREDICATE, what)
        found = _compared(stated["predicate"], manifest, what)
        late = datetime.fromisoformat(found.sealed) > datetime.fromisoformat(manifest.started)
    except SignatureError as error:
        if str(error).startswith("seal_"):
            raise
        unknown = "not among the trusted keys" in str(error)
        raise SignatureError(f"{'seal_key_unknown' if unknown else 'seal_edited'}: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise SignatureError(f"seal_edited: {what} is no seal of this program ({error!r}).") from error
    if late:
        raise SignatureError(f"seal_after_start: {what} is of {found.sealed}; the run started {manifest.started}.")
    return replace(found, signer=signer)


def _compared(told: Mapping[str, Any], manifest: Manifest, what: str) -> Seal:
    """A seal's statement against a run (pure). SignatureError where it is of another audit, benchmark or models."""
    run, sealed = _design(manifest), dict(told["design"])
    models, others = _names(sealed, "weights"), _names(run, "weights")
    kin = told["audit"] == manifest.audit and models & others
    if not kin or not _names(sealed, "questions") & _names(run, "questions"):
        raise SignatureError(
            f"seal_of_another_design: {what} is of audit {told['audit']} of {', '.join(sorted(models))}; the run is "
            f"audit {manifest.audit} of {', '.join(sorted(others))}, or on another benchmark."
        )
    # Field by field; a model that one side lacks is one field, not the thirty of its configuration.
    dropped = tuple(f"{part}.{name}." for part in _NAMED for name in models ^ others)
    odd = [key for key in sorted({*sealed, *run}) if sealed.get(key) != run.get(key)]
    changes = [Changed(key, sealed.get(key), run.get(key)) for key in odd if not key.startswith(dropped)]
    return Seal(manifest.audit, None, told["sealed"], tuple(changes), tuple(map(dict, told["detects"])))


def _names(design: Mapping[str, Any], part: str) -> set[str]:
    own = (key.split(".", 1)[1] for key in design if key.startswith(f"{part}."))
    return {name.rsplit(".", 1)[0] if part == "questions" else name for name in own}
