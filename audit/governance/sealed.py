"""Sign the plan of a run in advance, and compare the run with this plan.

This is a preregistration of the run (li2026, App. K).

A seal is a signed file that is written before the first answer. It states the design of a run, the
thresholds of the verdict, and the effects that the run can detect. `audit plan --seal` writes
RUN_DIR/seal.dsse.json. When the run starts, the hash of this file is stored in the run's manifest.
The message of an error about a seal begins with a code: seal_edited, seal_key_unknown,
seal_no_keys, seal_missing, seal_replaced, seal_after_start or seal_of_another_design.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from securesystemslib.signer import Signer

from audit.config.audits import part_of
from audit.core.errors import AuditError, ConfigError, SignatureError
from audit.core.guarded_files import read_bytes
from audit.core.json_types import plain
from audit.governance.keys import MAX_BYTES, Keys, load_trusted, seal, sha256, statement, unseal
from audit.governance.reviews import add_file
from audit.judging.decision import Changed, Ruling, Seal, failed
from audit.shards.files import SHARDS
from audit.shards.manifest import MANIFEST, SEAL, Manifest, deciding
from audit.shards.object_store import is_url
from audit.shards.panel import panel_runs
from audit.shards.shard_file import shard_paths

if TYPE_CHECKING:
    from audit.config.dry_run import Planned

PREDICATE = "urn:benchmark-audit:seal:v1"
_DETECTS = ("model", "benchmark", "questions_needed")
# These parts of a configuration have one entry for each model.
_NAMED = (
    "model",
    "protocols",
    "answering",
)


def write_seal(planned: Planned, out: Path | None, signer: Signer, now: datetime) -> Path:
    """Sign the plan of a run.

    Parameters
    ----------
    planned : Planned
        The run as `audit plan` planned it.
    out : Path or None
        The file to write. None writes into the run's directory.
    signer : Signer
        The private key or identity that signs the plan.
    now : datetime
        The current time, which the seal states.

    Returns
    -------
    Path
        The seal's file.

    Raises
    ------
    ConfigError
        If the run has begun, or the file exists already.
    EngineError
        If a model of the run cannot be used.
    """
    run = planned.resolved
    if (run.path / MANIFEST).exists() or shard_paths(run.path / SHARDS):
        raise ConfigError(
            f"seal_after_start: {run.path} has begun. Seal before the run, or choose another run_dir=."
        )
    if out is None and is_url(run.config.run_dir or ""):
        raise ConfigError(
            f"The run directory is {run.config.run_dir}, but a seal is a local file. Expected a "
            "local path for the seal. "
            "Example: --seal -o seal.dsse.json"
        )
    thresholds_class = getattr(
        part_of(run.audit.name, "config"), f"{run.audit.name.capitalize()}Thresholds"
    )
    thresholds = thresholds_class.from_mapping(run.config.verdict).to_dict()
    prompt_hashes = {name: protocol.sha256 for name, protocol in run.protocols.items()}
    benchmarks = {sample.benchmark.name: sample.facts() for sample in run.samples}
    manifest = Manifest(
        run.identity,
        run.plain,
        analysis={"thresholds": thresholds, **run.analysis},
        prompt_hashes=prompt_hashes,
        benchmark=benchmarks,
        models=run.models,
    )
    predicate = {
        "audit": run.audit.name,
        "sealed": now.isoformat(timespec="seconds"),
        "design": _design(manifest),
        "detects": [_detects(planned.facts(model)) for model in planned.counts()],
    }
    path = out or run.path / SEAL
    return add_file(
        path, seal(statement(PREDICATE, {"design": run.identity}, plain(predicate)), signer)
    )


def _detects(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts that describe which effects the run of a model can detect."""
    detectable = {}
    for key, value in facts.items():
        if key in _DETECTS or "detectable" in key:
            detectable[key] = value
    return detectable


def _design(run: Manifest) -> dict[str, Any]:
    """Map the dotted name of each setting on which the answers or the verdict depend to its value."""
    design = deciding(run.config)
    for name, value in run.analysis.get("thresholds", {}).items():
        design[f"verdict.{name}"] = value
    design["references"] = []
    for reference in run.analysis.get("references") or ():
        design["references"].append(Path(reference).name)
    for name, value in run.prompt_hashes.items():
        design[f"prompts.{name}"] = value
    for name, facts in run.benchmark.items():
        for key in ("revision", "n", "ids_sha256"):
            design[f"questions.{name}.{key}"] = facts.get(key)
    for name, facts in run.models.items():
        design[f"weights.{name}"] = facts.get("revision")
    return design


