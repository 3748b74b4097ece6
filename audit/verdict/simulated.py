"""What the calibration of every audit shares: rates with their error, the rows of a table, and its command line."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.verdict.result import rounded

SEEDS = (42, 43, 44)  # starts of a table: as many models are drawn from each
PANEL = 12  # models of the panel, one of which each simulated one is judged as, too

Rates = Mapping[str, float | None]


def rate(name: str, values: NDArray[np.float64]) -> dict[str, float | None]:
    """{name: mean over simulated models, name_se: its standard error}.

    Models are independent; what is counted within one is not, so the spread over models is used. For a rate of exactly
    0 or 1 the error is that of one more model with the other outcome.
    """
    n, mean = values.size, float(values.mean())
    spread = float(values.std(ddof=1)) if n > 1 and values.std() > 0 else float(np.sqrt(n) / (n + 1))
    return {name: rounded(mean), f"{name}_se": rounded(spread / np.sqrt(n))}


def shown(rates: Rates, name: str) -> str:
    """A rate in a table: per cent with its error."""
    value, error = rates.get(name), rates.get(f"{name}_se")
    return "-" if value is None or error is None else f"{100 * value:.1f} ± {100 * error:.1f}"


def told(rates: Rates, name: str) -> str:
    """A rate in a sentence."""
    value, error = rates.get(name), rates.get(f"{name}_se")
    if value is None:
        return "an unmeasured share"
    return f"{value:.1%}" + (f" (± {error:.1%})" if error is not None else "")


def other_thresholds(table: Mapping[str, Any], thresholds: Mapping[str, float] | None) -> str:
    """What to add to a table's rates where a run's own level, effect of interest or margin is another; else empty."""
    measured = table.get("thresholds", {})
    differ = [
        f"{name} {measured[name]:g} (this run: {thresholds[name]:g})"
        for name in ("alpha", "effect_of_interest", "margin")
        if thresholds is not None and name in measured and measured[name] != thresholds[name]
    ]
    return f" These rates are of {' and '.join(differ)}." if differ else ""


def table_text(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in markdown."""
    lines = [" | ".join(head), " | ".join(["---"] * len(head)), *(" | ".join(row) for row in rows)]
    return "\n".join(f"| {line} |" for line in lines) + "\n"


def make_parser(audit: str, about: str, epilog: str = "") -> argparse.ArgumentParser:
    """What every calibration takes; the audit adds its own."""
    parser = argparse.ArgumentParser(
        prog=f"python -m audit.calibrate audit={audit}", description=about.split("\n")[0], epilog=epilog
    )
    parser.add_argument("--simulations", type=int, help="clean models a design (default: the audit's own)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the table as json")
    return parser


def keep(text: str, out: Path | None, table: Mapping[str, Any], rows: int = 1) -> None:
    """Print the last rows of a table (with its head if they are the first) and write everything so far, so that an
    interrupted calibration keeps what it has. rows: of a design."""
    lines = text.splitlines()
    print("\n".join(lines if len(lines) == 2 + rows else lines[-rows:]), flush=True)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n", encoding="utf-8")
