"""Write an evidence pack of a run directory.

The pack is one zip. For every file on which the verdict depends, it contains the file or the file's
hash.
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from securesystemslib.signer import Signer

from audit.config.audits import audit_of, part_of
from audit.core.errors import ConfigError, ShardError
from audit.core.guarded_files import check_regular, read_bytes
from audit.core.json_types import attributes, plain
from audit.core.package_data import shipped_table
from audit.governance.archive import (
    DEVIATIONS,
    PREDICATE,
    REFERENCES,
    RUN,
    STATEMENT,
    SUITES,
    VERDICT,
    good_name,
    write_archive,
)
from audit.governance.chronology import project_file
from audit.governance.keys import MAX_BYTES, Keys, seal, sha256, statement
from audit.governance.reviews import DECISIONS, chain_of, decision_files
from audit.governance.ruling import bound_to, rule_run
from audit.governance.sealed import checked
from audit.governance.side_files import (
    CHRONOLOGIES,
    LISTED,
    NOTE,
    PROGRAM_CHRONOLOGY,
    SUMS,
    note_text,
    program_sha256,
    prompts_of,
    revisions_of,
)
from audit.judging.decision import Ruling, read_document
from audit.judging.together import parts_of
from audit.report.sensitivity import load_sensitivity
from audit.shards.attempt import ATTEMPT
from audit.shards.complete import listed_shards
from audit.shards.files import file_sha256, make_folder, whole_file
from audit.shards.manifest import MANIFEST, SEAL, Manifest
from audit.shards.panel import PANEL, panel_runs, verdict_path

_REPORT = ("report/verdict.json", "report/report.html")


def write_pack(
    run_dir: Path,
    out: Path,
    *,
    with_shards: bool,
    signer: Signer | None,
    trusted: Keys | None = None,
    now: datetime | None = None,
) -> dict[str, str]:
    """Write the evidence pack of a run, panel or suite.

    With an ed25519 key, the same run and key give the same bytes. With sigstore, each signature
    differs.

    Parameters
    ----------
    run_dir : Path
        The directory of a finished run, or the folder of a panel or suite.
    out : Path
        The zip to write.
    with_shards : bool
        Whether to include the shards and tables, so that the verdict can be recomputed from the
        pack alone.
    signer : Signer or None
        The private key that signs the pack. None writes an unsigned pack.
    trusted : Keys or None
        The keys whose decisions count. With None, signatures of decisions are not checked. The
        order of the decisions and the files that each decision covers are checked in any case.
    now : datetime or None
        The current time. The last decision must have been made before this time. None reads the
        clock.

    Returns
    -------
    dict
        Maps the name of each packed file to its sha256.

    Raises
    ------
    ConfigError
        If the run is not finished. The error is also raised if its verdict is missing, incomplete
        or not computed from the run's shards.
    ShardError
        If a shard or table differs from the one that the manifest lists.
    SignatureError
        If a decision is invalid, or if a decision was removed.
    """
    runs = panel_runs(run_dir)
    manifests = {home: Manifest.load(home) for home in runs or [run_dir]}
    ruling = rule_run(run_dir)
    if ruling.problem:
        raise ConfigError(
            f"{ruling.problem} An evidence pack needs a verdict on the shards beside it."
        )
    _check_finished(manifests)
    _check_decisions(run_dir, manifests, ruling, trusted, now or datetime.now(UTC))
    for home in manifests if with_shards else ():
        _check_own(home)
    if runs is None:
        contents = _contents(run_dir, manifests[run_dir], with_shards)
    else:
        contents = _panel_contents(run_dir, manifests, with_shards)
    _check_names(run_dir, contents)
    packed = list(manifests.values())
    contents[NOTE] = note_text(
        [(m.audit, m.fingerprint) for m in packed], with_shards, signer is not None
    )
    sums = {}
    for name, data in contents.items():
        sums[name] = sha256(data) if isinstance(data, bytes) else file_sha256(data)
    contents[SUMS] = listed = "".join(f"{sums[name]}  {name}\n" for name in sorted(sums)).encode()
    if signer is not None:
        predicate = _predicate(packed, ruling) | {
            "run": run_dir.resolve().name,
            "with_shards": with_shards,
        }
        stated = statement(PREDICATE, {SUMS: sha256(listed), VERDICT: sums[VERDICT]}, predicate)
        contents[STATEMENT] = seal(stated, signer)
    make_folder(out.parent)
    with whole_file(out) as file:
        write_archive(file, contents)
    return sums


def _check_finished(manifests: Mapping[Path, Manifest]) -> None:
    for home, manifest in manifests.items():
        if manifest.status != "finished":
            raise ConfigError(
                f"The status of {home} is {manifest.status}. Expected finished: type its command again."
            )


def _check_decisions(
    run_dir: Path, homes: Iterable[Path], ruling: Ruling, trusted: Keys | None, now: datetime
) -> None:
    """Raise SignatureError unless all decisions on a folder and on each run in the folder are
    valid.
    """
    for home in dict.fromkeys((run_dir, *homes)):
        if decision_files(home):
            bound = bound_to(home, ruling if home == run_dir else rule_run(home))
            chain_of(home, bound, trusted, now)


def _check_names(run_dir: Path, names: Iterable[str]) -> None:
    for name in names:
        if not good_name(name):
            raise ConfigError(
                f"{run_dir} holds {name!r}. Expected names of letters, digits and '. _-': rename the file."
            )


def _predicate(manifests: Sequence[Manifest], ruling: Ruling) -> dict[str, Any]:
    """Return the content of the signed statement: facts about the runs and their verdict."""
    incomplete = []
    for rows in ruling.incomplete:
        incomplete.append(f"{rows.model} on {rows.benchmark}: {rows.watermark}")
    audits, fingerprints = [], []
    models: dict[str, Any] = {}
    for manifest in manifests:
        audits.append(manifest.audit)
        fingerprints.append(manifest.fingerprint)
        models |= revisions_of(manifest.models)
    return {
        "audit": ", ".join(audits),
        "decision": ruling.verdict_decision,
        "fingerprint": ", ".join(fingerprints),
        "incomplete": incomplete,
        "models": models,
    }


def _panel_contents(
    folder: Path, manifests: Mapping[Path, Manifest], with_shards: bool
) -> dict[str, bytes | Path]:
    """Return the files of the pack of a panel or suite.

    The files of each run are in a folder with the run's name.
    """
    panel_files = [folder / name for name in (*SUITES, PANEL, *CHRONOLOGIES)]
    panel_files += (folder / DECISIONS).glob("*.json")
    report = verdict_path(folder).parent  # `audit report --out` writes into the folder itself
    pages = []
    for below in ("", *sorted({manifest.audit for manifest in manifests.values()})):
        pages += [report / below / "verdict.json", report / below / "report.html"]
    contents: dict[str, bytes | Path] = {
        **_named(RUN, folder, panel_files),
        **_named(f"{RUN}/report", report, pages),
    }
    contents[LISTED] = _json(_hashed(contents, {}))
    for name, run in zip(_names(folder, list(manifests)), manifests, strict=True):
        for file, content in _contents(run, manifests[run], with_shards).items():
            contents[f"{RUN}/{name}/{file.removeprefix(f'{RUN}/')}"] = content
    return contents


def _names(folder: Path, runs: Sequence[Path]) -> list[str]:
    """Return the names of several runs in the pack, which are the names of their folders.

    The runs are those of a panel, or the reference runs of a run.
    """
    names = [run.resolve().name for run in runs]
    used = {*names, "report", DECISIONS, REFERENCES}
    if len(set(map(str.casefold, used))) < len(names) + 3:
        raise ConfigError(
            f"The runs of {folder} are named {', '.join(sorted(names))}. Expected different names, and none of "
            f"report, {DECISIONS} or {REFERENCES}."
        )
    return names


def _check_own(run_dir: Path) -> None:
    """Raise ConfigError if the report in a run's directory covers several runs.

    The verdict would then also depend on the shards of the other runs.
    """
    path = run_dir / "report" / "verdict.json"
    parts = parts_of(read_document(path)) if path.is_file() else ()
    if parts and (merged := sum(len(part.runs) for _, part in parts)) != 1:
        raise ConfigError(
            f"{path} covers {merged} runs. Expected a report on this run alone. Build it: audit report {run_dir}"
        )


def _contents(run_dir: Path, manifest: Manifest, with_shards: bool) -> dict[str, bytes | Path]:
    files = [run_dir / name for name in (MANIFEST, SEAL, *_REPORT, *SUITES, *CHRONOLOGIES)]
    files += (run_dir / DECISIONS).glob("*.json")
    packed: dict[str, bytes | Path] = {**_named(RUN, run_dir, files)}
    if manifest.seal and not (run_dir / SEAL).is_file():
        raise ConfigError(
            f"seal_missing: {run_dir / SEAL}, which the manifest names, is missing. Restore it."
        )
    if (run_dir / SEAL).is_file():
        planned = checked(
            read_bytes(run_dir / SEAL, MAX_BYTES), manifest, None, str(run_dir / SEAL), inside=True
        )
        packed[DEVIATIONS] = _json(plain(planned.changed))
    shards = listed_shards(run_dir, manifest)
    extra_files = (*_tables(run_dir), *_others(run_dir))
    if with_shards:
        packed |= _named(RUN, run_dir, (*shards, *extra_files))
        references = [Path(reference) for reference in manifest.analysis.get("references") or ()]
        for name, run in zip(_names(run_dir, references), references, strict=True):
            needed = (
                run / MANIFEST,
                *listed_shards(run, Manifest.load(run)),
                *_tables(run),
                *_others(run),
            )
            packed |= _named(f"{RUN}/{REFERENCES}/{name}", run, needed)
    for name, value in _for_readers(run_dir, manifest).items():
        packed[f"{name}.json"] = _json(value)
    rows = {Path(shard["file"]).name: shard.get("rows") for shard in manifest.shards}
    existing = {name: path for name, path in packed.items() if name != f"{RUN}/{MANIFEST}"}
    existing |= _named(RUN, run_dir, (*shards, *extra_files))
    packed[LISTED] = _json(_hashed(existing, rows))
    return packed | {PROGRAM_CHRONOLOGY: project_file().read_bytes()}


def _hashed(
    contents: Mapping[str, bytes | Path], rows: Mapping[str, int | None]
) -> list[dict[str, Any]]:
    """Return the hash and size of each file of a folder.

    This list shows later whether a file is missing.

    `rows` maps the file name of each shard to its number of rows.
    """
    hashed = []
    for name, path in sorted(contents.items()):
        if not isinstance(path, Path) or f"/{REFERENCES}/" in name:
            continue
        file, size = name.removeprefix(f"{RUN}/"), path.stat().st_size
        hashed.append(
            {"file": file, "rows": rows.get(path.name), "sha256": file_sha256(path), "bytes": size}
        )
    return hashed


def _for_readers(run_dir: Path, manifest: Manifest) -> dict[str, Any]:
    """Return additional files for readers, as a mapping from file name to content.

    The files contain parts of the manifest, and the tables that the verdict cites.
    """
    program = {
        "program_sha256": program_sha256(),
        "schema_version": audit_of(run_dir).schema.version,
    }
    shipped = part_of(manifest.audit, "analyse").JUDGE.shipped
    copies = {
        "config": manifest.config,
        "prompts": prompts_of(manifest.prompt_hashes, manifest.config),
        "environment": attributes(manifest, "audit", "packages", "platform", "python") | program,
        "libraries": headers_of(run_dir),
        "calibration": shipped_table(shipped)
        if shipped
        else None,  # the error rates that the verdicts cite
        "sensitivity": load_sensitivity(run_dir),
    }
    present = {}
    for name, value in copies.items():
        if value is not None:
            present[name] = value
    return present


def _named(below: str, folder: Path, paths: Iterable[Path]) -> dict[str, Path]:
    """Map names in the pack to the files that exist.

    Raises ConfigError if a file is a link.

    Links are refused, since a link may point to any file that the signer can read.
    """
    named = {}
    for path in paths:
        if os.path.lexists(path):
            named[f"{below}/{path.relative_to(folder).as_posix()}"] = path
    home = folder.resolve()
    links = []
    for path in named.values():
        if path.resolve() != home / path.relative_to(folder):
            links.append(path)
    if links:
        raise ConfigError(
            f"{links[0]} is a link, or in a folder that is a link. Expected the file itself."
        )
    existing = {}
    for name, path in named.items():
        if path.is_file():
            existing[name] = path
    return existing


def _tables(run_dir: Path) -> list[Path]:
    """Return the paths of a run's tables, which contain questions and libraries.

    Tables are hashed in the same way as shards.
    """
    return sorted(run_dir.glob("*.arrow"))


def _others(run_dir: Path) -> list[Path]:
    """Return the files in the run's directory on which the verdict depends, except shards and
    tables.
    """
    skipped = {MANIFEST, ATTEMPT, *CHRONOLOGIES}
    files = []
    for path in run_dir.iterdir():
        if path.is_file() and not path.name.startswith("."):
            files.append(path)
    others = []
    for path in files:
        if path.name not in skipped and path.suffix != ".arrow":
            others.append(path)
    return sorted(others)


def headers_of(run_dir: Path) -> dict[str, Any]:
    """Return the metadata of each table of a run.

    Parameters
    ----------
    run_dir : Path
        A run directory.

    Returns
    -------
    dict
        The content of libraries.json: it maps the file name of each table to the table's metadata.
        Tables without metadata are left out.
    """
    headers = {}
    for path in _tables(run_dir):
        header = _header(path)
        if header:
            headers[path.name] = header
    return headers


def _header(path: Path) -> dict[str, Any] | None:
    """Return the metadata in an Arrow file's schema; None if the schema has no metadata."""
    try:
        check_regular(path)
        with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as reader:
            metadata = reader.schema.metadata or {}
    except (pa.ArrowInvalid, OSError) as error:
        raise ShardError(
            f"{path} is not a valid Arrow file ({error}). Restore it, or run the audit again."
        ) from error
    header: dict[str, Any] = {}
    for key, value in metadata.items():
        name, text = key.decode(errors="replace"), value.decode(errors="replace")
        try:
            header[name] = json.loads(text)
        except ValueError:
            header[name] = text
    return header or None


def _json(value: Any) -> bytes:
    return (json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False) + "\n").encode(
        "utf-8", "backslashreplace"
    )
