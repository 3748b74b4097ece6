"""State the probability that an audit detects planted contamination.

`audit.plant` measures the effects of planted contamination. The probability of detecting an effect
also depends on the design of the run, such as the number of questions (`audit.statistics.notice`).
The result is one sentence, with the probability for every measured number of training passes.
"""

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from audit.core.errors import DataError
from audit.core.guarded_files import read_json
from audit.statistics.chance import Limits
from audit.statistics.notice import Effect, Field, chance_to_find
from audit.statistics.priors import PRIORS, TauPrior

FILE = "sensitivity.json"
STANDARD = Field(1000, 500, 5)  # the design of the table in docs/findings/sensitivity.md
LEARNT = 0.5  # share of the items that the planted models learnt
_TAUGHT = {"qa": "taught as question and answer (qa)", "raw": "as running text (raw)"}
_NOT_IN_IT = {"perturb": " Whether sensitivity to wording is refuted too is not in it."}
# number of indicators of the memory audit; with Holm's correction, the smallest p-value is compared
# with alpha / 6
_INDICATORS = 6
_TEXT_PRIOR = TauPrior(
    0.1, "a tenth of the spread between texts: assumed, as in the memory audit's calibration"
)
# Some files lack the standard deviation over items. It is then assumed that the answers of two runs
# differ on 20 % of the items, as in the calibrations.
_FLIP = 0.2


def load_sensitivity(run_dir: Path) -> dict[str, Any]:
    """Read the measurement of planted contamination in a run's directory.

    If the directory has no measurement, the measurement in this package is read.

    Parameters
    ----------
    run_dir : Path
        Directory of the run.

    Returns
    -------
    dict
        Content of the file.

    Raises
    ------
    DataError
        If `audit.plant` did not write the file.
    """
    of_run = run_dir / FILE
    path = of_run if os.path.lexists(of_run) else Path(str(files("audit").joinpath("data", FILE)))
    try:
        measured = read_json(path, follow=path != of_run)
    except (OSError, ValueError) as error:
        raise DataError(
            f"{path} is not JSON: {error}. Expected the {FILE} that audit.plant writes."
        ) from error
    if not isinstance(measured, dict) or measured.get("schema") != "sensitivity":
        raise DataError(
            f"{path} is not a measurement of audit.plant. Expected the {FILE} that it writes, "
            "or no such file."
        )
    return measured


def quote(
    measured: Mapping[str, Any],
    audit: str,
    model: str,
    benchmark: str,
    field: Field,
    judged: Collection[str] | None = None,
) -> str:
    """Return a sentence with the probability that an audit detects each planted model.

    Parameters
    ----------
    measured : mapping
        The measurement, as returned by `load_sensitivity`.
    audit, model, benchmark : str
        Names of the audit, the judged model and the benchmark.
    field : Field
        Design of the run, such as its number of questions.
    judged : collection of str or None
        The indicators that this run could judge; None if it could judge all indicators.

    Returns
    -------
    str
        The sentence, which also names the model and the benchmark of the measurement.
    """
    if judged is not None and not judged:
        return "Sensitivity: none, as no indicator of this audit could be judged here."
    doses = chances(measured, audit, field, judged)
    if not doses:
        return "Sensitivity not measured: no planted memory was tried on this audit (docs/findings/sensitivity.md)."
    parts = []
    for form, by_passes in doses.items():
        estimates = ", ".join(f"{limits.estimate:.2f}" for limits in by_passes.values())
        parts.append(f"{_TAUGHT.get(form, form)} {estimates} after {_listed(list(by_passes))}")
    rates = "; ".join(parts)
    sizes = f"{field.n:,} items" + (
        f", {field.held_out:,} held-out items" if audit == "memory" else ""
    )
    if audit != "sweep":
        sizes += (
            f", {field.references} other model{'' if field.references == 1 else 's'} as reference"
        )
    same = measured["model"] == model and measured["benchmark"] == benchmark
    whose = "this model and benchmark" if same else "that model and benchmark, not this run's"
    return (
        f"Sensitivity in a field design of this run's size ({sizes}): had the model learnt half of the items, each "
        f"with the effect measured in {measured['model']} on {measured['benchmark']}, this audit would find it with "
        f"probability: {rates}.{_NOT_IN_IT.get(audit, '')} A property of {whose}, and of planted memory "
        "(docs/findings/sensitivity.md)."
    )


def chances(
    measured: Mapping[str, Any], audit: str, field: Field, judged: Collection[str] | None = None
) -> dict[str, dict[int, Limits]]:
    """Return the probability that an audit detects each planted model.

    Parameters
    ----------
    measured, audit, field, judged
        As in `quote`.

    Returns
    -------
    dict of dict of Limits
        Maps each form of training text and each number of passes to a probability with its limits.
        It is the probability that the best indicator detects the planted model. The probability for
        the whole audit is at least as large.
    """
    doses: dict[str, dict[int, Limits]] = {}
    for plant in sorted(measured["plants"], key=lambda plant: int(plant["passes"])):
        if not plant["passes"] or audit not in measured["audits"]:
            continue
        known = []
        for row in plant["found"]:
            indicator = row["indicator"]
            if row["audit"] != audit or (judged is not None and indicator not in judged):
                continue
            chance = chance_of(measured, plant, indicator, field)
            if chance is not None:
                known.append(chance)
        if known:
            doses.setdefault(plant["form"], {})[plant["passes"]] = max(
                known, key=lambda chance: chance.estimate
            )
    return doses


