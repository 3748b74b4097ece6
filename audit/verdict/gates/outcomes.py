"""Gates on what was answered."""

from __future__ import annotations

import numpy as np

from audit.records import Reading
from audit.statistics.chance import chance_check, chance_level
from audit.statistics.mcnemar import cochran_q
from audit.statistics.paired import CellOutcomes, State
from audit.statistics.values import replicates_of, runs_of, settings_values, to_values
from audit.sweep.design import Arm
from audit.verdict.gates.common import CLEAN, absent, clean_settings, ids_behind, label, states_of
from audit.verdict.result import MAX_ITEMS, Gate, Status, points
from audit.verdict.thresholds import Thresholds

_IMPLAUSIBLE = 1e-3  # probability of an exact accuracy, over all settings, below which it withholds


def above_chance(cell: CellOutcomes, thresholds: Thresholds) -> Gate:
    """Clean and direct accuracy beat the mean of 1/k by the given number of standard errors.

    number: the smaller of the two z scores, (accuracy - chance) / standard error of a guesser.
    """
    name, source = "above_chance", "mean of 1/k over the questions; conf/verdict: above_chance_standard_errors"
    limit = thresholds.above_chance_standard_errors
    found: dict[str, float] = {}
    for arm, settings in (("clean", clean_settings(cell)), ("direct", replicates_of(cell, Arm.DIRECT, 0))):
        if settings:
            values = settings_values(cell, settings)
            answered = ~np.isnan(values)
            if answered.any():
                check = chance_check(float(values[answered].mean()), cell.n_options[answered], limit)
                found |= {f"{arm}_accuracy": check.accuracy, f"{arm}_z": check.z}
    scores = [v for k, v in found.items() if k.endswith("_z")]
    chance = chance_level(cell.n_options)
    if not scores:
        return absent(name, limit, source, "Neither the clean nor the direct arm has an answer.")
    passed = min(scores) > limit
    shown = " and ".join(f"{a} {found[a + '_accuracy']:.3f}" for a in ("clean", "direct") if f"{a}_z" in found)
    return Gate(
        name=name,
        status=Status.PASS if passed else Status.FAIL,
        number=min(scores),
        threshold=limit,
        source=source,
        detail=f"Accuracy ({shown}) is {'above' if passed else 'not above'} guessing ({chance:.3f}) by {limit:g} "
        "standard errors.",
        advice=""
        if passed
        else "A model that guesses has no score to audit: check the prompt, the reading of answers "
        "and the gold labels, or take an easier benchmark.",
        numbers={"chance": chance, **found},
    )


def parseability(cell: CellOutcomes, thresholds: Thresholds) -> Gate:
    """Share of rows with a readable answer, the lowest over the settings (an arm at one r, one replicate).

    By setting, because one unreadable r of nine hides in its arm's average, while its gain is computed from what is
    left. Truncated and failed rows are counted apart.
    """
    name, limit = "parseability", thresholds.answered_share_min
    numbers: dict[str, float | None] = {}
    shares = {s: float(np.mean(cell.row(s) >= State.WRONG)) for s in cell.settings}
    for arm in Arm:
        state = states_of(cell, arm)
        if state is None:
            continue
        present = max(int(np.sum(state != State.ABSENT)), 1)
        for word, kind in (("unparsed", State.UNPARSED), ("truncated", State.TRUNCATED), ("error", State.ERROR)):
            numbers[f"{arm.value}_{word}"] = float(np.sum(state == kind)) / present
        numbers[f"{arm.value}_absent"] = float(np.mean(state == State.ABSENT))
        numbers[f"{arm.value}_answered"] = float(np.mean(state >= State.WRONG))
    worst = min(shares, key=lambda s: shares[s])
    behind = ids_behind(cell, cell.row(worst) < State.WRONG)
    passed = shares[worst] >= limit
    trivial = cell.reading != Reading.LETTER
    detail = (
        f"{shares[worst]:.1%} of the rows of {label(worst)} have a readable answer, the lowest of {len(shares)} "
        "settings."
    )
    if trivial:
        detail += f" Answers were read by {cell.reading}, which finds one but for exact ties and failed rows."
    return Gate(
        name=name,
        status=Status.PASS if passed else Status.FAIL,
        number=shares[worst],
        threshold=limit,
        source="li2026, gate G1 (parseability at least 0.95); conf/verdict: answered_share_min",
        detail=detail,
        advice=""
        if passed
        else "Read some unreadable replies: raise max_tokens if they are cut off, mend the worker "
        "prompt, or read answers by letter_logprob or option_text.",
        numbers=numbers,
        items=behind[:MAX_ITEMS],
        item_count=len(behind),
    )


