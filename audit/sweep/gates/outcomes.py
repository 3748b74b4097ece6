"""Gates on what was answered."""

import numpy as np

from audit.judge.gates import CHANCE_SOURCE, exact_accuracies
from audit.judge.gates import above_chance as chance_gate
from audit.records import Reading
from audit.statistics.chance import chance_check, chance_level, upper_limit
from audit.statistics.mcnemar import cochran_q
from audit.statistics.paired import BoolArray, CellOutcomes, FloatArray, State
from audit.statistics.values import replicates_of, runs_of, settings_values, to_values
from audit.sweep.design import Arm
from audit.sweep.record import CLEAN, label
from audit.sweep.thresholds import SweepThresholds
from audit.verdict.result import Gate, Rule, exact, ids_where, percent, points, pvalue, sizes

_PARSE_ALPHA = 0.05  # of all arms and settings of a cell together


def above_chance(cell: CellOutcomes, thresholds: SweepThresholds) -> Gate:
    """Clean and direct accuracy beat the mean of 1/k by the given number of standard errors.

    number: the smaller of the two z scores, (accuracy - chance) / standard error of a guesser.
    """
    limit = thresholds.above_chance_standard_errors
    found: dict[str, float] = {}
    for arm, settings in (
        ("clean", replicates_of(cell, Arm.FORWARD_FULL, 1)),
        ("direct", replicates_of(cell, Arm.DIRECT, 0)),
    ):
        if settings:
            values = settings_values(cell, settings)
            answered = ~np.isnan(values)
            if answered.any():
                there = slice(None) if answered.all() else answered  # the self-test asks 500 times: no copies
                check = chance_check(float(values[there].mean()), cell.n_options[there], limit)
                found |= {f"{arm}_accuracy": check.accuracy, f"{arm}_z": check.z}
    scores = [v for k, v in found.items() if k.endswith("_z")]
    chance = chance_level(cell.n_options)
    if not scores:
        return Rule("above_chance", limit, CHANCE_SOURCE).absent("Neither the clean nor the direct arm has an answer.")
    shown = " and ".join(f"{a} {found[a + '_accuracy']:.3f}" for a in ("clean", "direct") if f"{a}_z" in found)
    return chance_gate(shown, min(scores), chance, limit, {"chance": chance, **found})


def parseability(cell: CellOutcomes, thresholds: SweepThresholds) -> Gate:
    """Share of rows with a readable answer, by arm, and by setting: below the limit beyond doubt withholds.

    number: the upper 95 % limit (exact binomial, one-sided, corrected for their number) of the arm or setting that is
    lowest. An arm's rows of one question are not independent, so its limit is that of as many questions. By setting
    too, because one unreadable r of nine hides in its arm's average, while its gain is computed from what is left; with
    an interval, because the lowest of twenty shares around 0.96 is below 0.95 by luck. Truncated and failed rows are
    counted apart.
    """
    limit = thresholds.answered_share_min
    numbers: dict[str, float | None] = {}
    shares: dict[str, float] = {}
    masks: dict[str, BoolArray] = {}
    for arm in Arm:
        if not (settings := cell.settings_of(arm)):
            continue
        state = np.stack([cell.row(s) for s in settings])
        present = max(int(np.sum(state != State.ABSENT)), 1)
        for word, kind in (("unparsed", State.UNPARSED), ("truncated", State.TRUNCATED), ("error", State.ERROR)):
            numbers[f"{arm.value}_{word}"] = float(np.sum(state == kind)) / present
        numbers[f"{arm.value}_absent"] = float(np.mean(state == State.ABSENT))
        shares[f"the {arm.value} arm"] = float(np.mean(state >= State.WRONG))
        masks[f"the {arm.value} arm"] = np.any(state < State.WRONG, axis=0)
        numbers[f"{arm.value}_answered"] = shares[f"the {arm.value} arm"]
    for s in cell.settings:
        shares[label(s)] = float(np.mean(cell.row(s) >= State.WRONG))
        masks[label(s)] = cell.row(s) < State.WRONG
    level = 1 - _PARSE_ALPHA / len(shares)
    highest = {k: upper_limit(round(share * cell.n), cell.n, level) for k, share in shares.items()}
    worst = min(highest, key=lambda k: (highest[k], shares[k]))
    detail = (
        f"{percent(shares[worst])} of the rows of {worst} have a readable answer, the lowest of {len(shares)} arms and "
        f"settings (upper limit {percent(highest[worst])})."
    )
    if cell.reading in (Reading.LETTER_LOGPROB, Reading.OPTION_TEXT):
        detail += f" Answers were read by {cell.reading}, which finds one but for exact ties and failed rows."
    source = "li2026, gate G1 (parseability at least 0.95); conf/verdict: answered_share_min"
    return Rule("parseability", limit, source, always_items=True).checked(
        passed=highest[worst] >= limit,
        number=highest[worst],
        detail=detail,
        advice="Read some unreadable replies: raise max_tokens if they are cut off, mend the worker prompt, or read "
        "answers by letter_logprob or option_text.",
        items=ids_where(cell.question_ids, masks[worst]),
        numbers=numbers,
    )


