"""What an audit would find of planted contamination (`audit.plant`) in a run's own design, as one sentence beside a
verdict. `audit.plant` measures effects; how likely an audit finds such an effect is a property of the design in which
it looks (`audit.statistics.notice`). Every dose that was measured is quoted."""

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from audit.errors import DataError
from audit.guarded_files import read_json
from audit.statistics.chance import Limits
from audit.statistics.notice import Effect, Field, chance_to_find
from audit.statistics.priors import PRIORS, TauPrior

FILE = "sensitivity.json"
STANDARD = Field(1000, 500, 5)  # the design of the table of docs/findings/sensitivity.md
LEARNT = 0.5  # share of the items: the plants learnt half
_TAUGHT = {"qa": "taught as question and answer (qa)", "raw": "as running text (raw)"}
_NOT_IN_IT = {"perturb": " Whether sensitivity to wording is refuted too is not in it."}
_INDICATORS = 6  # of memory: each at alpha / 6, the least of Holm
_TEXT_PRIOR = TauPrior(0.1, "a tenth of the spread between texts: assumed, as in the memory audit's calibration")
# Of files without the spread over items: two askings of an item disagree in 20 %, as in the calibrations.
_FLIP = 0.2


def load_sensitivity(run_dir: Path) -> dict[str, Any]:
    """The measurement that lies in a run's directory, else the one that ships. DataError for a file that is none of
    `audit.plant`."""
    own = run_dir / FILE
    path = own if os.path.lexists(own) else Path(str(files("audit").joinpath("data", FILE)))
    try:
        found = read_json(path, follow=path != own)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is not JSON: {error}. Expected the {FILE} that audit.plant writes.") from error
    if not isinstance(found, dict) or found.get("schema") != "sensitivity":
        raise DataError(f"{path} is no measurement of audit.plant. Expected its {FILE}, or no such file.")
    return found


def quote(
    found: Mapping[str, Any],
    audit: str,
    model: str,
    benchmark: str,
    field: Field,
    judged: Collection[str] | None = None,
) -> str:
    """How likely this audit finds each plant in the design `field`, and whose property that is. judged: those of its
    indicators that this run could judge; None: all."""
    if judged is not None and not judged:
        return "Sensitivity: none, as no indicator of this audit could be judged here."
    doses = chances(found, audit, field, judged)
    if not doses:
        return "Sensitivity not measured: no planted memory was tried on this audit (docs/findings/sensitivity.md)."
    said = "; ".join(
        f"{_TAUGHT.get(form, form)} {', '.join(f'{n.estimate:.2f}' for n in tried.values())} "
        f"after {_listed(list(tried))}"
        for form, tried in doses.items()
    )
    sizes = f"{field.n:,} items" + (f", {field.held_out:,} held-out items" if audit == "memory" else "")
    if audit != "sweep":
        sizes += f", {field.references} other model{'' if field.references == 1 else 's'} as reference"
    same = found["model"] == model and found["benchmark"] == benchmark
    whose = "this model and benchmark" if same else "that model and benchmark, not of this run's"
    return (
        f"Sensitivity in a field design of this run's size ({sizes}): had the model learnt half of the items, each "
        f"with the effect measured in {found['model']} on {found['benchmark']}, this audit would find it with "
        f"probability: {said}.{_NOT_IN_IT.get(audit, '')} A property of {whose}, and of planted memory "
        "(docs/findings/sensitivity.md)."
    )


def chances(
    found: Mapping[str, Any], audit: str, field: Field, judged: Collection[str] | None = None
) -> dict[str, dict[int, Limits]]:
    """By form and passes, the chance that the audit finds the plant: that of its best indicator, so at least this."""
    doses: dict[str, dict[int, Limits]] = {}
    for plant in sorted(found["plants"], key=lambda one: one["passes"]):
        if not plant["passes"] or audit not in found["audits"]:
            continue
        tried = [
            chance_of(found, plant, one["indicator"], field)
            for one in plant["found"]
            if one["audit"] == audit and (judged is None or one["indicator"] in judged)
        ]
        known = [one for one in tried if one is not None]
        if known:
            doses.setdefault(plant["form"], {})[plant["passes"]] = max(known, key=lambda one: one.estimate)
    return doses


