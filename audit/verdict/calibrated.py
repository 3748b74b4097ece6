"""Which calibrated design is nearest to a run, and what was measured there (the table comes from `audit.calibrate`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from typing import Any

from audit.verdict.result import Calibration


def nearest(
    table: Mapping[str, Any] | None,
    *,
    n: int,
    routers: int,
    draws: str,
    discordance: float | None = None,
    clean_replicates: int = 1,
) -> Calibration | None:
    """The design with the smallest distance |log n| + |log R| + |log discordance| / 2, +1 for the other kind of draws
    and +1 where one of the two has one clean replicate and the other has several.

    table: {"designs": [{"design": {...}, "rates": {...}}]}. None where there is no table.
    """
    designs: Sequence[Mapping[str, Any]] = table.get("designs", ()) if table else ()
    if not designs:
        return None

    def distance(entry: Mapping[str, Any]) -> float:
        d = entry["design"]
        far = abs(log(max(n, 1) / d["n"])) + abs(log(max(routers, 1) / d["routers"])) + (d["draws"] != draws)
        far += (d.get("clean_replicates", 1) > 1) != (clean_replicates > 1)
        if discordance:
            far += 0.5 * abs(log(discordance / d["discordance"]))
        return float(far)

    found = min(designs, key=distance)
    return Calibration(design=dict(found["design"]), rates=dict(found["rates"]), sentence=sentence(found))


def sentence(entry: Mapping[str, Any]) -> str:
    """The rates of one design in words."""
    d, r = entry["design"], entry["rates"]
    runs = d.get("clean_replicates", 1)
    text = (
        f"Nearest calibrated design: {d['n']} questions, {d['routers']} router counts, {d['draws']} draws, "
        f"{runs} clean {'replicate' if runs == 1 else 'replicates'}. Of clean models, "
        f"this procedure calls {_rate(r, 'excess_fpr')} an excess with direct and the ensemble control run, "
        f"and {_rate(r, 'excess_no_controls_fpr')} without either; the paper's rule convicts "
        f"{_rate(r, 'paper_model_fpr')}."
    )
    found = ((name.removeprefix("power_"), value) for name, value in r.items() if name.startswith("power_"))
    powers = sorted((float(gain), value) for gain, value in found if not gain.endswith("_se"))
    if powers:
        shown = ", ".join(f"{100 * gain:g} points in {value:.0%}" for gain, value in powers if value is not None)
        text += f" With both controls, it finds a true excess of {shown} of models."
    if r.get("coverage_mean") is not None:
        held = f"{r['coverage_gain']:.1%} (per r) and {r['coverage_mean']:.1%} (mean over r)"
        text += f" Its 95 % intervals held the truth in {held}."
    return text


def _rate(rates: Mapping[str, float | None], name: str) -> str:
    value, error = rates.get(name), rates.get(f"{name}_se")
    if value is None:
        return "an unmeasured share"
    return f"{value:.1%}" + (f" (± {error:.1%})" if error is not None else "")
