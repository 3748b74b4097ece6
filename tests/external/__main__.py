"""Print the tables of docs/findings/external.md: the program on evaluations that others made. Never
a test.

`make external` runs this.

DATA=FOLDER names the folder of the published files; a case whose file is not there is skipped by
name."""

import argparse
import sys
import time
from pathlib import Path

from external import answers, findings, guessing, livecodebench, tables

CASES = {
    "livecodebench": ("LiveCodeBench", livecodebench.FILE, livecodebench.report),
    "mmlu_pro": ("MMLU-Pro", answers.PRO, answers.report_pro),
    "helm": ("HELM's answers to MMLU", answers.HELM, answers.report_helm),
    "constat": ("ConStat's tables", tables.FOLDER, tables.report),
    "pythia": ("A model at chance", guessing.FOLDER, guessing.report),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m external", description=__doc__)
    parser.add_argument(
        "cases", nargs="*", choices=[*CASES, []], help="which to run; all by default"
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument(
        "--findings",
        type=Path,
        metavar="FOLDER",
        help="write the gallery's pages in place of tables",
    )
    parser.add_argument(
        "--page",
        nargs="*",
        default=[],
        choices=[*findings.PAGES],
        help="which pages; all by default",
    )
    arguments = parser.parse_args()
    if arguments.findings is not None:
        for line in findings.write(arguments.data, arguments.findings, arguments.page):
            print(line, flush=True)
        return 0
    for name in arguments.cases or CASES:
        title, needed, report = CASES[name]
        print(f"\n## {title}\n", flush=True)
        if not (arguments.data / needed).exists():
            print(f"Skipped: {needed} is not in {arguments.data}.")
            continue
        start = time.monotonic()
        for line in report(arguments.data):
            print(line, flush=True)
        print(f"\n({name}: {time.monotonic() - start:.0f} s)", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
