"""Pack the evidence for a run's verdict into one file that others can verify.

To verify a pack: audit evidence verify pack.zip --keys FOLDER
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from audit.commands.again import add_force, suite_section
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


def run(arguments: argparse.Namespace, now: datetime | None = None) -> int:
    """Write an evidence pack or, with `verify`, verify one.

    Parameters
    ----------
    arguments : Namespace
        The arguments of the command line.
    now : datetime, optional
        The time. Without it the clock is read.

    Returns
    -------
    int
        Exit code 0.

    Raises
    ------
    SignatureError
        If the pack is not authentic, or is not of the expected run or model.
    """
    return _verify(arguments, now) if "pack" in arguments else _write(arguments, now)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments for writing a pack or, if `verify` was typed, for verifying a pack."""
    if parser.get_default("typed")[:1] == ["verify"]:
        _add_verify(
            parser.add_subparsers().add_parser("verify", description="Check an evidence pack.")
        )
        return
    run = parser.add_argument("run_dir", type=local_folder, help="a run directory with its report")
    offer(run, lambda typed: ["verify"])
    parser.add_argument("-o", "--out", type=Path, required=True, help="the pack, such as pack.zip")
    shards_help = "pack every answer too, so that others can recompute the verdict"
    parser.add_argument("--with-shards", action="store_true", help=shards_help)
    keys_help = (
        "folder of the public keys whose decisions count; without it decisions are not checked "
    )
    keys_help += f"(default: {TRUSTED_VARIABLE})"
    trusted = os.environ.get(TRUSTED_VARIABLE)
    keys = Path(trusted) if trusted else None
    parser.add_argument("--keys", type=Path, default=keys, help=keys_help)
    add_force(parser)
    signing = parser.add_mutually_exclusive_group()
    signing.add_argument(
        "--key", type=Path, help=f"the private key to sign with (default: {KEY_VARIABLE})"
    )
    signing.add_argument(
        "--unsigned", action="store_true", help="do not sign: readers cannot verify the origin"
    )


def _write(arguments: argparse.Namespace, now: datetime | None) -> int:
    signer = None if arguments.unsigned else load_signer(arguments.key)
    from audit.governance.pack import write_pack  # Verifying a pack does not need this module.
    from audit.shards.files import check_new

    check_new(arguments.out, force=arguments.force)

    trusted = load_trusted(arguments.keys) if arguments.keys else None
    sums = write_pack(
        arguments.run_dir,
        arguments.out,
        with_shards=arguments.with_shards,
        signer=signer,
        trusted=trusted,
        now=now,
    )
    if trusted is None and any(f"/{DECISIONS}/" in name for name in sums):
        print("note: the signatures of the decisions were not checked. To check: --keys FOLDER")
    print(f"{arguments.out}: {len(sums)} files, {'unsigned' if signer is None else 'signed'}")
    return 0


def _add_verify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pack", type=Path, help="the file to verify")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    trust = parser.add_mutually_exclusive_group(required=True)
    trust.add_argument("--keys", type=Path, help="folder of the public keys that you trust")
    trust.add_argument(
        "--unsigned",
        action="store_true",
        help="check the hashes only: the pack is consistent, but its origin is not verified",
    )
    parser.add_argument("--expect-fingerprint", metavar="HASH", help="refuse a pack of another run")
    parser.add_argument(
        "--expect-model", metavar="NAME[@REVISION]", help="refuse a pack of another model"
    )


def _check_expected(arguments: argparse.Namespace, verified: Verified) -> None:
    """Raise SignatureError if the pack is not of the expected run or of the expected model."""
    wanted, name = arguments.expect_fingerprint, arguments.expect_model
    if wanted and wanted not in [run.fingerprint for run in verified.runs]:
        raise SignatureError(
            f"The pack is of the run {verified.runs[0].fingerprint}. Expected the run {wanted}."
        )
    models: dict[str, str | None] = {}
    for run in verified.runs:
        models |= run.models
    pinned = [f"{model}@{revision}" for model, revision in models.items()]
    if name and name not in {*models, *pinned}:
        raise SignatureError(
            f"The pack is of the model {', '.join(pinned)}. Expected the model {name}."
        )


def _print_verified(verified: Verified) -> None:
    """Print what the pack holds, and which parts of it were verified."""
    for run in verified.runs:
        models = []
        for name, revision in run.models.items():
            models.append(f"{name}@{revision}" if revision else name)
        audited = f"{', '.join(models)} on {', '.join(run.benchmarks)}"
        say(f"audit {run.audit} of {audited}: {run.status}")
        say(f"  fingerprint {run.fingerprint}")
    how = "signed" if verified.signer else "packed"
    print(f"{verified.files} files as listed")
    if verified.taken:
        say(f"accepted as {how}, because they cannot be recomputed: {', '.join(verified.taken)}")
    for name in verified.unhashed:
        say(f"NOT HASHED by the manifest, because an earlier version wrote it: {name}")
    _print_decisions(verified)
    for seal in verified.seals:
        # A seal is a signed plan. Most packs have no seal and do not need this module.
        from audit.governance.formats import seal_lines

        for label, line in seal_lines(seal):
            say(f"{label}: {line}")
    if verified.signer:
        print(f"signed by {verified.signer}")
    else:
        print("SIGNATURE NOT CHECKED: the origin of the pack is not verified")
    for name in verified.reworded:
        say(f"NOT THE SAME SENTENCES, or digits beyond the third, as this version computes: {name}")
    if verified.reworded:
        print("verdict computed again from the shards: the same codes and decisions")
    elif verified.recomputed:
        print("verdict computed again from the shards: the same bytes")
    else:
        print("verdict not computed again: the shards are not in the pack")
    passes = "passes" if verified.decision == "pass" else f"does not pass: {verified.decision}"
    say(f"the pack {passes}")


def _print_decisions(verified: Verified) -> None:
    if verified.decisions is None:
        print("DECISIONS NOT CHECKED: they need trusted keys")
        return
    if verified.decisions:
        print(f"{len(verified.decisions)} decisions, each signed by a trusted key")
    for sentence in verified.decisions:
        say(f"decided: {sentence}")


def _verify(arguments: argparse.Namespace, now: datetime | None) -> int:
    from audit.governance.verify import verify_pack

    trusted = None if arguments.unsigned else load_trusted(arguments.keys)
    verified = verify_pack(arguments.pack, trusted, suite_section, now)
    _check_expected(arguments, verified)
    if arguments.json:
        print(json.dumps(plain(asdict(verified)), indent=1))
    else:
        _print_verified(verified)
    return 0