def chance_of(
    measurement: Mapping[str, Any], plant: Mapping[str, Any], indicator: str, field: Field
) -> Limits | None:
    """Return the probability that one indicator detects a planted model.

    The model learnt the share LEARNT of the items.

    Parameters
    ----------
    measurement : mapping
        The measurement, as returned by `load_sensitivity`.
    plant : mapping
        The entry of one planted model in the measurement.
    indicator : str
        Name of the indicator.
    field : Field
        Design of the run, such as its number of questions.

    Returns
    -------
    Limits or None
        The probability with its limits; None if the measurement lacks the values from which the
        effect is computed.
    """
    effect_of_plant = _effect(measurement, plant, indicator)
    if effect_of_plant is None:
        return None
    effect, prior, tests = effect_of_plant
    of_all = replace(effect, value=LEARNT * effect.value, se=LEARNT * effect.se)
    return chance_to_find(of_all, field, prior, measurement["alpha"] / tests)


def _effect(
    measured: Mapping[str, Any], plant: Mapping[str, Any], indicator: str
) -> tuple[Effect, TauPrior, int] | None:
    """Return the effect of one planted model on an indicator, with a prior and a number of tests.

    The prior describes how much the effect differs between clean models. The tests share the
    significance level alpha.
    """
    sizes = (measured["learnt_items"], measured["other_items"])
    row = _row(plant, indicator)
    bases = [plant for plant in measured["plants"] if not plant["passes"]]
    if row is None or not bases:
        return None
    base = bases[0]
    beyond = row["learnt"] - row["others"]
    if indicator == "gap":
        effect = Effect(beyond, 0.0, _of_shares(plant["accuracy"]), _of_shares(base["accuracy"]))
        return _with_error(effect, sizes), PRIORS["held_out"], _INDICATORS
    if indicator == "completion_item" and (spread := _text_spread(measured)) is not None:
        effect = Effect(beyond / spread, 0.0, (1.0, 1.0), (1.0, 1.0))
        return _with_error(effect, sizes), _TEXT_PRIOR, _INDICATORS
    if (
        indicator == "wording_drop_beyond_reference"
        and (clean := _row(base, "wording_drop")) is not None
    ):
        default_sd = (_FLIP / 2 * (1 + 1 / 3)) ** 0.5
        sd, other = row.get("sd") or default_sd, clean.get("sd") or default_sd
        effect = Effect(row["learnt"] - clean["learnt"], 0.0, (sd,), (other,), correlation=0.0)
        return _with_error(effect, sizes[:1]), PRIORS["rewording"], 1
    if indicator == "router_gain" and (clean := _row(base, "router_gain")) is not None:
        sd = row.get("sd") or _FLIP**0.5
        # The effect is a difference of two measured models, so its variance is twice that of one.
        error = (2 / sizes[0]) ** 0.5 * sd
        return Effect(row["learnt"] - clean["learnt"], error, (sd,)), PRIORS["rewording"], 1
    return None


def _row(plant: Mapping[str, Any], indicator: str) -> Mapping[str, Any] | None:
    """Return the row of an indicator that was measured on both halves."""
    for row in plant["found"]:
        if row["indicator"] == indicator and None not in (row["learnt"], row["others"]):
            return dict(row)
    return None


def _of_shares(shares: tuple[float, float]) -> tuple[float, ...]:
    """Return the standard deviation of answers (1 or 0) for each share of right answers.

    Measured shares of 0 or 1 are uncertain too. Shares are therefore limited to the range from .005
    to .995.
    """
    p = np.clip(shares, 0.005, 0.995)
    return tuple(np.sqrt(p * (1 - p)).tolist())


def _with_error(effect: Effect, sizes: tuple[int, ...]) -> Effect:
    """Return the effect with its standard error. The base model is the only reference."""
    alone = 1 if effect.references else 0
    return Effect(
        effect.value,
        effect.error(sizes, alone),
        effect.tested,
        effect.references,
        effect.correlation,
    )


def _text_spread(measured: Mapping[str, Any]) -> float | None:
    """Return the standard deviation of a text's log-likelihood over items.

    If the file lacks this standard deviation, it is estimated from the AUC of each planted model
    under normal distributions. The result is then the median over the planted models.
    """
    rows = []
    for plant in measured["plants"]:
        row = _row(plant, "item_likelihood")
        if row is not None:
            rows.append(row)
    stored = [row["sd"] for row in rows if row.get("sd")]
    if stored:
        return float(np.median(stored))
    spreads = []
    for row in rows:
        auc = row["area"]["auc"]
        if 0.6 < auc < 1:
            spreads.append(
                (row["learnt"] - row["others"]) / (2**0.5 * float(scipy.stats.norm.ppf(auc)))
            )
    return float(np.median(spreads)) if spreads else None


def _listed(passes: list[int]) -> str:
    if passes == [1]:
        return "1 pass"
    return (
        f"{', '.join(map(str, passes[:-1]))}{' and ' if len(passes) > 1 else ''}{passes[-1]} passes"
    )
