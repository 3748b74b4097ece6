"""The gates: can this measurement carry a verdict at all? Each is a function of one cell's outcomes or texts.

A gate that fails says so with its number, its threshold, the questions behind it and what to do. `withholds` tells
whether a failure alone withholds the verdict; `enough_data` and `answer_leak` do not: see `decide`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from audit.judge import gates as shared
from audit.records import Reading, Setting
from audit.statistics.chance import chance_check, chance_level, upper_limit
from audit.statistics.mcnemar import cochran_q
from audit.statistics.paired import BoolArray, CellOutcomes, FloatArray, IntArray, State
from audit.statistics.permutation import paired_test
from audit.statistics.values import average, replicates_of, runs_of, settings_values, to_values
from audit.sweep.design import Arm, Draws, SweepThresholds
from audit.sweep.messages import TextMeasures
from audit.sweep.record import CLEAN, label
from audit.sweep.size import needed, repeated
from audit.verdict.result import Gate, Rule, ids_where, percent, points, pvalue, sizes

_ARM_WORDS: dict[str, str] = {
    Arm.DIRECT: "direct",
    Arm.FORWARD_FULL: "the clean arm",
    Arm.NOISY_REWRITE: "the noisy arm",
}


def pairing(cell: CellOutcomes, texts: TextMeasures | None, limits: SweepThresholds) -> Gate:
    """The same question must be the same question in every arm.

    Its stored text, options and gold must be one in all rows. And where right and wrong answers agree well within an
    arm, they must agree between arms too. Each arm's accuracy per question is correlated with that of all other arms;
    with ten times `pairing_questions_min` questions and three or more settings in the other arms, each single setting
    is too, so that one shuffled r is found. What is not itself above chance carries no signal and is left out.

    A correlation is judged only where the agreement within the two sides lets enough be expected to tell it from none
    (the root of the product of their reliabilities; Spearman 1904, American Journal of Psychology 15).
    number: z = correlation * sqrt(n - 1) of the comparison that is furthest below what was expected.
    """
    rule = Rule("pairing", limits.pairing_z_min, "ours; conf/verdict: pairing_z_min")
    if texts is not None and texts.mixed_ids:
        count = len(texts.mixed_ids)
        detail = f"The question, options or right answer of {count} question {'id' if count == 1 else 'ids'} differ "
        advice = "These ids do not mean one question: run the audit again from one benchmark file."
        failed = rule.checked(False, 0, f"{detail}between rows.", advice, items=texts.mixed_ids)
        return replace(failed, number=None)
    found = _agreements(cell, limits)
    if not found:
        return rule.absent(
            "Nothing can be checked beyond the texts: answers must agree well enough within the arms (several settings "
            f"above chance, with right and wrong answers to {limits.pairing_questions_min} questions or more)."
        )
    what, _, at = min(found, key=lambda one: one[2].z - one[2].limit)
    return replace(rule, threshold=at.limit).checked(
        passed=at.z >= at.limit,
        number=at.z,
        detail=f"Right and wrong answers under {what} agree with the other arms {at.z:.1f} standard errors "
        f"better than shuffled questions would; {at.expected:.0f} are expected from the agreement within the arms "
        f"(the lowest of {len(found)} comparisons).",
        advice="Answers of one arm seem to belong to other questions: compare the rows of one id across arms.",
        numbers={"comparisons": float(len(found)), "noisy_compared": float(any(noisy for _, noisy, _ in found))},
    )


def _agreements(cell: CellOutcomes, limits: SweepThresholds) -> list[tuple[str, bool, shared.Agreement]]:
    """Every comparison of a side with the other arms that can speak: its name, whether it is noisy, the agreement."""
    within = _Within(cell, limits)
    found = []
    for arm, settings in within.arms().items():
        others = [s for s in within.usable if s not in settings]
        sides = {arm: settings}
        if len(others) >= 3 and cell.n >= 10 * limits.pairing_questions_min and len(settings) > 1:
            sides |= {label(s): [s] for s in settings}
        for what, side in sides.items():
            one = within.compared(side, others)
            if one is not None:
                found.append((what, settings[0].arm == Arm.NOISY_REWRITE, one))
    return found


class _Within:
    """The settings of a cell that can speak, and how well they agree among themselves.

    Nested draws of one arm and replicate share messages and agree for that reason alone: together they count as one.
    """

    def __init__(self, cell: CellOutcomes, limits: SweepThresholds) -> None:
        self.cell, self.limits = cell, limits
        values = {s: to_values(cell.row(s)) for s in cell.settings}
        self.usable = {s: v for s, v in values.items() if _speaks(v, cell, limits)}
        self.nested = cell.draws == Draws.NESTED
        self.pairs = {
            (s, t): _correlation(self.usable[s], self.usable[t])
            for s, t in combinations(self.usable, 2)
            if not self.nested or (s.arm, s.replicate) != (t.arm, t.replicate)
        }

    def arms(self) -> dict[str, list[Setting]]:
        arms: dict[str, list[Setting]] = {}
        for setting in self.usable:
            ensemble = setting.arm == Arm.FORWARD_FULL and setting.level > 1
            arms.setdefault("the ensemble control" if ensemble else _ARM_WORDS[setting.arm], []).append(setting)
        return arms

    def compared(self, side: Sequence[Setting], others: Sequence[Setting]) -> shared.Agreement | None:
        """None where the two cannot tell a pairing."""
        if not others:
            return None
        reliable, rest = self.reliability(side), self.reliability(others)
        if np.isnan(reliable) and np.isnan(rest):
            return None
        x, y = settings_values(self.cell, side), settings_values(self.cell, others)
        both = ~np.isnan(x - y)
        x, y = x[both], y[both]
        least, fall = self.limits.pairing_questions_min, self.limits.fall_noted
        if x.size < least or abs(x.mean() - y.mean()) >= fall:
            return None  # what costs so much accuracy may cost the agreement too
        # a side that cannot tell is taken to be as the other
        own = _stepped_up(rest if np.isnan(reliable) else reliable, self.count(side))
        theirs = _stepped_up(reliable if np.isnan(rest) else rest, self.count(others))
        return shared.agreement(x, y, float(np.sqrt(own * theirs)), self.limits.pairing_z_min)

    def reliability(self, settings: Sequence[Setting]) -> float:
        """Mean correlation of two of these settings; NaN where no two can be correlated."""
        known = [r for (s, t), r in self.pairs.items() if s in settings and t in settings and not np.isnan(r)]
        return max(float(np.mean(known)), 0.0) if known else float("nan")

    def count(self, settings: Sequence[Setting]) -> int:
        return len({(s.arm, s.replicate) for s in settings}) if self.nested else len(settings)


def _speaks(values: FloatArray, cell: CellOutcomes, limits: SweepThresholds) -> bool:
    """Whether a setting has enough answers, right and wrong ones, and is above chance."""
    there = ~np.isnan(values)
    answered = values[there]
    if answered.size < limits.pairing_questions_min or answered.std() == 0:
        return False
    errors = limits.above_chance_standard_errors
    return bool(chance_check(float(answered.mean()), cell.n_options[there], errors).above)


def _correlation(x: FloatArray, y: FloatArray) -> float:
    """Over the questions answered in both; NaN where one side does not vary."""
    both = ~np.isnan(x - y)
    x, y = x[both], y[both]
    return float(np.corrcoef(x, y)[0, 1]) if x.size > 1 and x.std() > 0 and y.std() > 0 else float("nan")


def _stepped_up(correlation: float, k: int) -> float:
    """Reliability of the mean of k settings of which two correlate so (Spearman-Brown)."""
    return k * correlation / (1 + (k - 1) * correlation)


def clean_fidelity(cell: CellOutcomes, texts: TextMeasures | None, limits: SweepThresholds) -> Gate:
    """A clean router that loses the question lowers the baseline and manufactures gains.

    Fails when the clean arm loses more than `clean_loss_max` against direct and more than chance explains (at alpha),
    or when more than `lossy_share_max` of the clean messages drop an option or the stem.
    number: the first of the two that fails, else the first that is there.
    """
    name, source = "clean_fidelity", "ours, after song2026 section 4.2; conf/verdict: clean_loss_max, lossy_share_max"
    checks: list[tuple[float, float, bool]] = []  # a number, its limit, whether it fails
    numbers: dict[str, float] = {}
    parts: list[str] = []
    if replicates_of(cell, Arm.FORWARD_FULL, 1) and replicates_of(cell, Arm.DIRECT, 0):
        # All clean replicates: the baseline of the effect is their average, so its loss is too.
        direct, clean = runs_of(cell, Arm.DIRECT, (0,))[:, 0], runs_of(cell, Arm.FORWARD_FULL, (1,))[:, 0]
        difference = average(direct) - average(clean)
        if np.any(~np.isnan(difference)):
            loss = float(np.nanmean(difference))
            # A fixed seed: a gate is a function of the data alone (the exchange of runs draws, McNemar does not).
            p = paired_test(direct, clean, cell.cluster, rng=np.random.default_rng(0))
            numbers |= {"loss": loss, "loss_p": p, "loss_max": limits.clean_loss_max}
            checks.append((loss, limits.clean_loss_max, loss > limits.clean_loss_max and p <= limits.alpha))
            parts.append(f"clean answers {points(abs(loss))} {'below' if loss > 0 else 'above'} direct ({pvalue(p)})")
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
        parts.append(f"{percent(share)} of {texts.clean_messages} clean messages drop an option or the stem")
    if not checks:
        rule = Rule(name, limits.clean_loss_max, source)
        return rule.absent("Neither a direct arm nor clean messages are at hand.")
    number, limit, fails = next((one for one in checks if one[-1]), checks[0])
    return Rule(name, limit, source, always_items=True).checked(
        passed=not fails,
        number=number,
        detail=(" and ".join(parts)).capitalize() + ".",
        advice="The clean router does not transmit the question: raise the router's max_tokens, mend its prompt or use "
        "a stronger router model; compare with direct meanwhile.",
        items=items,
        numbers=numbers,
    )


def manipulation_reached_worker(texts: TextMeasures | None, limits: SweepThresholds) -> Gate:
    """Share of noisy presentations that are the clean one: the very request, or the same text after normalisation."""
    source = "li2026, gate G1 (silent no-op rate below 20 %), on request_sha256 and text; conf/verdict: noop_share_max"
    rule = Rule("manipulation_reached_worker", limits.noop_share_max, source, always_items=True)
    if texts is None or not texts.noisy_presentations:
        return rule.absent("No worker prompt of a noisy presentation is at hand.")
    share = texts.noops / texts.noisy_presentations
    return rule.checked(
        passed=share < rule.threshold,
        number=share,
        detail=f"{percent(share)} of {texts.noisy_presentations} noisy presentations reached the worker as the clean "
        f"text, {texts.same_requests} as the very request of the clean baseline. "
        f"On average {percent(texts.deleted or 0)} of the question's words were gone "
        f"({percent(texts.deleted_per_message or 0)} in a single message) and {percent(texts.added or 0)} of its text "
        "was new.",
        advice="The routers did not rewrite, or their text was not used: read some noisy messages and "
        "the worker prompt that was sent, and raise the router's temperature or use a stronger router.",
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
    """Share of noisy router messages that state the gold option as the answer. Does not withhold: see `decide`."""
    source = "ours; routers are told not to answer (song2026, section 4.3); conf/verdict: leak_share_max"
    rule = Rule("answer_leak", limits.leak_share_max, source, always_items=True)
    if texts is None or not texts.messages_noisy:
        return rule.absent("No noisy router message is at hand.", withholds=False)
    if not options:
        told = "The questions have no options: whether a message states the answer is not looked for."
        return rule.absent(told, withholds=False)
    share = texts.leaking_noisy / texts.messages_noisy
    alone = texts.gold_only_kept / texts.options_to_keep if texts.options_to_keep else None
    return rule.checked(
        passed=share <= rule.threshold,
        number=share,
        detail=f"{percent(share)} of {texts.messages_noisy} noisy router messages state the right option as the "
        f"answer; {percent(texts.stated_wrong / texts.messages)} of all messages state a wrong one"
        + ("." if alone is None else f"; {percent(alone)} kept the right option and dropped every other."),
        advice="The routers answer instead of rewriting: trust only the figures without the questions "
        "concerned, and forbid answering more firmly in the router prompt.",
        withholds=False,
        items=texts.leak_ids,
        numbers={
            "all_messages": texts.leaking / texts.messages,
            "stated_wrong": texts.stated_wrong / texts.messages,
            "gold_only_kept": alone,
        },
    )


_PARSE_ALPHA = 0.05  # of all arms and settings of a cell together


def above_chance(cell: CellOutcomes, limits: SweepThresholds) -> Gate:
    """Clean and direct accuracy beat the mean of 1/k by the given number of standard errors.

    number: the smaller of the two z scores, (accuracy - chance) / standard error of a guesser.
    """
    limit = limits.above_chance_standard_errors
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
        return Rule("above_chance", limit, shared.CHANCE_SOURCE).absent(
            "Neither the clean nor the direct arm has an answer."
        )
    shown = " and ".join(f"{a} {found[a + '_accuracy']:.3f}" for a in ("clean", "direct") if f"{a}_z" in found)
    return shared.above_chance(shown, min(scores), chance, limit, {"chance": chance, **found})


def parseability(cell: CellOutcomes, limits: SweepThresholds) -> Gate:
    """Share of rows with a readable answer, by arm, and by setting: below the limit beyond doubt withholds.

    number: the upper 95 % limit (exact binomial, one-sided, corrected for their number) of the arm or setting that is
    lowest. An arm's rows of one question are not independent, so its limit is that of as many questions. By setting
    too, because one unreadable r of nine hides in its arm's average. Truncated and failed rows are counted apart.
    """
    limit = limits.answered_share_min
    numbers: dict[str, float | None] = {}
    shares: dict[str, float] = {}
    masks: dict[str, BoolArray] = {}
    for arm in Arm:
        if not (settings := cell.settings_of(arm)):
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
    complete, cluster = _complete_clean(cell)
    return cochran_q(complete, cluster) if complete.size else float("nan")


def noise_floor(cell: CellOutcomes, limits: SweepThresholds, p_adjusted: float | None = None) -> Gate:
    """Replicates of the clean arm differ only in their seeds, so they are equally accurate: Cochran's Q over them,
    clustered by group.

    p_adjusted: `noise_floor_p` after Holm over the panel; that of this cell alone where None. What differs by less than
    this gate sees enters the standard errors (`audit.statistics.run_variance`).
    """
    source = "ours; Cochran's Q between the clean replicates, Holm over the panel; conf/verdict: noise_floor_alpha"
    rule = Rule("noise_floor", limit := limits.noise_floor_alpha, source)
    replicates = replicates_of(cell, Arm.FORWARD_FULL, 1)
    if len(replicates) < 2:
        return rule.absent("There is one replicate of the clean arm: nothing to compare it with.")
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
        f"{'by no more than this gate allows' if passed else 'more than chance usually makes'} ({pvalue(p)}).",
        advice=f"Repeat the run under another seed: {percent(limit)} of clean runs fail this by chance. If it fails "
        "again, more than the seed changes between runs: compare their shards (engine, prompts, truncated replies).",
        numbers={"replicates": float(len(replicates)), "questions": float(complete.shape[1])},
    )


def _complete_clean(cell: CellOutcomes) -> tuple[FloatArray, IntArray]:
    """(K, m) outcomes of the clean replicates on the m questions that all of them answered, and (m,) their clusters."""
    runs = runs_of(cell, Arm.FORWARD_FULL, (1,))[:, 0]
    complete = ~np.isnan(runs).any(axis=0)
    return runs[:, complete], cell.cluster[complete]


def exact_values(cell: CellOutcomes) -> Gate:
    """Values that real data rarely give: an accuracy of exactly 0 or 1, no changed answer in any noisy setting.

    number: how many such alarms. A gain of exactly 0 with some answers changed is common in a small sample (for 20
    changed answers, 18 % of the time): `zero_gains` counts those, and they withhold nothing.
    """
    noisy = cell.settings_of(Arm.NOISY_REWRITE) if CLEAN in cell.settings else ()
    gaps = [to_values(cell.row(s)) - to_values(cell.row(CLEAN)) for s in noisy]
    changes = [gap[~np.isnan(gap)] for gap in gaps]
    zero_gains = sum(bool(change.size and change.sum() == 0) for change in changes)
    zero_width = sum(bool(change.size and not change.any()) for change in changes)
    unmoved = "no answer differs between clean and noisy in any setting: every interval has zero width"
    gains = f" {zero_gains} of {len(changes)} gains are exactly 0." if zero_gains else ""
    return shared.exact_values(
        [(label(s), to_values(cell.row(s))) for s in cell.settings],
        to_values(cell.state),
        unmoved if changes and zero_width == len(changes) else "",
        f"No accuracy is exactly 0 or 1.{gains}",
        "Look at the raw replies: such values usually come from unparsed answers, wrong labels or a manipulation that "
        "changed nothing. A benchmark at its ceiling cannot show a gain.",
        {"zero_gains": float(zero_gains), "zero_width_intervals": float(zero_width)},
    )


def enough_data(
    largest_compatible: float | None, limits: SweepThresholds, asked: int, needed: int, repeated: str = ""
) -> Gate:
    """The largest gain still compatible with the data, against the smallest effect that matters. A failure alone
    withholds nothing: without a finding it means `underpowered`.

    asked, needed: questions; needed is what a plan of this design says, with the arms `repeated` that were run once.
    """
    limit = limits.effect_of_interest
    source = "one-sided 95 % upper limit of the gain, the largest over r; conf/verdict: effect_of_interest"
    rule = Rule("enough_data", limit, source)
    if largest_compatible is None:
        return rule.absent("There is no clean and noisy pair.", withholds=False)
    return rule.checked(
        passed=largest_compatible <= limit,  # false for NaN
        number=largest_compatible,
        detail=f"A gain of {points(largest_compatible)} is still compatible with the data; one of "
        f"{points(limit)} would matter.",
        advice=f"Ask {f'about {needed:,}' if needed > asked else 'more'} questions{repeated} ({asked:,} were asked), "
        "of a larger benchmark if this one has fewer. "
        "More clean replicates help too and, where questions are grouped, more subjects or passages.",
        withholds=False,
        numbers=sizes(asked, needed),
    )


def all_gates(
    cell: CellOutcomes,
    texts: TextMeasures | None,
    limits: SweepThresholds,
    largest_compatible: float | None,
    noise_floor_adjusted: float | None = None,
    tests: int = 1,
) -> tuple[Gate, ...]:
    """Every gate, in the order in which the report lists them. texts is None when only outcomes are at hand;
    noise_floor_adjusted: `noise_floor_p` corrected over the panel. tests: of the panel, one a cell and router count."""
    return (
        parseability(cell, limits),
        above_chance(cell, limits),
        pairing(cell, texts, limits),
        noise_floor(cell, limits, noise_floor_adjusted),
        exact_values(cell),
        clean_fidelity(cell, texts, limits),
        manipulation_reached_worker(texts, limits),
        answer_leak(texts, limits, bool(cell.n_options.any())),
        enough_data(largest_compatible, limits, cell.n, needed(limits, tests), repeated(cell.settings)),
    )
