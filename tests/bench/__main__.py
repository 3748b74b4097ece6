"""`make bench`: every benchmark, as JSON and as a table of figure, target and whether it was
reached. Never a test."""

import argparse
import json
import subprocess
import sys
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import engine, orchestration

PARTS = ("orchestration", "statistics", "engine")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "parts", nargs="*", choices=[*PARTS, []], help="which to run; all by default"
    )
    parts = parser.parse_args().parts or list(PARTS)
    results: dict[str, Any] = {}
    rows: list[tuple[str, str, str, bool]] = []
    if "orchestration" in parts:
        figures = results["orchestration"] = orchestration.measure()
        rate, growth = figures["generations_per_s"], figures["driver_growth_mb"]
        rows.append(
            ("generations per second, scripted engine", f"{rate:,.0f}", ">= 8,000", rate >= 8000)
        )
        rows.append(
            (
                "driver memory, 10,000 to 100,000 questions",
                f"{growth:+.0f} MB",
                "< 50 MB",
                growth < 50,
            )
        )
    if "statistics" in parts:
        done = subprocess.run(
            [sys.executable, "-m", "bench.statistics"],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        figures = results["statistics"] = json.loads(done.stdout)
        seconds, peak, speedup = (
            figures["total_wall_s"],
            figures["peak_rss_bytes"] / 1e9,
            figures["speedup_wall"],
        )
        rows.append(
            ("all statistics, 12 x 9 x 10,000", f"{seconds:.1f} s", "<= 60 s", seconds <= 60)
        )
        rows.append(("their peak memory", f"{peak:.2f} GB", "<= 2 GB", peak <= 2))
        rows.append(("times faster than SciPy per cell", f"{speedup:.0f}", ">= 20", speedup >= 20))
    if "engine" in parts:
        efficiency = engine.efficiency(100, "1..3")
        saved = engine.draws(10, "1..9")
        results["engine"] = {"efficiency": efficiency, "draws": saved}
        ratio, fewer = efficiency["efficiency"], saved["times_fewer_generated"]
        rows.append(("raw vLLM time / sweep time", f"{ratio:.2f}", ">= 0.90", ratio >= 0.90))
        rows.append(("generated tokens, independent / nested", f"{fewer:.1f}", ">= 3", fewer >= 3))
    print(json.dumps(results, indent=1))
    table = Table("figure", "measured", "target", "reached", box=None)
    for name, measured, target, reached in rows:
        table.add_row(name, measured, target, "yes" if reached else "NO")
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
