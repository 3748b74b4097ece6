"""What an audit was measured to notice of planted contamination (`audit.plant`), as one sentence beside a verdict."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

from audit.errors import DataError
from audit.statistics.notice import chance_to_notice

FILE = "sensitivity.json"
LIKELY = 0.8  # the chance to notice at which a dose counts as noticed (Cohen 1988, of power)


def load_sensitivity(run_dir: Path | None = None) -> dict[str, Any] | None:
    """The measurement that lies in a run's directory, else the one that ships with the package; None without any.

    DataError for a file that is none of `audit.plant`.
    """
    own = None if run_dir is None else run_dir / FILE
    shipped = files("audit") / "data" / FILE
    path = own if own is not None and own.is_file() else shipped
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path} is not JSON: {error}. Expected the {FILE} that audit.plant writes.") from error
    if not isinstance(found, dict) or found.get("schema") != "sensitivity":
        raise DataError(f"{path} is no measurement of audit.plant. Expected its {FILE}, or no such file.")
    return found


def quote(
    found: Mapping[str, Any] | None, audit: str, model: str, benchmark: str, judged: Collection[str] | None = None
) -> str:
    """How likely this audit was to notice each plant, and whose property that is; in words where it was not measured.

    judged: of its indicators those that this run could judge: the others would have noticed nothing. None: all.
    Of several doses of a form: the smallest that was noticed with probability LIKELY or more, and the largest that was
    noticed with less.
    """
    doses: dict[str, list[tuple[int, Mapping[str, float]]]] = {}
    for plant in found["plants"] if found else ():
        notice = _notice(plant, audit, judged)
        if plant["passes"] and notice is not None:
            doses.setdefault(plant["form"], []).append((plant["passes"], notice))
    if judged is not None and not judged:
        return "Sensitivity: none, as no indicator of this audit could be judged here."
    if found is None or not doses:
        return "Sensitivity not measured: no planted memory was tried on this audit (docs/sensitivity.md)."
    said = []
    for form, tried in doses.items():
        for passes, n in _telling(tried):
            times = "1 pass" if passes == 1 else f"{passes} passes"
            said.append(f"{form}, {times}: {n['estimate']:.2f} ({n['low']:.2f} to {n['high']:.2f})")
    several = ""
    if any(len(tried) > 1 for tried in doses.values()):
        several = (
            f" (of several doses the smallest that was noticed with {LIKELY:g} or more, and the largest with less)"
        )
    # Several references have their spread in the error, on few degrees of freedom: they notice a plant less often.
    whom = "this audit" if judged is None else "what was judged here, with the unspoilt model as the one reference,"
    same = found["model"] == model and found["benchmark"] == benchmark
    whose = "this model and benchmark" if same else "that model and benchmark, not of this run's"
    return (
        f"Measured sensitivity: of {found['model']}, taught {found['learnt_items']} items of {found['benchmark']}, "
        f"{whom} would have noticed with probability (95 % interval) {'; '.join(said)}{several}. A property of "
        f"{whose}, and of planted memory (docs/sensitivity.md)."
    )


def _notice(plant: Mapping[str, Any], audit: str, judged: Collection[str] | None) -> Mapping[str, float] | None:
    """The audit's chance to notice a plant: from the smallest p of its indicators after Holm's correction over them."""
    if judged is None:
        result = plant["audits"].get(audit)
        return None if result is None else result["notice"]
    tried = [one["pvalue"] for one in plant["found"] if one["audit"] == audit and one["indicator"] in judged]
    return asdict(chance_to_notice(min(1.0, len(tried) * min(tried)))) if tried else None


def _telling(tried: Sequence[tuple[int, Mapping[str, float]]]) -> list[tuple[int, Mapping[str, float]]]:
    """Of (passes, notice) of one form: the doses that are quoted, the smaller first."""
    ordered = sorted(tried, key=lambda one: one[0])
    likely = [one for one in ordered if one[1]["estimate"] >= LIKELY]
    unlikely = [one for one in ordered if one[1]["estimate"] < LIKELY]
    return sorted(likely[:1] + unlikely[-1:], key=lambda one: one[0])