def with_seals(ruling: Ruling, folder: Path, path: Path | None, keys: Path | None) -> Ruling:
    """Check the seals of the runs, and add them to a ruling.

    Parameters
    ----------
    ruling : Ruling
        The ruling on a run, panel or suite.
    folder : Path
        The folder of the run, panel or suite.
    path : Path or None
        The path of a seal outside the run's directory, which is possible for a single run only.
    keys : Path or None
        The folder of trusted keys.

    Returns
    -------
    Ruling
        The ruling with the seals; a failed ruling if a seal is invalid.
    """
    if ruling.problem:
        return ruling
    try:
        runs = panel_runs(folder) or [folder]
        if path is not None and len(runs) > 1:
            raise ConfigError(
                "--seal is for one run. The seals of a panel's runs are read from their directories."
            )
        trusted = load_trusted(keys) if keys else None
        seals = [_seal_of(run, path, trusted) for run in runs]
    except (AuditError, OSError) as error:
        return failed(ruling.run, str(error))
    return replace(ruling, seals=tuple(filter(None, seals)))


def _seal_of(run: Path, outside: Path | None, trusted: Keys | None) -> Seal | None:
    if not (run / MANIFEST).is_file():  # the folder holds a report without its run
        return None
    manifest, path = Manifest.load(run), outside or run / SEAL
    if not path.is_file():
        if outside or manifest.seal:
            raise SignatureError(f"seal_missing: {path} is missing. Restore the seal of {run}.")
        return None
    data = read_bytes(path, MAX_BYTES, follow=outside is not None)
    if trusted is None:
        raise SignatureError(
            f"seal_no_keys: the trusted keys to check {path} are missing. Expected --keys FOLDER."
        )
    return checked(data, manifest, trusted, str(path), inside=outside is None)


def checked(
    data: bytes, manifest: Manifest, trusted: Keys | None, file: str, *, inside: bool
) -> Seal:
    """Check a seal, and compare the run with it.

    Parameters
    ----------
    data : bytes
        The content of the seal's file.
    manifest : Manifest
        The run's manifest.
    trusted : Keys or None
        The trusted keys. None reads the seal without checking its signature.
    file : str
        The seal's file, for messages.
    inside : bool
        Whether the seal is in the run's own directory.

    Returns
    -------
    Seal
        The content of the seal, and a list of the fields in which the run differs from the seal.

    Raises
    ------
    SignatureError
        If the seal is invalid. The message begins with a code.
    """
    if manifest.seal and sha256(data) != manifest.seal:
        raise SignatureError(f"seal_replaced: {file} is not the seal that the run started with.")
    if inside and not manifest.seal:
        raise SignatureError(
            f"seal_after_start: {file} was added to a run that had started without a seal."
        )
    signer = None
    try:
        if trusted is None:
            stated = json.loads(base64.b64decode(json.loads(data)["payload"]))
        else:
            stated, signer = unseal(data, trusted, PREDICATE, file)
        seal = _compared(stated["predicate"], manifest, file)
        late = datetime.fromisoformat(seal.sealed) > datetime.fromisoformat(manifest.started)
    except SignatureError as error:
        if str(error).startswith("seal_"):
            raise
        unknown = "not among the trusted keys" in str(error)
        raise SignatureError(
            f"{'seal_key_unknown' if unknown else 'seal_edited'}: {error}"
        ) from error
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise SignatureError(
            f"seal_edited: {file} is not a seal of this program ({error!r})."
        ) from error
    if late:
        raise SignatureError(
            f"seal_after_start: {file} was made at {seal.sealed}, after the run started "
            f"({manifest.started})."
        )
    return replace(seal, signer=signer)


def _compared(predicate: Mapping[str, Any], manifest: Manifest, file: str) -> Seal:
    """Compare the plan in a seal with a run (pure).

    Raises SignatureError if the seal is about another audit, another benchmark or other models.
    """
    run, sealed = _design(manifest), dict(predicate["design"])
    models, others = _names(sealed, "weights"), _names(run, "weights")
    comparable = predicate["audit"] == manifest.audit and models & others
    if not comparable or not _names(sealed, "questions") & _names(run, "questions"):
        raise SignatureError(
            f"seal_of_another_design: {file} is the seal of audit {predicate['audit']} for "
            f"{', '.join(sorted(models))}. The run "
            f"is audit {manifest.audit} of {', '.join(sorted(others))}, or on another benchmark."
        )
    # A model that is missing in the seal or in the run counts as one difference, not as one for
    # each field of its configuration.
    unpaired = tuple(f"{part}.{name}." for part, name in product(_NAMED, models ^ others))
    changes = []
    for key in sorted({*sealed, *run}):
        before, after = sealed.get(key), run.get(key)
        if before != after and not key.startswith(unpaired):
            changes.append(Changed(key, before, after))
    return Seal(
        manifest.audit,
        None,
        predicate["sealed"],
        tuple(changes),
        tuple(map(dict, predicate["detects"])),
    )


def _names(design: Mapping[str, Any], part: str) -> set[str]:
    names = set()
    for key in design:
        if key.startswith(f"{part}."):
            name = key.split(".", 1)[1]
            names.add(name.rsplit(".", 1)[0] if part == "questions" else name)
    return names
