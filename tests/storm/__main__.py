"""`make storm`: random kills of sweeps on the scripted engine, added to docs/findings/storms.jsonl;
their table.

    PYTHONPATH=tests python -m storm --seconds 240        # as many nights as fit; later ones go on with the next seed
    PYTHONPATH=tests python -m storm --seed 7 --nights 1  # one night again, and nothing is added

Each night is one run: an engine's process, a stage's, the driver or a node is killed, or the disk
is full, at moments that the seed draws; then the same command again, until it ends well. The run
directories lie on a file system of 64 MB of their own (`unshare --mount`, root or a user
namespace), which is what fills up."""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from storm.nights import CHUNK_S, KINDS, SWEEP, Disk, Nodes, night, undisturbed

LEDGER = Path(__file__).resolve().parents[2] / "docs/findings/storms.jsonl"
_PORT = 46579
_DISK_MB = 64
_ALONE = "STORM_HAS_A_DISK"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m storm", description=__doc__.split("\n")[0])
    parser.add_argument(
        "--seconds", type=float, default=240, help="no kill after so long (Ray's start aside)"
    )
    parser.add_argument("--nights", type=int, default=1000, help="at most so many runs")
    parser.add_argument("--kills", type=int, default=10, help="for each run, if it lasts")
    parser.add_argument(
        "--workers", type=int, default=2, help="nodes beside the head; one is killed where two are"
    )
    parser.add_argument(
        "--seed", type=int, help="of the first night; nothing is added to the ledger then"
    )
    parser.add_argument(
        "--table", action="store_true", help="only the table of what the ledger holds"
    )
    options = parser.parse_args()
    if options.table:
        print(table(read_ledger()))
        return 0
    if _ALONE not in os.environ:
        return subprocess.run(
            [*_own_mounts(), sys.executable, "-m", "storm", *sys.argv[1:]], check=False
        ).returncode
    ledger = read_ledger()
    first = (
        options.seed
        if options.seed is not None
        else 1 + max((record["seed"] for record in ledger), default=0)
    )
    begun = time.monotonic()
    clean = True
    folder = Path(tempfile.mkdtemp(prefix="storm-"))
    disk = None
    if os.environ[_ALONE]:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={_DISK_MB}m", "storm", folder], check=True
        )
        disk = Disk(folder)
    else:
        print("No file system of its own can be mounted here: the disk is not filled.")
    possible = {"node": options.workers > 1, "disk full": disk is not None}
    kinds = [kind for kind in KINDS if possible.get(kind, True)]
    nodes = Nodes(options.workers, _PORT)
    try:
        words = [*SWEEP, f"model.scripted.scripted.latency_s={CHUNK_S}"]
        expected = undisturbed(nodes, folder, SWEEP)
        print(
            f"{expected.num_rows} rows undisturbed, Ray is up: {time.monotonic() - begun:.0f} s",
            flush=True,
        )
        begun = time.monotonic()
        for seed in range(first, first + options.nights):
            if time.monotonic() - begun > options.seconds:
                break
            plan = random.Random(-seed).choices(kinds, k=options.kills)
            result = night(
                seed, nodes, folder, disk, expected, words, plan, begun + options.seconds
            )
            record = {**asdict(result), "kills": dict(result.kills)}
            print(json.dumps(record), flush=True)
            if options.seed is None and result.kills:
                with LEDGER.open("a") as file:
                    file.write(json.dumps(record) + "\n")
            if not result.clean:
                clean = False
                copy = Path(tempfile.mkdtemp(prefix="storm-kept-"))
                subprocess.run(["cp", "-r", *folder.glob(f"night-{seed}*"), copy], check=True)
                print(f"NOT CLEAN: {copy}", flush=True)
            subprocess.run(["rm", "-rf", *folder.glob(f"night-{seed}*")], check=True)
    finally:
        nodes.close()
    print(f"{time.monotonic() - begun:.0f} s in all\n\n{table(read_ledger())}")
    return 0 if clean else 1


def _own_mounts() -> list[str]:
    """The words that give a command a mount namespace; $STORM_HAS_A_DISK says whether they
    could."""
    for words in (["unshare", "--mount"], ["unshare", "--map-root-user", "--mount"]):
        mounting = [*words, "mount", "-t", "tmpfs", "storm", "/mnt"]
        if subprocess.run(mounting, capture_output=True, check=False).returncode == 0:
            os.environ[_ALONE] = "yes"
            return words
    os.environ[_ALONE] = ""
    return []


def read_ledger() -> list[dict]:
    return [json.loads(line) for line in LEDGER.read_text().splitlines()] if LEDGER.exists() else []


def table(ledger: list[dict]) -> str:
    """The markdown table of docs/findings/storms.md."""
    kills: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for record in ledger:
        kills.update(record["kills"])
        total.update({name: value for name, value in record.items() if name != "kills"})
    seeds = [record["seed"] for record in ledger] or [0]
    rows = "\n".join(f"| {kind} | {kills[kind]} |" for kind in KINDS)
    return f"""| killed | times |
|---|---|
{rows}
| **all** | **{kills.total()}** |

{len(ledger)} runs (seeds {min(seeds)} to {max(seeds)}), {total["starts"]} starts, \
{total["seconds"] / 60:.0f} minutes. Rows: {total["rows"]:,}; **{total["lost"]} lost, {total["double"]} double, \
{total["wrong"] + total["looked_complete"]} silently wrong**; {total["stuck"]} starts that stood still."""


if __name__ == "__main__":
    sys.exit(main())