def noise_floor(cell: CellOutcomes, thresholds: Thresholds) -> Gate:
    """Replicates of the clean arm differ only in their seeds, so they are equally accurate: Cochran's Q over them."""
    name, limit = "noise_floor", thresholds.noise_floor_alpha
    source = "ours; Cochran's Q between the clean replicates; conf/verdict: noise_floor_alpha"
    replicates = clean_settings(cell)
    if len(replicates) < 2:
        return absent(name, limit, source, "There is one replicate of the clean arm: nothing to compare it with.")
    runs = runs_of(cell, Arm.FORWARD_FULL, (1,))[:, 0]
    complete = runs[:, ~np.isnan(runs).any(axis=0)]
    if not complete.size:
        return absent(name, limit, source, "No question is answered in every replicate of the clean arm.")
    p = cochran_q(complete).pvalue
    passed = p > limit
    shown = ", ".join(f"{accuracy:.3f}" for accuracy in complete.mean(axis=1))
    return Gate(
        name=name,
        status=Status.PASS if passed else Status.FAIL,
        number=p,
        threshold=limit,
        source=source,
        detail=f"The {len(replicates)} replicates of the clean arm (accuracies {shown}) differ "
        f"{'by no more than this gate allows' if passed else 'more than chance explains'} (p={p:.2g}).",
        advice=""
        if passed
        else "Something other than the seed changed between runs of the same condition: compare their shards (engine, "
        "prompts, truncated replies), and repeat the run.",
        numbers={"replicates": float(len(replicates)), "questions": float(complete.shape[1])},
    )


def exact_values(cell: CellOutcomes) -> Gate:
    """Values that real data rarely give: an accuracy of exactly 0 or 1, no changed answer in any noisy setting.

    number: how many such alarms. A strong model is right on all of 50 questions now and then: where the accuracy over
    all settings makes an exact 1 likely enough (1 in 1,000 over the settings), the alarm is printed and withholds
    nothing. So is a gain of exactly 0 with some answers changed, which is common in a small sample (for 20 changed
    answers, 18 % of the time): `zero_gains` counts those.
    """
    alarms: list[str] = []
    harmless: list[str] = []
    zero_gains = zero_width = noisy_settings = 0
    clean = to_values(cell.row(CLEAN)) if CLEAN in cell.settings else None
    everything = to_values(cell.state)
    pooled = float(np.nanmean(everything)) if np.any(~np.isnan(everything)) else float("nan")
    for setting in cell.settings:
        values = to_values(cell.row(setting))
        answered = int(np.sum(~np.isnan(values)))
        mean = float(np.nanmean(values)) if answered else float("nan")
        if mean in (0.0, 1.0):
            plausible = mean == 1.0 and pooled < 1 and len(cell.settings) * pooled**answered > _IMPLAUSIBLE
            (harmless if plausible else alarms).append(f"accuracy of exactly {mean:.0f} under {label(setting)}")
        if setting.arm == Arm.NOISY_REWRITE and clean is not None:
            change = (values - clean)[~np.isnan(values - clean)]
            noisy_settings += 1
            zero_gains += bool(change.size and change.sum() == 0)
            zero_width += bool(change.size and not change.any())
    if noisy_settings and zero_width == noisy_settings:
        alarms.append("no answer differs between clean and noisy in any setting: every interval has zero width")
    return Gate(
        name="exact_values",
        status=Status.FAIL if alarms or harmless else Status.PASS,
        number=float(len(alarms) + len(harmless)),
        threshold=0.0,
        source="eight cells of song2026's Table 2 are exactly 0.00, worse than guessing",
        detail=("Found " + "; ".join([*alarms, *harmless][:5]) + ".")
        + ("" if alarms else " At this accuracy that is likely enough.")
        if alarms or harmless
        else "No accuracy is exactly 0 or 1."
        + (f" {zero_gains} of {noisy_settings} gains are exactly 0." if zero_gains else ""),
        advice="Look at the raw replies: such values usually come from unread answers, wrong labels or a manipulation "
        "that changed nothing. A benchmark at its ceiling cannot show a gain."
        if alarms
        else "",
        withholds=bool(alarms) or not harmless,
        numbers={"zero_gains": float(zero_gains), "zero_width_intervals": float(zero_width)},
    )


def enough_data(mde: float | None, thresholds: Thresholds) -> Gate:
    """The design's minimum detectable gain against the effect of interest. A failure alone means `underpowered`."""
    limit = thresholds.effect_of_interest
    source = "exact power of McNemar's test at the observed discordance; conf/verdict: effect_of_interest"
    if mde is None:
        return absent("enough_data", limit, source, "There is no clean and noisy pair.", withholds=False)
    passed = mde <= limit  # false for NaN: no gain at all is detectable
    return Gate(
        name="enough_data",
        status=Status.PASS if passed else Status.FAIL,
        number=mde,
        threshold=limit,
        source=source,
        detail=f"The smallest gain that this design finds with {thresholds.power:.0%} power is "
        + (points(mde) if np.isfinite(mde) else "larger than any possible")
        + f"; the gain of interest is {points(limit)}.",
        advice=""
        if passed
        else "Ask more questions (audit.plan says how many detect the gain of interest), from more subjects or "
        "passages where they are grouped, or fewer router counts.",
        withholds=False,
    )
