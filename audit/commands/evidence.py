"""Everything that a run's verdict rests on, in one file that others can check.

To check one: audit evidence verify pack.zip --keys FOLDER
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from audit.commands.again import suite_section
from audit.commands.completion import offer
from audit.core.errors import SignatureError
from audit.core.exits import say
from audit.core.json_types import plain
from audit.governance.keys import (
    DECISIONS,
    KEY_VARIABLE,
    TRUSTED_VARIABLE,
    load_signer,
    load_trusted,
)
from audit.shards.working_copy import local_folder

if TYPE_CHECKING:
    from audit.governance.verify import Verified


def run(asked: argparse.Namespace, now: datetime | None = None) -> int:
    """Write or verify an evidence pack. now: the clock's by default."""
    return _verify(asked, now) if "pack" in asked else _write(asked, now)


def add_words(parser: argparse.ArgumentParser) -> None:
    """`verify` has words of its own, as a command below this one."""
    if parser.get_default("typed")[:1] == ["verify"]:
        _add_verify(
            parser.add_subparsers().add_parser("verify", description="Check an evidence pack.")
        )
        return
    run = parser.add_argument("run_dir", type=local_folder, help="a run directory with its report")
    offer(run, lambda typed: ["verify"])
    parser.add_argument("-o", "--out", type=Path, required=True, help="the pack, such as pack.zip")
    every = "with every answer, so that the verdict can be redone"
    parser.add_argument("--with-shards", action="store_true", help=every)
    whose = f"folder of the public keys whose decisions count (default: {TRUSTED_VARIABLE}; without: not checked)"
    trusted = os.environ.get(TRUSTED_VARIABLE)
    parser.add_argument("--keys", type=Path, default=Path(trusted) if trusted else None, help=whose)
    signing = parser.add_mutually_exclusive_group()
    signing.add_argument(
        "--key", type=Path, help=f"the private key to sign with (default: {KEY_VARIABLE})"
    )
    signing.add_argument(
        "--unsigned", action="store_true", help="without a signature: nobody vouches for it"
    )


def _write(asked: argparse.Namespace, now: datetime | None) -> int:
    signer = None if asked.unsigned else load_signer(asked.key)
    from audit.governance.pack import write_pack  # Verifying a pack does not need this module.

    trusted = load_trusted(asked.keys) if asked.keys else None
    sums = write_pack(
        asked.run_dir,
        asked.out,
        with_shards=asked.with_shards,
        signer=signer,
        trusted=trusted,
        now=now,
    )
    if trusted is None and any(f"/{DECISIONS}/" in name for name in sums):
        print("note: whose decisions these are was not checked. To check: --keys FOLDER")
    print(f"{asked.out}: {len(sums)} files, {'unsigned' if signer is None else 'signed'}")
    return 0


def _add_verify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pack", type=Path)
    parser.add_argument("--json", action="store_true")
    trust = parser.add_mutually_exclusive_group(required=True)
    trust.add_argument("--keys", type=Path, help="folder of the public keys that you trust")
    trust.add_argument(
        "--unsigned",
        action="store_true",
        help="hashes alone: the pack is consistent, whoever made it",
    )
    parser.add_argument("--expect-fingerprint", metavar="HASH", help="refuse a pack of another run")
    parser.add_argument(
        "--expect-model", metavar="NAME[@REVISION]", help="refuse a pack of another model"
    )


def _expected(asked: argparse.Namespace, found: Verified) -> None:
    """SignatureError where the pack is sound and of something else than was asked for."""
    wanted, name = asked.expect_fingerprint, asked.expect_model
    if wanted and wanted not in [run.fingerprint for run in found.runs]:
        raise SignatureError(
            f"The pack is of the run {found.runs[0].fingerprint}; expected {wanted}."
        )
    models = {model: revision for run in found.runs for model, revision in run.models.items()}
    if name and name not in {
        *models,
        *(f"{model}@{revision}" for model, revision in models.items()),
    }:
        raise SignatureError(
            f"The pack is of {', '.join(f'{m}@{r}' for m, r in models.items())}; expected {name}."
        )


def _verify(asked: argparse.Namespace, now: datetime | None) -> int:
    from audit.governance.verify import verify_pack

    found = verify_pack(
        asked.pack, None if asked.unsigned else load_trusted(asked.keys), suite_section, now
    )
    _expected(asked, found)
    if asked.json:
        print(json.dumps(plain(asdict(found)), indent=1))
        return 0
    for run in found.runs:
        models = ", ".join(
            f"{name}@{revision}" if revision else name for name, revision in run.models.items()
        )
        say(f"audit {run.audit} of {models} on {', '.join(run.benchmarks)}: {run.status}")
        say(f"  fingerprint {run.fingerprint}")
    how = "signed" if found.signer else "packed"
    print(f"{found.files} files as listed")
    if found.taken:
        say(f"as {how}, and not derived from anything else: {', '.join(found.taken)}")
    for name in found.unhashed:
        say(f"NOT HASHED by a manifest, which an earlier version wrote: {name}")
    if found.decisions is None:
        print("DECISIONS NOT CHECKED: they need trusted keys")
    elif found.decisions:
        print(f"{len(found.decisions)} decisions, each signed by a trusted key")
    for sentence in found.decisions or ():
        say(f"decided: {sentence}")
    for seal in found.seals:
        # Most packs have no seal and do not need this module.
        from audit.governance.formats import seal_lines

        for label, line in seal_lines(seal):
            say(f"{label}: {line}")
    print(
        f"signed by {found.signer}"
        if found.signer
        else "SIGNATURE NOT CHECKED: nobody vouches for it"
    )
    lacking = "not computed again: the shards are not in the pack"
    passes = "passes" if found.decision == "pass" else f"does not pass: {found.decision}"
    print(
        f"verdict {'computed again from the shards: the same bytes' if found.recomputed else lacking}"
    )
    say(f"the pack {passes}")
    return 0
