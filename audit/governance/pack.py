"""A run directory as an evidence pack: everything that a verdict rests on, or its hash, in one zip."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from securesystemslib.signer import Signer

from audit.audits import audit_of, part_of
from audit.chronology import project_file
from audit.decision import Ruling, read_document
from audit.errors import ConfigError, ShardError
from audit.governance.keys import MAX_BYTES, Keys, seal, sha256, statement
from audit.governance.reviews import DECISIONS, SUITES, chain_of, decision_files
from audit.governance.ruling import bound_to, rule_run, verdict_path
from audit.governance.sealed import checked
from audit.governance.side_files import (
    CHRONOLOGIES,
    NOTE,
    PROGRAM_CHRONOLOGY,
    SUMS,
    note_text,
    program_sha256,
    prompts_of,
)
from audit.governance.verify import DEVIATIONS, PREDICATE, REFERENCES, RUN, STATEMENT, VERDICT, good_name, write_archive
from audit.guarded_files import check_regular, read_bytes
from audit.json_types import attributes, plain
from audit.panel import PANEL, panel_runs
from audit.report.sensitivity import load_sensitivity
from audit.shards.attempt import ATTEMPT
from audit.shards.complete import listed_shards
from audit.shards.files import file_sha256, make_folder, whole_file
from audit.shards.manifest import MANIFEST, SEAL, Manifest
from audit.verdict.shipped import shipped_table
from audit.verdict.together import parts_of

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
    """Write the evidence pack of a run, panel or suite. The same run and key give the same bytes (sigstore signs anew
    each time).

    Parameters
    ----------
    signer : None for a pack that nobody vouches for
    trusted : whose decisions count; with None their order and what they bind are checked, and no signature
    now : the time, in which the last decision is past; the clock's by default

    Returns
    -------
    dict
        The sha256 of each file, by name

    Raises
    ------
    ConfigError
        if there is no finished run, no whole verdict or one that is not of these shards
    ShardError
        if a shard or table is not the one that the manifest lists
    SignatureError
        if a decision does not hold, or one was taken out
    """
    runs = panel_runs(run_dir)
    manifests = {home: Manifest.load(home) for home in runs or [run_dir]}
    ruling = rule_run(run_dir)
    if ruling.problem:
        raise ConfigError(f"{ruling.problem} An evidence pack is of a verdict on the shards that are there.")
    for home, manifest in manifests.items():
        if manifest.status != "finished":
            raise ConfigError(f"{home} is {manifest.status}. Expected a finished run: type its command again.")
    for home in dict.fromkeys((run_dir, *manifests)):
        if decision_files(home):
            bound = bound_to(home, ruling if home == run_dir else rule_run(home))
            chain_of(home, bound, trusted, now or datetime.now(UTC))
    for home in manifests if with_shards else ():
        _check_own(home)
    if runs is None:
        contents = _contents(run_dir, manifests[run_dir], with_shards)
    else:
        contents = _panel_contents(run_dir, manifests, with_shards)
    if odd := [name for name in contents if not good_name(name)]:
        raise ConfigError(f"{run_dir} holds {odd[0]!r}. Expected names of letters, digits and '. _-': rename the file.")
    every = list(manifests.values())
    contents[NOTE] = note_text([(one.audit, one.fingerprint) for one in every], with_shards, signer is not None)
    sums = {name: sha256(data) if isinstance(data, bytes) else file_sha256(data) for name, data in contents.items()}
    contents[SUMS] = listed = "".join(f"{sums[name]}  {name}\n" for name in sorted(sums)).encode()
    if signer is not None:
        told = _told(every, ruling) | {"run": run_dir.resolve().name, "with_shards": with_shards}
        stated = statement(PREDICATE, {SUMS: sha256(listed), VERDICT: sums[VERDICT]}, told)
        contents[STATEMENT] = seal(stated, signer)
    make_folder(out.parent)
    with whole_file(out) as file:
        write_archive(file, contents)
    return sums


def _told(every: Sequence[Manifest], ruling: Ruling) -> dict[str, Any]:
    """What the signed statement says of the runs and their verdict."""
    return {
        "audit": ", ".join(one.audit for one in every),
        "decision": ruling.verdict_decision,
        "fingerprint": ", ".join(one.fingerprint for one in every),
        "incomplete": [f"{r.model} on {r.benchmark}: {r.watermark}" for r in ruling.incomplete],
        "models": {name: facts.get("revision") for one in every for name, facts in one.models.items()},
    }


def _panel_contents(folder: Path, manifests: Mapping[Path, Manifest], with_shards: bool) -> dict[str, bytes | Path]:
    """A panel's or suite's own files, and below each run's name everything of that run."""
    own = [*(folder / name for name in (*SUITES, PANEL, *CHRONOLOGIES)), *(folder / DECISIONS).glob("*.json")]
    report = verdict_path(folder).parent  # the folder itself, where audit report --out merged the runs
    audits = sorted({manifest.audit for manifest in manifests.values()})
    pages = [report / below / name for below in ("", *audits) for name in ("verdict.json", "report.html")]
    found: dict[str, bytes | Path] = {**_named(RUN, folder, own), **_named(f"{RUN}/report", report, pages)}
    for name, run in zip(_names(folder, list(manifests)), manifests, strict=True):
        for file, content in _contents(run, manifests[run], with_shards).items():
            found[f"{RUN}/{name}/{file.removeprefix(f'{RUN}/')}"] = content
    return found


