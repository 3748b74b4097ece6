"""Check an evidence pack: every byte, who vouches for it, and with its shards the verdict itself. No network.

Up to the recomputation it needs the standard library, securesystemslib and cryptography.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from zipfile import ZipFile

from audit.errors import AuditError, ConfigError, SignatureError
from audit.governance.archive import check_bytes, extract, hash_entry, open_archive, read_entry
from audit.governance.envelope import MAX_BYTES, subjects_of, unseal
from audit.governance.keys import Trusted

SUMS = "SHA256SUMS"
STATEMENT = "statement.dsse.json"
NOTE = "VERIFY.md"
RUN = "run"
VERDICT = f"{RUN}/report/verdict.json"
PREDICATE = "urn:benchmark-audit:evidence:v1"
_LINE = re.compile(r"([0-9a-f]{64})  (\S.*)")
_MAX_SUMS = 32 << 20


@dataclass(frozen=True)
class Verified:
    """What held. signer: None where nobody's signature was asked for. recomputed: the verdict was computed again."""

    files: int
    signer: str | None
    recomputed: bool


def verify_pack(path: Path, trusted: Mapping[str, Trusted] | None) -> Verified:
    """Check a pack. trusted: whose signature counts; None to check hashes alone.

    Raises SignatureError for the first thing that does not hold.
    """
    with open_archive(path) as archive:
        names = set(archive.namelist())
        run = f"{RUN}/panel.json" if f"{RUN}/panel.json" in names else f"{RUN}/manifest.json"
        for needed in (SUMS, VERDICT, run):
            if needed not in names:
                raise SignatureError(f"{path} has no {needed}: it is no evidence pack.")
        sums = _listed(read_entry(archive, SUMS, _MAX_SUMS), path)
        wanted = {*sums, SUMS} | ({STATEMENT} if STATEMENT in names else set())
        if names != wanted:
            odd = sorted(names ^ wanted)
            raise SignatureError(f"{path}: {odd[0]!r} is {'not listed' if odd[0] in names else 'missing'}.")
        for name in sorted(sums):
            if hash_entry(archive, name) != sums[name]:
                raise SignatureError(f"{path}: {name} is not the file that {SUMS} lists.")
        signer = None
        if trusted is not None:
            signer = _signed(archive, path, names, sums, trusted)
        check_bytes(path, archive)
        recomputed = any(re.match(f"{RUN}/([^/]+/)?shards/", name) for name in names)
        if recomputed:
            _recompute(archive, path)
    return Verified(len(names), signer, recomputed)


def _listed(data: bytes, path: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in data.decode("utf-8", "replace").splitlines():
        match = _LINE.fullmatch(line)
        if match is None or match[2] in found:
            raise SignatureError(f"{path}: {SUMS} has a line that is not '<sha256>  <name>': {line[:80]!r}.")
        found[match[2]] = match[1]
    return found


def _signed(
    archive: ZipFile, path: Path, names: set[str], sums: Mapping[str, str], trusted: Mapping[str, Trusted]
) -> str:
    if STATEMENT not in names:
        raise SignatureError(f"{path} is not signed. To check its hashes alone: --unsigned")
    data = read_entry(archive, STATEMENT, MAX_BYTES)
    stated, signer = unseal(data, trusted, PREDICATE, f"{path}: {STATEMENT}")
    if subjects_of(stated) != {SUMS: hash_entry(archive, SUMS), VERDICT: sums[VERDICT]}:
        raise SignatureError(f"{path}: what {signer} signed is another {SUMS} or another verdict.")
    return signer


def _recompute(archive: ZipFile, path: Path) -> None:
    """The verdict once more, from the pack's own shards, of a suite each audit's too; SignatureError unless it has the
    same bytes."""
    with tempfile.TemporaryDirectory() as folder:
        run_dir, out = Path(folder) / RUN, Path(folder) / "out"
        extract(archive, RUN, run_dir)
        try:
            pairs = _judged_again(run_dir, out)
        except (AuditError, OSError, ValueError) as error:
            raise SignatureError(f"{path}: the verdict could not be computed again: {error}") from error
        for packed, again in pairs:
            if not packed.is_file() or packed.read_bytes() != again.read_bytes():
                raise SignatureError(
                    f"{path}: computed again from the pack's shards, the verdict is another one "
                    f"({packed.relative_to(folder).as_posix()}). It is not of these shards; or was judged with options "
                    "that the manifest does not have (audit.report --seed, --variants); or another version of the "
                    "program made it: environment.json has its hash."
                )


def _judged_again(run_dir: Path, out: Path) -> list[tuple[Path, Path]]:
    """(the pack's verdict, the same again) of a run, or of a suite and of each of its runs."""
    from audit.audits import audit_of, part_of  # here: hashes and signatures need no statistics
    from audit.panel import panel_runs

    runs = panel_runs(run_dir) or [run_dir]
    if any(run.resolve().parent != run_dir.resolve() for run in runs if run != run_dir):
        raise ConfigError("panel.json names runs outside the pack, which are not read.")
    if any(json.loads((run / "manifest.json").read_bytes()).get("analysis", {}).get("references") for run in runs):
        raise ConfigError("the run names directories outside the pack, which are not read.")
    if runs == [run_dir]:
        part_of(audit_of(run_dir).name, "report").report_runs(runs, out, {"seed": None, "control_benchmark": None})
        return [(run_dir / "report" / "verdict.json", out / "verdict.json")]
    import_module("audit.suite.judge").judge_suite(run_dir, out)
    found = [(run_dir / "report" / "verdict.json", out / "verdict.json")]
    names = {run: audit_of(run).name for run in runs}
    return found + [(run / "report" / "verdict.json", out / name / "verdict.json") for run, name in names.items()]
