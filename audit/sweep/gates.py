"""Check whether a measurement can support a verdict.

A gate is a check of the outcomes or texts of one cell. If the check fails, the gate states the
measured number, its threshold, the questions concerned and advice. The verdict is then withheld,
except for the gates `enough_data` and `answer_leak` (see `decide`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from audit.core.number_text import percent, points, pvalue
from audit.core.records import Reading, Setting
from audit.judge import gates as shared
from audit.judging.result import Gate, Rule, ids_where, sizes
from audit.statistics.chance import chance_check, chance_level, upper_limit
from audit.statistics.mcnemar import cochran_q
from audit.statistics.paired import BoolArray, CellOutcomes, FloatArray, IntArray, State
from audit.statistics.permutation import paired_test
from audit.statistics.values import average, replicates_of, runs_of, settings_values, to_values
from audit.sweep.design import Arm, Draws, SweepThresholds
from audit.sweep.messages import TextMeasures
from audit.sweep.record import CLEAN, label
from audit.sweep.size import needed, repeated

_ARM_WORDS: dict[str, str] = {
    Arm.DIRECT: "direct",
    Arm.FORWARD_FULL: "the clean arm",
    Arm.NOISY_REWRITE: "the noisy arm",
}


def pairing(cell: CellOutcomes, texts: TextMeasures | None, limits: SweepThresholds) -> Gate:
    """Check that a question id refers to the same question in every arm.

    Parameters
    ----------
    cell : CellOutcomes
        The outcomes.
    texts : TextMeasures or None
        The measures of the texts, with the ids of questions whose text, options or gold answer
        differ between rows.
    limits : SweepThresholds
        The thresholds: the required number of standard errors, and the required number of
        questions.

    Returns
    -------
    Gate
        The gate. Its number is z = correlation * sqrt(n - 1), for the comparison with the z that is
        furthest below the required z.

    Notes
    -----
    The stored text, options and gold must be equal in all rows of a question.

    If the runs of an arm agree well on which questions are answered right, different arms must
    agree too. So the gate computes, over questions, the correlation between the accuracy in each
    arm and the accuracy in all other arms. To detect a single r with shuffled questions, the gate
    also tests single settings. The test of single settings requires at least ten times
    `pairing_questions_min` questions, and at least three settings in the other arms. Settings whose
    accuracy is not above chance cannot show an agreement, and are left out.

    The correlation that is expected between two sides is the square root of the product of their
    reliabilities (Spearman 1904, American Journal of Psychology 15). A comparison is judged only if
    the expected correlation is clearly above zero.
    """
    rule = Rule("pairing", limits.pairing_z_min, "ours; conf/verdict: pairing_z_min")
    if texts is not None and texts.mixed_ids:
        count = len(texts.mixed_ids)
        ids = f"{count} question {'id' if count == 1 else 'ids'}"
        detail = f"The question, options or right answer of {ids} differ between rows."
        advice = "Each of these ids names several questions. Run the audit again from one benchmark file."
        failed = rule.checked(False, 0, detail, advice, items=texts.mixed_ids)
        return replace(failed, number=None)
    agreements = _agreements(cell, limits)
    if not agreements:
        return rule.absent(
            "Only the texts can be checked, since the answers agree too little within the arms. Expected several "
            f"settings above chance, with answers to {limits.pairing_questions_min} questions or more."
        )
    name, _, worst = min(agreements, key=lambda compared: compared[2].z - compared[2].limit)
    noisy_compared = any(noisy for _, noisy, _ in agreements)
    return replace(rule, threshold=worst.limit).checked(
        passed=worst.z >= worst.limit,
        number=worst.z,
        detail=f"Right and wrong answers under {name} agree with the other arms {worst.z:.1f} standard errors better "
        f"than with shuffled questions. Expected {worst.expected:.0f} from the agreement within the arms "
        f"(the lowest of {len(agreements)} comparisons).",
        advice="The answers of an arm may belong to other questions. Compare the rows of one "
        "question id between arms.",
        numbers={"comparisons": float(len(agreements)), "noisy_compared": float(noisy_compared)},
    )


def _agreements(
    cell: CellOutcomes, limits: SweepThresholds
) -> list[tuple[str, bool, shared.Agreement]]:
    """Compare each side with the other arms.

    Return each side's name, whether the side is noisy, and its agreement with the other arms.
    """
    within = _Within(cell, limits)
    agreements = []
    for arm, settings in within.arms().items():
        others = []
        for s in within.usable:
            if s not in settings:
                others.append(s)
        sides = {arm: settings}
        if len(others) >= 3 and cell.n >= 10 * limits.pairing_questions_min and len(settings) > 1:
            for setting in settings:
                sides[label(setting)] = [setting]
        for name, side in sides.items():
            compared = within.compared(side, others)
            if compared is not None:
                agreements.append((name, settings[0].arm == Arm.NOISY_REWRITE, compared))
    return agreements


class _Within:
    """Measure how well settings of a cell agree on which questions are answered right.

    Only informative settings are used (`_is_informative`). With nested draws, the settings of one
    arm and replicate agree because they share messages. So these settings together count as one
    setting.
    """

    def __init__(self, cell: CellOutcomes, limits: SweepThresholds) -> None:
        self.cell, self.limits = cell, limits
        values = {s: to_values(cell.row(s)) for s in cell.settings}
        self.usable = {}
        for s, v in values.items():
            if _is_informative(v, cell, limits):
                self.usable[s] = v
        self.nested = cell.draws == Draws.NESTED
        self.pairs = {}
        for s, t in combinations(self.usable, 2):
            if not self.nested or (s.arm, s.replicate) != (t.arm, t.replicate):
                self.pairs[(s, t)] = _correlation(self.usable[s], self.usable[t])

    def arms(self) -> dict[str, list[Setting]]:
        """Map the name of each arm to its informative settings (see `_is_informative`)."""
        arms: dict[str, list[Setting]] = {}
        for setting in self.usable:
            name = _ARM_WORDS[setting.arm]
            if setting.arm == Arm.FORWARD_FULL and setting.level > 1:
                name = "the ensemble control"
            arms.setdefault(name, []).append(setting)
        return arms

    def compared(
        self, side: Sequence[Setting], others: Sequence[Setting]
    ) -> shared.Agreement | None:
        """Compare one side with the settings of the other arms.

        Parameters
        ----------
        side, others : sequence of Setting
            The settings of the two sides.

        Returns
        -------
        Agreement or None
            The agreement. None if the two sides cannot show whether a question id refers to the
            same question.
        """
        if not others:
            return None
        reliable, rest = self.reliability(side), self.reliability(others)
        if np.isnan(reliable) and np.isnan(rest):
            return None
        x, y = settings_values(self.cell, side), settings_values(self.cell, others)
        answered = ~np.isnan(x - y)
        x, y = x[answered], y[answered]
        least, fall = self.limits.pairing_questions_min, self.limits.fall_noted
        if x.size < least or abs(x.mean() - y.mean()) >= fall:
            # If noise lowers the accuracy this much, noise may also remove the agreement.
            return None
        # If the reliability of one side is unknown, it is assumed to equal that of the second side.
        of_side = _stepped_up(rest if np.isnan(reliable) else reliable, self.count(side))
        of_others = _stepped_up(reliable if np.isnan(rest) else rest, self.count(others))
        return shared.agreement(
            x, y, float(np.sqrt(of_side * of_others)), self.limits.pairing_z_min
        )

    def reliability(self, settings: Sequence[Setting]) -> float:
        """Estimate the reliability of a single setting of a side.

        Parameters
        ----------
        settings : sequence of Setting
            The settings of a side.

        Returns
        -------
        float
            The mean correlation between two settings of the side, at least 0. NaN if no correlation
            can be computed.
        """
        known = []
        for (s, t), r in self.pairs.items():
            if s in settings and t in settings and not np.isnan(r):
                known.append(r)
        return max(float(np.mean(known)), 0.0) if known else float("nan")

    def count(self, settings: Sequence[Setting]) -> int:
        """Return the number of independent settings."""
        return len({(s.arm, s.replicate) for s in settings}) if self.nested else len(settings)


def _is_informative(values: FloatArray, cell: CellOutcomes, limits: SweepThresholds) -> bool:
    """Return whether a setting has enough right and wrong answers, and is above chance."""
    known = ~np.isnan(values)
    answers = values[known]
    if answers.size < limits.pairing_questions_min or answers.std() == 0:
        return False
    errors = limits.above_chance_standard_errors
    return bool(chance_check(float(answers.mean()), cell.n_options[known], errors).above)


def _correlation(x: FloatArray, y: FloatArray) -> float:
    """Return the correlation of two sides over the questions with an answer on each side.

    The correlation is NaN if the values of a side do not vary.
    """
    answered = ~np.isnan(x - y)
    x, y = x[answered], y[answered]
    varies = x.size > 1 and x.std() > 0 and y.std() > 0
    return float(np.corrcoef(x, y)[0, 1]) if varies else float("nan")


def _stepped_up(correlation: float, k: int) -> float:
    """Return the reliability of the mean of k settings, computed by the Spearman-Brown formula."""
    return k * correlation / (1 + (k - 1) * correlation)


def clean_fidelity(cell: CellOutcomes, texts: TextMeasures | None, limits: SweepThresholds) -> Gate:
    """Check that the clean router transmits the question.

    A clean router that loses part of the question lowers the baseline, which looks like a gain
    under noise.

    Parameters
    ----------
    cell : CellOutcomes
        The outcomes.
    texts : TextMeasures or None
        The measures of the texts, which contain the number of clean messages that drop an option or
        the stem.
    limits : SweepThresholds
        The thresholds: the largest allowed loss of accuracy, and the largest allowed share of
        messages that drop an option or the stem.

    Returns
    -------
    Gate
        The gate. It fails in either of two cases:

        - The accuracy of the clean arm is lower than that of `direct` by more than
          `clean_loss_max`, and this loss is significant at alpha.
        - The share of clean messages that drop an option or the stem exceeds `lossy_share_max`.

        The gate's number is that of the first failed check, or that of the first check if no check
        fails.
    """
    name = "clean_fidelity"
    source = "ours, after song2026 section 4.2; conf/verdict: clean_loss_max, lossy_share_max"
    # Measured number, limit, and whether the check fails.
    checks: list[tuple[float, float, bool]] = []
    numbers: dict[str, float] = {}
    parts: list[str] = []
    if replicates_of(cell, Arm.FORWARD_FULL, 1) and replicates_of(cell, Arm.DIRECT, 0):
        # All clean replicates are averaged, as for the baseline of the gain.
        direct = runs_of(cell, Arm.DIRECT, (0,))[:, 0]
        clean = runs_of(cell, Arm.FORWARD_FULL, (1,))[:, 0]
        difference = average(direct) - average(clean)
        if np.any(~np.isnan(difference)):
            loss = float(np.nanmean(difference))
            # The result of a gate must depend only on the data. The permutation test draws random
            # numbers, so its seed is fixed.
            p = paired_test(direct, clean, cell.cluster, rng=np.random.default_rng(0))
            numbers |= {"loss": loss, "loss_p": p, "loss_max": limits.clean_loss_max}
            too_large = loss > limits.clean_loss_max and p <= limits.alpha
            checks.append((loss, limits.clean_loss_max, too_large))
            parts.append(
                f"clean answers {points(abs(loss))} {'below' if loss > 0 else 'above'} direct ({pvalue(p)})"
            )
    items: tuple[str, ...] = ()
    if texts is not None and texts.clean_messages:
        share = texts.clean_lossy / texts.clean_messages
        numbers |= {
            "lossy_share": share,
            "lossy_share_max": limits.lossy_share_max,
            "without_stem": texts.clean_without_stem / texts.clean_messages,
            "without_option": texts.clean_without_option / texts.clean_messages,
        }
        checks.append((share, limits.lossy_share_max, share > limits.lossy_share_max))
        items = texts.lossy_ids
        parts.append(
            f"{percent(share)} of {texts.clean_messages} clean messages drop an option or the stem"
        )
    if not checks:
        rule = Rule(name, limits.clean_loss_max, source)
        return rule.absent("This run has neither a direct arm nor clean messages.")
    failed_checks = [check for check in checks if check[-1]]
    number, limit, fails = (failed_checks or checks)[0]
    return Rule(name, limit, source, always_items=True).checked(
        passed=not fails,
        number=number,
        detail=(" and ".join(parts)).capitalize() + ".",
        advice="The clean router does not transmit the whole question. Raise the router's "
        "max_tokens, improve its prompt or use a stronger router model. Until then, use the "
        "comparison with direct.",
        items=items,
        numbers=numbers,
    )


def manipulation_reached_worker(texts: TextMeasures | None, limits: SweepThresholds) -> Gate:
    """Check that the text that reached the worker in the noisy arm differs from the clean text.

    Parameters
    ----------
    texts : TextMeasures or None
        The measures of the texts. They contain the number of noisy presentations whose request or
        normalised text is equal to that of the clean baseline.
    limits : SweepThresholds
        The thresholds, which contain the largest allowed share of noisy presentations that are
        equal to the clean presentation.

    Returns
    -------
    Gate
        The gate. Its number is the share of noisy presentations that are equal to the clean one.
    """
    source = "li2026, gate G1 (silent no-op rate below 20 %), on request_sha256 and text; conf/verdict: noop_share_max"
    rule = Rule("manipulation_reached_worker", limits.noop_share_max, source, always_items=True)
    if texts is None or not texts.noisy_presentations:
        return rule.absent("This run has no worker prompt of a noisy presentation.")
    share = texts.noops / texts.noisy_presentations
    return rule.checked(
        passed=share < rule.threshold,
        number=share,
        detail=f"{percent(share)} of {texts.noisy_presentations} noisy presentations reached the worker as the clean "
        f"text, {texts.same_requests} of them with the same request. On average "
        f"{percent(texts.deleted or 0)} of the question's words were missing "
        f"({percent(texts.deleted_per_message or 0)} in a single message), and "
        f"{percent(texts.added or 0)} of the text was new.",
        advice="The routers did not rewrite the question, or the worker did not receive their "
        "text. Read some noisy messages and worker prompts. Raise the router's temperature, or use "
        "a stronger router.",
        items=texts.noop_ids,
        numbers={
            "deleted": texts.deleted,
            "deleted_per_message": texts.deleted_per_message,
            "added": texts.added,
            "lost": texts.lost / texts.noisy_presentations,
            "same_request": texts.same_requests / texts.noisy_presentations,
        },
    )


def answer_leak(texts: TextMeasures | None, limits: SweepThresholds, options: bool = True) -> Gate:
    """Check that few noisy router messages state the gold option as the answer.

    Parameters
    ----------
    texts : TextMeasures or None
        The measures of the texts, which contain the number of noisy messages that state the answer.
    limits : SweepThresholds
        The thresholds, which contain the largest allowed share of noisy messages that state the
        answer.
    options : bool
        Whether the questions have options.

    Returns
    -------
    Gate
        The gate. Its number is the share of noisy messages that state the answer. A failure does
        not withhold the verdict (see `decide`).
    """
    source = (
        "ours; routers are told not to answer (song2026, section 4.3); conf/verdict: leak_share_max"
    )
    rule = Rule("answer_leak", limits.leak_share_max, source, always_items=True)
    if texts is None or not texts.messages_noisy:
        return rule.absent("This run has no noisy router message.", withholds=False)
    if not options:
        detail = (
            "The questions have no options, so stated answers are not searched for in the messages."
        )
        return rule.absent(detail, withholds=False)
    share = texts.leaking_noisy / texts.messages_noisy
    gold_only = texts.gold_only_kept / texts.options_to_keep if texts.options_to_keep else None
    gold_only_text = ""
    if gold_only is not None:
        gold_only_text = (
            f" {percent(gold_only)} kept the right option and dropped every other option."
        )
    return rule.checked(
        passed=share <= rule.threshold,
        number=share,
        detail=f"{percent(share)} of {texts.messages_noisy} noisy router messages state the right option as the "
        f"answer. {percent(texts.stated_wrong / texts.messages)} of all messages state a wrong "
        f"option.{gold_only_text}",
        advice="The routers answer the question instead of rewriting it. Use only the results "
        "without these questions, and forbid answers more clearly in the router prompt.",
        withholds=False,
        items=texts.leak_ids,
        numbers={
            "all_messages": texts.leaking / texts.messages,
            "stated_wrong": texts.stated_wrong / texts.messages,
            "gold_only_kept": gold_only,
        },
    )


_PARSE_ALPHA = 0.05  # family-wise error rate of the gate over all arms and settings of a cell


def above_chance(cell: CellOutcomes, limits: SweepThresholds) -> Gate:
    """Check that the accuracies of the clean baseline and of `direct` are above chance.

    Parameters
    ----------
    cell : CellOutcomes
        The outcomes.
    limits : SweepThresholds
        The thresholds, with the required number of standard errors.

    Returns
    -------
    Gate
        The gate. Its number is the smaller of the two z scores. A z score is (accuracy - chance)
        divided by the standard error of a guesser's accuracy. Chance is the mean of 1/k over the
        questions, where k is the number of options.
    """
    limit = limits.above_chance_standard_errors
    measured: dict[str, float] = {}
    for arm, settings in (
        ("clean", replicates_of(cell, Arm.FORWARD_FULL, 1)),
        ("direct", replicates_of(cell, Arm.DIRECT, 0)),
    ):
        if settings:
            values = settings_values(cell, settings)
            answered = ~np.isnan(values)
            if answered.any():
                # A slice does not copy the array. This saves time, since the self-test calls this
                # function 500 times.
                selected = slice(None) if answered.all() else answered
                check = chance_check(
                    float(values[selected].mean()), cell.n_options[selected], limit
                )
                measured |= {f"{arm}_accuracy": check.accuracy, f"{arm}_z": check.z}
    scores, accuracies = [], []
    for arm in ("clean", "direct"):
        if f"{arm}_z" in measured:
            scores.append(measured[f"{arm}_z"])
            accuracies.append(f"{arm} {measured[f'{arm}_accuracy']:.3f}")
    chance = chance_level(cell.n_options)
    if not scores:
        return Rule("above_chance", limit, shared.CHANCE_SOURCE).absent(
            "Neither the clean nor the direct arm has an answer."
        )
    shown = " and ".join(accuracies)
    return shared.above_chance(shown, min(scores), chance, limit, {"chance": chance, **measured})


def parseability(cell: CellOutcomes, limits: SweepThresholds) -> Gate:
    """Check the share of rows whose answer could be parsed, in each arm and in each setting.

    Parameters
    ----------
    cell : CellOutcomes
        The outcomes.
    limits : SweepThresholds
        The thresholds, with the smallest allowed share.

    Returns
    -------
    Gate
        The gate. It fails only if a share of parsed answers is significantly below the limit. Its
        number is the upper 95 % confidence limit of the lowest share (exact binomial, one-sided,
        corrected for the number of arms and settings).

    Notes
    -----
    The rows of an arm on one question are not independent. So the confidence limit of an arm is
    computed from the number of questions, not from the number of rows. Settings are checked too,
    since the average of an arm could hide a single r with many unparsed answers. Truncated and
    failed rows are counted separately.
    """
    limit = limits.answered_share_min
    numbers: dict[str, float | None] = {}
    shares: dict[str, float] = {}
    masks: dict[str, BoolArray] = {}
    for arm in Arm:
        settings = cell.settings_of(arm)
        if not settings:
            continue
        state, name = np.stack([cell.row(s) for s in settings]), f"the {arm} arm"
        present = max(int(np.sum(state != State.ABSENT)), 1)
        for kind in (State.UNPARSED, State.TRUNCATED, State.ERROR):
            numbers[f"{arm}_{kind.name.lower()}"] = float(np.sum(state == kind)) / present
        numbers[f"{arm}_absent"] = float(np.mean(state == State.ABSENT))
        numbers[f"{arm}_answered"] = shares[name] = float(np.mean(state >= State.WRONG))
        masks[name] = np.any(state < State.WRONG, axis=0)
    for s in cell.settings:
        shares[label(s)] = float(np.mean(cell.row(s) >= State.WRONG))
        masks[label(s)] = cell.row(s) < State.WRONG
    level = 1 - _PARSE_ALPHA / len(shares)
    highest = {}
    for name, share in shares.items():
        highest[name] = upper_limit(round(share * cell.n), cell.n, level)
    worst = min(highest, key=lambda k: (highest[k], shares[k]))
    detail = (
        f"{percent(shares[worst])} of the rows of {worst} have a readable answer, the lowest of {len(shares)} arms and "
        f"settings (upper limit {percent(highest[worst])})."
    )
    if cell.reading in (Reading.LETTER_LOGPROB, Reading.OPTION_TEXT):
        detail += f" The reading {cell.reading} fails only for exact ties and failed rows."
    source = "li2026, gate G1 (parseability at least 0.95); conf/verdict: answered_share_min"
    return Rule("parseability", limit, source, always_items=True).checked(
        passed=highest[worst] >= limit,
        number=highest[worst],
        detail=detail,
        advice="Look at some unreadable replies. Raise max_tokens if they are cut off, improve the "
        "worker prompt, or choose the reading letter_logprob or option_text.",
        items=ids_where(cell.question_ids, masks[worst]),
        numbers=numbers,
    )


def noise_floor_p(cell: CellOutcomes) -> float:
    """Test by Cochran's Q whether the clean replicates are equally accurate.

    Parameters
    ----------
    cell : CellOutcomes
        The outcomes.

    Returns
    -------
    float
        The p-value; NaN if fewer than two replicates have answers to the same questions.
    """
    if len(replicates_of(cell, Arm.FORWARD_FULL, 1)) < 2:
        return float("nan")
    complete, cluster = _complete_clean(cell)
    return cochran_q(complete, cluster) if complete.size else float("nan")


def noise_floor(
    cell: CellOutcomes, limits: SweepThresholds, p_adjusted: float | None = None
) -> Gate:
    """Check that the clean replicates are equally accurate, since they differ only in their seeds.

    Parameters
    ----------
    cell : CellOutcomes
        The outcomes.
    limits : SweepThresholds
        The level of the test.
    p_adjusted : float, optional
        The p-value of `noise_floor_p`, corrected by Holm's procedure over the panel. None uses the
        uncorrected p-value.

    Returns
    -------
    Gate
        The gate. Its number is the p-value of Cochran's Q over the replicates, clustered by the
        groups of questions.

    Notes
    -----
    If the gate passes, the remaining differences between replicates are included in the standard
    errors (`audit.statistics.run_variance`).
    """
    source = "ours; Cochran's Q between the clean replicates, Holm over the panel; conf/verdict: noise_floor_alpha"
    limit = limits.noise_floor_alpha
    rule = Rule("noise_floor", limit, source)
    replicates = replicates_of(cell, Arm.FORWARD_FULL, 1)
    if len(replicates) < 2:
        return rule.absent("The clean arm was run once, so there are no replicates to compare.")
    complete, cluster = _complete_clean(cell)
    if not complete.size:
        return rule.absent("No question is answered in every replicate of the clean arm.")
    p = cochran_q(complete, cluster) if p_adjusted is None else p_adjusted
    passed = p > limit
    shown = ", ".join(f"{accuracy:.3f}" for accuracy in complete.mean(axis=1))
    return rule.checked(
        passed=passed,
        number=p,
        detail=f"The {len(replicates)} replicates of the clean arm (accuracies {shown}) differ "
        f"{'by no more than this gate allows' if passed else 'by more than chance explains'} ({pvalue(p)}).",
        advice=f"Repeat the run with another seed, since {percent(limit)} of clean runs fail this gate "
        "by chance. If it fails again, the replicates differ in more than the seed. Compare their shards "
        "(engine, prompts, truncated replies).",
        numbers={"replicates": float(len(replicates)), "questions": float(complete.shape[1])},
    )


def _complete_clean(cell: CellOutcomes) -> tuple[FloatArray, IntArray]:
    """Return outcomes (K, m) and clusters (m,) of m questions that all K replicates answered."""
    runs = runs_of(cell, Arm.FORWARD_FULL, (1,))[:, 0]
    complete = ~np.isnan(runs).any(axis=0)
    return runs[:, complete], cell.cluster[complete]


def exact_values(cell: CellOutcomes) -> Gate:
    """Check for values that are rare in real data, which suggest an error of the measurement.

    Such a value is an accuracy of exactly 0 or 1, or a noisy setting without any changed answer.

    Parameters
    ----------
    cell : CellOutcomes
        The outcomes.

    Returns
    -------
    Gate
        The gate. Its number is the count of the rare values.

    Notes
    -----
    A gain of exactly 0 does not fail the gate if some answers changed, because such a gain is
    common in a small sample: with 20 changed answers, its probability is 18 %. `zero_gains` counts
    such gains.
    """
    noisy = cell.settings_of(Arm.NOISY_REWRITE) if CLEAN in cell.settings else ()
    zero_gains = zero_width = 0
    for setting in noisy:
        change = to_values(cell.row(setting)) - to_values(cell.row(CLEAN))
        change = change[~np.isnan(change)]
        zero_gains += bool(change.size and change.sum() == 0)
        zero_width += bool(change.size and not change.any())
    unchanged = ""
    if noisy and zero_width == len(noisy):
        unchanged = "no answer differs between the clean and the noisy arm, so every interval has zero width"
    gains = f" {zero_gains} of {len(noisy)} gains are exactly 0." if zero_gains else ""
    return shared.exact_values(
        [(label(s), to_values(cell.row(s))) for s in cell.settings],
        to_values(cell.state),
        unchanged,
        f"No accuracy is exactly 0 or 1.{gains}",
        "Look at the raw replies. Such values usually come from unparsed answers, wrong labels or "
        "noise without effect. A benchmark on which the model is always right cannot show a gain.",
        {"zero_gains": float(zero_gains), "zero_width_intervals": float(zero_width)},
    )


def enough_data(
    largest_compatible: float | None,
    limits: SweepThresholds,
    questions: int,
    needed: int,
    repeated: str = "",
) -> Gate:
    """Check that the data exclude a gain as large as the smallest effect that matters.

    Parameters
    ----------
    largest_compatible : float or None
        The upper confidence limit of the gain; None if the clean and the noisy arm cannot be
        compared.
    limits : SweepThresholds
        The smallest effect that matters.
    questions : int
        The number of questions of the run.
    needed : int
        The number of questions that this design needs.
    repeated : str
        The options of the command that would repeat the arms that were run only once.

    Returns
    -------
    Gate
        The gate. A failure does not withhold a verdict that reports an effect. If no effect is
        found and the gate fails, the verdict is `underpowered`.
    """
    limit = limits.effect_of_interest
    source = "one-sided 95 % upper limit of the gain, the largest over r; conf/verdict: effect_of_interest"
    rule = Rule("enough_data", limit, source)
    if largest_compatible is None:
        return rule.absent(
            "The clean and the noisy arm share no answered question.", withholds=False
        )
    number = f"about {needed:,}" if needed > questions else "more"
    return rule.checked(
        passed=largest_compatible <= limit,  # This is False for NaN.
        number=largest_compatible,
        detail=f"A gain of {points(largest_compatible)} is still compatible with the data. The smallest gain that "
        f"matters is {points(limit)}.",
        advice=f"Ask {number} questions{repeated} ({questions:,} were asked). "
        "Choose a larger benchmark if this one has fewer. "
        "More clean replicates also help and, if questions are grouped, more subjects or passages.",
        withholds=False,
        numbers=sizes(questions, needed),
    )


def all_gates(
    cell: CellOutcomes,
    texts: TextMeasures | None,
    limits: SweepThresholds,
    largest_compatible: float | None,
    noise_floor_adjusted: float | None = None,
    tests: int = 1,
) -> tuple[Gate, ...]:
    """Run all gates on one cell, and return them in the order of the report.

    Parameters
    ----------
    cell : CellOutcomes
        The outcomes.
    texts : TextMeasures or None
        The measures of the texts; None if only outcomes were read.
    limits : SweepThresholds
        The thresholds.
    largest_compatible : float or None
        Upper confidence limit of the gain.
    noise_floor_adjusted : float, optional
        The p-value of `noise_floor_p`, corrected over the panel.
    tests : int
        The number of tests of the panel: the number of cells multiplied by the largest number of
        router counts of a cell.

    Returns
    -------
    tuple of Gate
        The nine gates.
    """
    return (
        parseability(cell, limits),
        above_chance(cell, limits),
        pairing(cell, texts, limits),
        noise_floor(cell, limits, noise_floor_adjusted),
        exact_values(cell),
        clean_fidelity(cell, texts, limits),
        manipulation_reached_worker(texts, limits),
        answer_leak(texts, limits, bool(cell.n_options.any())),
        enough_data(
            largest_compatible, limits, cell.n, needed(limits, tests), repeated(cell.settings)
        ),
    )