def _names(folder: Path, runs: Sequence[Path]) -> list[str]:
    """What the runs of a panel, or the reference runs of a run, are called in the pack: by their folders."""
    names = [run.resolve().name for run in runs]
    taken = {*names, "report", DECISIONS, REFERENCES}
    if len({name.casefold() for name in taken}) < len(names) + 3:
        raise ConfigError(
            f"{folder} is of runs called {', '.join(sorted(names))}. Expected names of their own, none of them report, "
            f"{DECISIONS} or {REFERENCES}."
        )
    return names


def _check_own(run_dir: Path) -> None:
    """ConfigError where the report in a run's directory is of several runs, and so of other shards too."""
    path = run_dir / "report" / "verdict.json"
    parts = parts_of(read_document(path)) if path.is_file() else ()
    if parts and (merged := sum(len(part.runs) for _, part in parts)) != 1:
        raise ConfigError(f"{path} is of {merged} runs together. Build the run's own again: audit report {run_dir}")


def _contents(run_dir: Path, manifest: Manifest, with_shards: bool) -> dict[str, bytes | Path]:
    own = (run_dir / name for name in (MANIFEST, SEAL, *_REPORT, *SUITES, *CHRONOLOGIES))
    found: dict[str, bytes | Path] = {**_named(RUN, run_dir, (*own, *(run_dir / DECISIONS).glob("*.json")))}
    if manifest.seal and not (run_dir / SEAL).is_file():
        raise ConfigError(f"seal_missing: {run_dir / SEAL}, which the manifest names, is not there. Put it back.")
    if (run_dir / SEAL).is_file():
        kept = checked(read_bytes(run_dir / SEAL, MAX_BYTES), manifest, None, str(run_dir / SEAL), inside=True)
        found[DEVIATIONS] = _json(plain(kept.changed))
    shards = listed_shards(run_dir, manifest)
    tables = _tables(run_dir)
    if with_shards:
        found |= _named(RUN, run_dir, (*shards, *tables, *_others(run_dir)))
        compared = [Path(one) for one in manifest.analysis.get("references") or ()]
        for name, other in zip(_names(run_dir, compared), compared, strict=True):
            theirs = (other / MANIFEST, *listed_shards(other, Manifest.load(other)), *_tables(other), *_others(other))
            found |= _named(f"{RUN}/{REFERENCES}/{name}", other, theirs)
    found |= {f"{name}.json": _json(one) for name, one in _for_readers(run_dir, manifest, shards, tables).items()}
    return found | {PROGRAM_CHRONOLOGY: project_file().read_bytes()}


def _for_readers(run_dir: Path, manifest: Manifest, shards: Sequence[Path], tables: Sequence[Path]) -> dict[str, Any]:
    """What the manifest, the hashes and the tables that the verdict cites say, each by its file's name."""
    rows = {Path(one["file"]).name: one.get("rows") for one in manifest.shards}
    hashed = [
        {
            "file": path.relative_to(run_dir).as_posix(),
            "rows": rows.get(path.name),
            "sha256": file_sha256(path),
            "bytes": path.stat().st_size,
        }
        for path in (*shards, *tables)
    ]
    program = {"program_sha256": program_sha256(), "schema_version": audit_of(run_dir).schema.version}
    shipped = part_of(manifest.audit, "analyse").JUDGE.shipped
    told = {
        "config": manifest.config,
        "prompts": prompts_of(manifest.prompt_hashes, manifest.config),
        "environment": attributes(manifest, "audit", "packages", "platform", "python") | program,
        "shards": hashed,
        "libraries": headers_of(run_dir),
        "calibration": shipped_table(shipped) if shipped else None,  # of error rates, as its verdicts cite it
        "sensitivity": load_sensitivity(run_dir),
    }
    return {name: one for name, one in told.items() if one is not None}


def _named(below: str, folder: Path, paths: Iterable[Path]) -> dict[str, Path]:
    """Those of these files that are there, by their names in the pack. ConfigError for a link: what it points to may be
    anything that the signer can read."""
    found = {f"{below}/{path.relative_to(folder).as_posix()}": path for path in paths if os.path.lexists(path)}
    home = folder.resolve()
    if links := [path for path in found.values() if path.resolve() != home / path.relative_to(folder)]:
        what = "is a link, or in a folder that is a link"
        raise ConfigError(f"{links[0]} {what}. Expected the file itself: what lies elsewhere is no evidence.")
    return {name: path for name, path in found.items() if path.is_file()}


def _tables(run_dir: Path) -> list[Path]:
    """What is hashed beside the shards: questions, libraries."""
    return sorted(run_dir.glob("*.arrow"))


def _others(run_dir: Path) -> list[Path]:
    """What else an audit left beside its shards to judge by."""
    skipped = {MANIFEST, ATTEMPT, *CHRONOLOGIES}
    files = [path for path in run_dir.iterdir() if path.is_file() and not path.name.startswith(".")]
    return sorted(path for path in files if path.name not in skipped and path.suffix != ".arrow")


def headers_of(run_dir: Path) -> dict[str, Any] | None:
    """Return what each table of a run says of itself, as libraries.json holds it; None if none does."""
    headers = {path.name: _header(path) for path in _tables(run_dir)}
    return {name: header for name, header in headers.items() if header} or None


def _header(path: Path) -> dict[str, Any] | None:
    """What an Arrow file says of itself; None where it says nothing."""
    try:
        check_regular(path)
        with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as reader:
            told = reader.schema.metadata or {}
    except (pa.ArrowInvalid, OSError) as error:
        raise ShardError(f"{path} is not a valid Arrow file ({error}). Restore it, or run the audit again.") from error
    out: dict[str, Any] = {}
    for key, value in told.items():
        name, text = (one.decode(errors="replace") for one in (key, value))
        try:
            out[name] = json.loads(text)
        except ValueError:
            out[name] = text
    return out or None


def _json(value: Any) -> bytes:
    return (json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")