def noise_floor_p(cell: CellOutcomes) -> float:
    """p of Cochran's Q that the replicates of the clean arm are equally accurate; NaN where that cannot be asked."""
    if len(replicates_of(cell, Arm.FORWARD_FULL, 1)) < 2:
        return float("nan")
    complete = _complete_clean(cell)
    return cochran_q(complete).pvalue if complete.size else float("nan")


def noise_floor(cell: CellOutcomes, thresholds: SweepThresholds, p_adjusted: float | None = None) -> Gate:
    """Replicates of the clean arm differ only in their seeds, so they are equally accurate: Cochran's Q over them.

    p_adjusted: `noise_floor_p` after Holm over the cells of the panel; that of this cell alone where None. What differs
    by less than this gate sees enters the standard errors (`audit.statistics.run_variance`).
    """
    source = "ours; Cochran's Q between the clean replicates, Holm over the panel; conf/verdict: noise_floor_alpha"
    rule = Rule("noise_floor", limit := thresholds.noise_floor_alpha, source)
    replicates = replicates_of(cell, Arm.FORWARD_FULL, 1)
    if len(replicates) < 2:
        return rule.absent("There is one replicate of the clean arm: nothing to compare it with.")
    complete = _complete_clean(cell)
    if not complete.size:
        return rule.absent("No question is answered in every replicate of the clean arm.")
    p = cochran_q(complete).pvalue if p_adjusted is None else p_adjusted
    passed = p > limit
    shown = ", ".join(f"{accuracy:.3f}" for accuracy in complete.mean(axis=1))
    return rule.checked(
        passed=passed,
        number=p,
        detail=f"The {len(replicates)} replicates of the clean arm (accuracies {shown}) differ "
        f"{'by no more than this gate allows' if passed else 'more than chance usually makes'} ({pvalue(p)}).",
        advice=f"Repeat the run under another seed: {percent(limit)} of clean runs fail this by chance. If it fails "
        "again, more than the seed changes between runs: compare their shards (engine, prompts, truncated replies).",
        numbers={"replicates": float(len(replicates)), "questions": float(complete.shape[1])},
    )


def _complete_clean(cell: CellOutcomes) -> FloatArray:
    """(K, m) outcomes of the clean replicates on the m questions that all of them answered."""
    runs = runs_of(cell, Arm.FORWARD_FULL, (1,))[:, 0]
    return runs[:, ~np.isnan(runs).any(axis=0)]


def exact_values(cell: CellOutcomes) -> Gate:
    """Values that real data rarely give: an accuracy of exactly 0 or 1, no changed answer in any noisy setting.

    number: how many such alarms. A gain of exactly 0 with some answers changed withholds nothing: it is common in a
    small sample (for 20 changed answers, 18 % of the time). `zero_gains` counts those.
    """
    rows = [(label(s), to_values(cell.row(s))) for s in cell.settings]
    alarms, harmless = exact_accuracies(rows, to_values(cell.state))
    zero_gains = zero_width = noisy_settings = 0
    for setting in cell.settings if CLEAN in cell.settings else ():
        if setting.arm == Arm.NOISY_REWRITE:
            gap = to_values(cell.row(setting)) - to_values(cell.row(CLEAN))
            change = gap[~np.isnan(gap)]
            noisy_settings += 1
            zero_gains += bool(change.size and change.sum() == 0)
            zero_width += bool(change.size and not change.any())
    if noisy_settings and zero_width == noisy_settings:
        alarms.append("no answer differs between clean and noisy in any setting: every interval has zero width")
    gains = f" {zero_gains} of {noisy_settings} gains are exactly 0." if zero_gains else ""
    return exact(
        alarms,
        harmless,
        f"No accuracy is exactly 0 or 1.{gains}",
        "Look at the raw replies: such values usually come from unparsed answers, wrong labels or a manipulation that "
        "changed nothing. A benchmark at its ceiling cannot show a gain.",
        {"zero_gains": float(zero_gains), "zero_width_intervals": float(zero_width)},
    )


def enough_data(
    largest_compatible: float | None, thresholds: SweepThresholds, asked: int, needed: int, repeated: str = ""
) -> Gate:
    """The largest gain still compatible with the data, against the smallest effect that matters. A failure alone
    withholds nothing: without a finding it means `underpowered`.

    asked, needed: questions; needed is what a plan of this design says (`audit.sweep.size`), with the arms
    `repeated` that were run once."""
    limit = thresholds.effect_of_interest
    source = "97.5 % upper limit of the gain, the largest over r; conf/verdict: effect_of_interest"
    rule = Rule("enough_data", limit, source)
    if largest_compatible is None:
        return rule.absent("There is no clean and noisy pair.", withholds=False)
    passed = largest_compatible <= limit  # false for NaN
    return rule.checked(
        passed=passed,
        number=largest_compatible,
        detail=f"A gain of {points(largest_compatible)} is still compatible with the data; one of "
        f"{points(limit)} would matter.",
        advice=f"Ask {f'about {needed:,}' if needed > asked else 'more'} questions{repeated} ({asked:,} were asked). "
        "More clean replicates help too and, where questions are grouped, more subjects or passages.",
        withholds=False,
        numbers=sizes(asked, needed),
    )