def chance_of(found: Mapping[str, Any], plant: Mapping[str, Any], indicator: str, field: Field) -> Limits | None:
    """The chance of one indicator, where LEARNT of the items were learnt; None where the file does not tell what an
    item contributes."""
    measured = _effect(found, plant, indicator)
    if measured is None:
        return None
    effect, prior, tests = measured
    of_all = replace(effect, value=LEARNT * effect.value, se=LEARNT * effect.se)
    return chance_to_find(of_all, field, prior, found["alpha"] / tests)


def _effect(found: Mapping[str, Any], plant: Mapping[str, Any], indicator: str) -> tuple[Effect, TauPrior, int] | None:
    """(effect, prior of how models differ in it, tests that share alpha)."""
    sizes = (found["learnt_items"], found["other_items"])
    row = _row(plant, indicator)
    base = next((one for one in found["plants"] if not one["passes"]), None)
    if row is None or base is None:
        return None
    beyond = row["learnt"] - row["others"]
    if indicator == "gap":
        effect = Effect(beyond, 0.0, _of_shares(plant["accuracy"]), _of_shares(base["accuracy"]))
        return _with_error(effect, sizes), PRIORS["held_out"], _INDICATORS
    if indicator == "completion_item" and (spread := _text_spread(found)) is not None:
        effect = Effect(beyond / spread, 0.0, (1.0, 1.0), (1.0, 1.0))
        return _with_error(effect, sizes), _TEXT_PRIOR, _INDICATORS
    if indicator == "wording_drop_beyond_reference" and (clean := _row(base, "wording_drop")) is not None:
        sd, other = (one.get("sd") or (_FLIP / 2 * (1 + 1 / 3)) ** 0.5 for one in (row, clean))
        effect = Effect(row["learnt"] - clean["learnt"], 0.0, (sd,), (other,), correlation=0.0)
        return _with_error(effect, sizes[:1]), PRIORS["rewording"], 1
    if indicator == "router_gain" and (clean := _row(base, "router_gain")) is not None:
        sd = row.get("sd") or _FLIP**0.5
        error = (2 / sizes[0]) ** 0.5 * sd  # two models were measured, in a run it is one
        return Effect(row["learnt"] - clean["learnt"], error, (sd,)), PRIORS["rewording"], 1
    return None


def _row(plant: Mapping[str, Any], indicator: str) -> Mapping[str, Any] | None:
    """Of an indicator that was measured on both halves."""
    rows = (one for one in plant["found"] if one["indicator"] == indicator)
    return next((one for one in rows if None not in (one["learnt"], one["others"])), None)


def _of_shares(shares: tuple[float, float]) -> tuple[float, ...]:
    """Standard deviations of right and wrong answers. One in 200 is kept open: a share of 1 is not known exactly."""
    kept = [min(max(p, 0.005), 0.995) for p in shares]
    return tuple(float(np.sqrt(p * (1 - p))) for p in kept)


def _with_error(effect: Effect, sizes: tuple[int, ...]) -> Effect:
    """With the error of its value where it was measured: against the base model, its one reference."""
    alone = 1 if effect.references else 0
    return Effect(effect.value, effect.error(sizes, alone), effect.own, effect.references, effect.correlation)


def _text_spread(found: Mapping[str, Any]) -> float | None:
    """Standard deviation of a text's likelihood between items: as stored, else the median over plants of what the area
    under the curve of two normal distributions says."""
    rows = [row for plant in found["plants"] if (row := _row(plant, "item_likelihood")) is not None]
    if stored := [row["sd"] for row in rows if row.get("sd")]:
        return float(np.median(stored))
    told = [
        (row["learnt"] - row["others"]) / (2**0.5 * float(scipy.stats.norm.ppf(row["area"]["auc"])))
        for row in rows
        if 0.6 < row["area"]["auc"] < 1
    ]
    return float(np.median(told)) if told else None


def _listed(passes: list[int]) -> str:
    if passes == [1]:
        return "1 pass"
    return f"{', '.join(map(str, passes[:-1]))}{' and ' if len(passes) > 1 else ''}{passes[-1]} passes"
