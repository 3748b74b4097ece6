"""Rebuild the report from shards: `python -m audit.report RUN_DIR [RUN_DIR ...] [--out DIR]`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from audit.audits import audit_of
from audit.errors import AuditError, ConfigError
from audit.verdict.watermark import COMPLETE_IT


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0 when the report was written, whatever the verdict; 1 when it could not be."""
    parser = argparse.ArgumentParser(
        prog="python -m audit.report",
        description="Rebuild verdict, figures, tables and page from shards alone; several runs become one panel.",
        epilog="example: python -m audit.report outputs/llama outputs/qwen --out outputs/panel",
    )
    parser.add_argument("run_dirs", nargs="+", type=Path, metavar="RUN_DIR", help="directory that holds shards/")
    parser.add_argument("--out", type=Path, default=None, help="where to write (default: RUN_DIR/report of the first)")
    parser.add_argument("--seed", type=int, default=None, help="seed of the resamples (default: the run's)")
    parser.add_argument(
        "--control-benchmark", default=None, help="benchmark of fresh items in the same runs (default: the run's)"
    )
    arguments = parser.parse_args(argv)
    out = arguments.out or arguments.run_dirs[0] / "report"
    asked = {"seed": arguments.seed, "control_benchmark": arguments.control_benchmark}
    try:
        audits = {audit_of(run_dir).name for run_dir in arguments.run_dirs}
        if len(audits) > 1:
            raise ConfigError(f"The runs are of several audits ({', '.join(sorted(audits))}). Report them one by one.")
        if audits == {"perturb"}:
            from audit.perturb import report as perturb

            paths = perturb.build_report(arguments.run_dirs, out, seed=arguments.seed)
        elif audits == {"memory"}:
            from audit.memory import report as memory

            paths = memory.build_report(arguments.run_dirs, out, seed=arguments.seed)
        else:
            options = analysis_options(arguments.run_dirs, asked)
            from audit.report.build import build_report  # here: --help needs no matplotlib

            paths = build_report(arguments.run_dirs, out, **options)
    except AuditError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for rows in paths.incomplete:
        print(f"{rows.watermark.upper()}: {rows.model} on {rows.benchmark}. {COMPLETE_IT}")
    print(f"report   {paths.html}\nverdict  {paths.verdict}\ntables   {out / 'tables'}\nfigures  {out / 'figures'}")
    return 0


def analysis_options(run_dirs: Sequence[Path], asked: dict[str, Any]) -> dict[str, Any]:
    """seed, thresholds and control benchmark: as asked for, else as the runs' manifests say; no manifest, the defaults.

    Raises ConfigError where the runs were judged differently: then no one verdict is theirs.
    """
    from audit.shards.manifest import MANIFEST, Manifest
    from audit.verdict.thresholds import Thresholds

    options: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    found = [(d, Manifest.load(d).analysis) for d in run_dirs if (d / MANIFEST).exists()]
    for name in ("seed", "thresholds", "control_benchmark"):
        told = [(run_dir, analysis[name]) for run_dir, analysis in found if analysis.get(name) is not None]
        if name in options or not told:
            continue
        if any(value != told[0][1] for _, value in told):
            listed = "; ".join(f"{run_dir}: {value}" for run_dir, value in told)
            way = "Start the runs again with the same verdict.* (nothing is computed twice)."
            if name != "thresholds":
                way = f"Say which: --{name.replace('_', '-')} {told[0][1]}."
            raise ConfigError(f"The runs were judged with different {name}: {listed}. {way}")
        options[name] = told[0][1]
    if "thresholds" in options:
        options["thresholds"] = Thresholds.from_mapping(options["thresholds"])
    return options


if __name__ == "__main__":
    sys.exit(main())
