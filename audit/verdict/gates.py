"""The gates: can this measurement carry a verdict at all? Each is a function of one cell's outcomes or texts.

A gate that fails says so with its number, its threshold, the questions behind it and what to do. `withholds` tells
whether a failure alone withholds the verdict; `enough_data` and `answer_leak` do not: see `decide`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy import stats

from audit.records import Arm, Draws, Reading, Setting
from audit.statistics.chance import chance_check, chance_level
from audit.statistics.contrasts import paired_test
from audit.statistics.mcnemar import cochran_q
from audit.statistics.paired import BoolArray, CellOutcomes, FloatArray, State
from audit.statistics.values import average, replicates_of, runs_of, settings_values, to_values
from audit.verdict.result import MAX_ITEMS, Gate, Status, points
from audit.verdict.texts import TextMeasures
from audit.verdict.thresholds import Thresholds

CLEAN = Setting(Arm.FORWARD_FULL, 1, 0)
_IMPLAUSIBLE = 1e-3  # probability of an exact accuracy, over all settings, below which it withholds


def all_gates(
    cell: CellOutcomes, texts: TextMeasures | None, thresholds: Thresholds, mde: float | None
) -> tuple[Gate, ...]:
    """Every gate, in the order in which the report lists them. texts is None when only outcomes are at hand."""
    return (
        parseability(cell, thresholds),
        above_chance(cell, thresholds),
        pairing(cell, texts, thresholds),
        noise_floor(cell, thresholds),
        exact_values(cell),
        clean_fidelity(cell, texts, thresholds),
        manipulation_reached_worker(texts, thresholds),
        answer_leak(texts, thresholds),
        enough_data(mde, thresholds),
    )


def _clean_settings(cell: CellOutcomes) -> tuple[Setting, ...]:
    return replicates_of(cell, Arm.FORWARD_FULL, 1)


def above_chance(cell: CellOutcomes, thresholds: Thresholds) -> Gate:
    """Clean and direct accuracy beat the mean of 1/k by the given number of standard errors.

    number: the smaller of the two z scores, (accuracy - chance) / standard error of a guesser.
    """
    name, source = "above_chance", "mean of 1/k over the questions; conf/verdict: above_chance_standard_errors"
    limit = thresholds.above_chance_standard_errors
    found: dict[str, float] = {}
    for label, settings in (("clean", _clean_settings(cell)), ("direct", replicates_of(cell, Arm.DIRECT, 0))):
        if settings:
            values = settings_values(cell, settings)
            answered = ~np.isnan(values)
            if answered.any():
                check = chance_check(float(values[answered].mean()), cell.n_options[answered], limit)
                found |= {f"{label}_accuracy": check.accuracy, f"{label}_z": check.z}
    scores = [v for k, v in found.items() if k.endswith("_z")]
    chance = chance_level(cell.n_options)
    if not scores:
        return _absent(name, limit, source, "Neither the clean nor the direct arm has an answer.")
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
        state = _states(cell, arm)
        if state is None:
            continue
        present = max(int(np.sum(state != State.ABSENT)), 1)
        for word, kind in (("unparsed", State.UNPARSED), ("truncated", State.TRUNCATED), ("error", State.ERROR)):
            numbers[f"{arm.value}_{word}"] = float(np.sum(state == kind)) / present
        numbers[f"{arm.value}_absent"] = float(np.mean(state == State.ABSENT))
        numbers[f"{arm.value}_answered"] = float(np.mean(state >= State.WRONG))
    worst = min(shares, key=lambda s: shares[s])
    behind = _behind(cell, cell.row(worst) < State.WRONG)
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


def pairing(cell: CellOutcomes, texts: TextMeasures | None, thresholds: Thresholds) -> Gate:
    """The same question must be the same question in every arm.

    Its stored text, options and gold must be one in all rows. And where right and wrong answers agree well within an
    arm (some questions are easy, some hard), they must agree between arms too. Each arm's accuracy per question (mean
    over its settings) is correlated with that of all other arms; with ten times `pairing_questions_min` questions and
    three or more settings in the other arms, each single setting is too, so that one shuffled r is found. What is not
    itself above chance carries no signal and is left out.

    A correlation is judged only where the agreement within the two sides lets enough be expected to tell it from none
    (the root of the product of their reliabilities; Spearman 1904, American Journal of Psychology 15). A model that is
    nearly always right, or whose answers are half luck, agrees weakly with itself, and nothing follows from that.
    number: z = correlation * sqrt(n - 1) of the comparison that is furthest below what was expected.
    """
    name, source, limit = "pairing", "ours; conf/verdict: pairing_z_min", thresholds.pairing_z_min
    if texts is not None and texts.mixed_ids:
        count = len(texts.mixed_ids)
        return Gate(
            name=name,
            status=Status.FAIL,
            number=None,
            threshold=limit,
            source=source,
            detail=f"The question, options or right answer of {count} question {'id' if count == 1 else 'ids'} differ "
            "between rows.",
            advice="These ids do not mean one question: run the audit again from one benchmark file.",
            items=texts.mixed_ids[:MAX_ITEMS],
            item_count=count,
        )
    found = _agreements(cell, thresholds)
    if not found:
        return _absent(
            name,
            limit,
            source,
            "Nothing can be checked beyond the texts: answers must agree well enough within the arms (several settings "
            f"above chance, with right and wrong answers to {thresholds.pairing_questions_min} questions or more).",
        )
    worst = min(found, key=lambda f: f.z - f.limit)
    passed = worst.z >= worst.limit
    return Gate(
        name=name,
        status=Status.PASS if passed else Status.FAIL,
        number=worst.z,
        threshold=worst.limit,
        source=source,
        detail=f"Right and wrong answers under {worst.what} agree with the other arms {worst.z:.1f} standard errors "
        f"better than shuffled questions would; {worst.expected:.0f} are expected from the agreement within the arms "
        f"(the lowest of {len(found)} comparisons).",
        advice=""
        if passed
        else "Answers of one arm seem to belong to other questions: compare the rows of one id across arms.",
        numbers={"comparisons": float(len(found)), "noisy_compared": float(any(f.noisy for f in found))},
    )


_ARM_WORDS = {Arm.DIRECT: "direct", Arm.FORWARD_FULL: "the clean arm", Arm.NOISY_REWRITE: "the noisy arm"}
_MARGIN = 3.5  # standard errors by which agreement may fall short of what is expected, whatever `pairing_z_min` is
_LIMIT_MIN = 1.5  # a lower limit would let one broken pairing in ten or more pass


@dataclass(frozen=True)
class _Agreement:
    """z of one side's agreement with the rest, what was expected, and the limit below which it fails."""

    what: str
    noisy: bool
    z: float
    expected: float
    limit: float


def _agreements(cell: CellOutcomes, thresholds: Thresholds) -> list[_Agreement]:
    """Every comparison that can speak.

    Settings of nested draws share messages within their arm and replicate, and agree for that reason alone: their
    agreement says nothing of the questions, and together they count as one.
    """
    usable = {s: to_values(cell.row(s)) for s in cell.settings if _speaks(to_values(cell.row(s)), cell, thresholds)}
    nested = cell.draws == Draws.NESTED
    pairs = {
        (s, t): _correlation(usable[s], usable[t])
        for s, t in combinations(usable, 2)
        if not nested or (s.arm, s.replicate) != (t.arm, t.replicate)
    }

    def within(settings: Sequence[Setting]) -> float | None:
        known = [r for (s, t), r in pairs.items() if s in settings and t in settings and not np.isnan(r)]
        return max(float(np.mean(known)), 0.0) if known else None

    def count(settings: Sequence[Setting]) -> int:
        return len({(s.arm, s.replicate) for s in settings}) if nested else len(settings)

    arms: dict[str, list[Setting]] = {}
    for setting in usable:
        ensemble = setting.arm == Arm.FORWARD_FULL and setting.routers > 1
        arms.setdefault("the ensemble control" if ensemble else _ARM_WORDS[setting.arm], []).append(setting)
    found = []
    for arm, settings in arms.items():
        others = [s for s in usable if s not in settings]
        if not others:
            continue
        sides = {arm: settings}
        if len(others) >= 3 and cell.n >= 10 * thresholds.pairing_questions_min and len(settings) > 1:
            sides |= {label(s): [s] for s in settings}
        for what, side in sides.items():
            known = [r for r in (within(side), within(others)) if r is not None]
            if not known:
                continue
            reliable, rest = known[0], known[-1]  # a side that cannot tell is taken to be as the other
            x, y = settings_values(cell, side), settings_values(cell, others)
            both = ~np.isnan(x - y)
            x, y = x[both], y[both]
            if x.size < thresholds.pairing_questions_min or x.std() == 0 or y.std() == 0:
                continue
            if abs(x.mean() - y.mean()) >= thresholds.brittle_drop_min:
                continue  # what costs so much accuracy may cost the agreement too
            root = np.sqrt(x.size - 1)
            correlation = float(np.sqrt(_stepped_up(reliable, count(side)) * _stepped_up(rest, count(others))))
            # Standard error of z around it: 1 without agreement; more where few questions are wrong, as their chance
            # meetings decide (for 0/1 values E[x^2 y^2] = 1 + skew(x) skew(y) corr(x, y) of the standardised x, y).
            spread = np.sqrt(max(1 + stats.skew(x) * stats.skew(y) * correlation, 1.0))
            z = _correlation(x, y) * root
            limit = min(thresholds.pairing_z_min, correlation * root - _MARGIN * spread)
            if limit >= _LIMIT_MIN:
                noisy = arm == _ARM_WORDS[Arm.NOISY_REWRITE]
                found.append(_Agreement(what, noisy, float(z), float(correlation * root), float(limit)))
    return found


def _speaks(values: FloatArray, cell: CellOutcomes, thresholds: Thresholds) -> bool:
    """Whether a setting has enough answers, right and wrong ones, and is above chance."""
    there = ~np.isnan(values)
    answered = values[there]
    if answered.size < thresholds.pairing_questions_min or answered.std() == 0:
        return False
    above = chance_check(float(answered.mean()), cell.n_options[there], thresholds.above_chance_standard_errors).above
    return bool(above)


def _correlation(x: FloatArray, y: FloatArray) -> float:
    """Over the questions answered in both; NaN where one side does not vary."""
    both = ~np.isnan(x - y)
    x, y = x[both], y[both]
    return float(np.corrcoef(x, y)[0, 1]) if x.size > 1 and x.std() > 0 and y.std() > 0 else float("nan")


def _stepped_up(correlation: float, k: int) -> float:
    """Reliability of the mean of k settings of which two correlate so (Spearman-Brown)."""
    return k * correlation / (1 + (k - 1) * correlation)


def noise_floor(cell: CellOutcomes, thresholds: Thresholds) -> Gate:
    """Replicates of the clean arm differ only in their seeds, so they are equally accurate: Cochran's Q over them."""
    name, limit = "noise_floor", thresholds.noise_floor_alpha
    source = "ours; Cochran's Q between the clean replicates; conf/verdict: noise_floor_alpha"
    replicates = _clean_settings(cell)
    if len(replicates) < 2:
        return _absent(name, limit, source, "There is one replicate of the clean arm: nothing to compare it with.")
    runs = runs_of(cell, Arm.FORWARD_FULL, (1,))[:, 0]
    complete = runs[:, ~np.isnan(runs).any(axis=0)]
    if not complete.size:
        return _absent(name, limit, source, "No question is answered in every replicate of the clean arm.")
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
        f"{'no more' if passed else 'more'} than chance explains (p={p:.2g}).",
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


def clean_fidelity(cell: CellOutcomes, texts: TextMeasures | None, thresholds: Thresholds) -> Gate:
    """A clean router that loses the question lowers the baseline and manufactures gains.

    Fails when the clean arm (mean of its replicates) loses more than `clean_loss_max` against direct and more than
    chance explains (exact McNemar, or an exchange of runs where there are replicates, at alpha), or when more than
    `lossy_share_max` of the clean messages drop an option or the stem.
    number: the loss where that fails or is all there is, else the lossy share.
    """
    name, source = "clean_fidelity", "ours, after song2026 section 4.2; conf/verdict: clean_loss_max, lossy_share_max"
    numbers: dict[str, float | None] = {}
    parts: list[str] = []
    loss_fails = lossy_fails = False
    clean_settings, direct_settings = _clean_settings(cell), replicates_of(cell, Arm.DIRECT, 0)
    if clean_settings and direct_settings:
        # All clean replicates: the baseline of the effect is their average, so its loss is too.
        direct, clean = runs_of(cell, Arm.DIRECT, (0,))[:, 0], runs_of(cell, Arm.FORWARD_FULL, (1,))[:, 0]
        difference = average(direct) - average(clean)
        if np.any(~np.isnan(difference)):
            loss = float(np.nanmean(difference))
            # A fixed seed: a gate is a function of the data alone (the exchange of runs draws, McNemar does not).
            _, p = paired_test(direct, clean, cell.cluster, rng=np.random.default_rng(0))
            numbers |= {"loss": loss, "loss_p": p, "loss_max": thresholds.clean_loss_max}
            loss_fails = loss > thresholds.clean_loss_max and p <= thresholds.alpha
            parts.append(f"clean answers {abs(loss):.3f} {'below' if loss > 0 else 'above'} direct (p={p:.2g})")
    items: tuple[str, ...] = ()
    if texts is not None and texts.clean_messages:
        share = texts.clean_lossy / texts.clean_messages
        numbers |= {
            "lossy_share": share,
            "lossy_share_max": thresholds.lossy_share_max,
            "without_stem": texts.clean_without_stem / texts.clean_messages,
            "without_option": texts.clean_without_option / texts.clean_messages,
        }
        lossy_fails = share > thresholds.lossy_share_max
        items = texts.lossy_ids
        parts.append(f"{share:.1%} of {texts.clean_messages} clean messages drop an option or the stem")
    if not parts:
        return _absent(name, thresholds.clean_loss_max, source, "Neither a direct arm nor clean messages are at hand.")
    by_loss = loss_fails or ("loss" in numbers and not lossy_fails) or "lossy_share" not in numbers
    failed = loss_fails or lossy_fails
    return Gate(
        name=name,
        status=Status.FAIL if failed else Status.PASS,
        number=numbers["loss" if by_loss else "lossy_share"],
        threshold=thresholds.clean_loss_max if by_loss else thresholds.lossy_share_max,
        source=source,
        detail=(" and ".join(parts)).capitalize() + ".",
        advice="The clean router does not transmit the question: raise the router's max_tokens, mend its prompt or use "
        "a stronger router model; compare with direct meanwhile."
        if failed
        else "",
        items=items[:MAX_ITEMS],
        item_count=len(items),
        numbers=numbers,
    )


def manipulation_reached_worker(texts: TextMeasures | None, thresholds: Thresholds) -> Gate:
    """Share of noisy presentations that equal the clean one after normalisation, in the prompt really sent."""
    name, limit = "manipulation_reached_worker", thresholds.noop_share_max
    source = "li2026, gate G1 (silent no-op rate below 20 %); conf/verdict: noop_share_max"
    if texts is None or not texts.noisy_presentations:
        return _absent(name, limit, source, "No worker prompt of a noisy presentation is at hand.")
    share = texts.noops / texts.noisy_presentations
    passed = share < limit
    return Gate(
        name=name,
        status=Status.PASS if passed else Status.FAIL,
        number=share,
        threshold=limit,
        source=source,
        detail=f"{share:.1%} of {texts.noisy_presentations} noisy presentations reached the worker as the clean text. "
        f"On average {texts.deleted or 0:.0%} of the question's words were gone "
        f"({texts.deleted_per_message or 0:.0%} in a single message) and {texts.added or 0:.0%} of its text was new.",
        advice=""
        if passed
        else "The routers did not rewrite, or their text was not used: read some noisy messages and "
        "the worker prompt that was sent, and raise the router's temperature or use a stronger router.",
        items=texts.noop_ids[:MAX_ITEMS],
        item_count=len(texts.noop_ids),
        numbers={
            "deleted": texts.deleted,
            "deleted_per_message": texts.deleted_per_message,
            "added": texts.added,
            "lost": texts.lost / texts.noisy_presentations,
        },
    )


def answer_leak(texts: TextMeasures | None, thresholds: Thresholds) -> Gate:
    """Share of noisy router messages that state the gold option as the answer. Does not withhold: see `decide`."""
    name, limit = "answer_leak", thresholds.leak_share_max
    source = "ours; routers are told not to answer (song2026, section 4.3); conf/verdict: leak_share_max"
    if texts is None or not texts.messages_noisy:
        return _absent(name, limit, source, "No noisy router message is at hand.", withholds=False)
    share = texts.leaking_noisy / texts.messages_noisy
    passed = share <= limit
    return Gate(
        name=name,
        status=Status.PASS if passed else Status.FAIL,
        number=share,
        threshold=limit,
        source=source,
        detail=f"{share:.1%} of {texts.messages_noisy} noisy router messages state the right option as the answer; "
        f"{texts.stated_wrong / texts.messages:.1%} of all messages state a wrong one; "
        f"{texts.gold_only_kept / texts.messages_noisy:.1%} kept the right option and dropped every other.",
        advice=""
        if passed
        else "The routers answer instead of rewriting: trust only the figures without the questions "
        "concerned, and forbid answering more firmly in the router prompt.",
        withholds=False,
        items=texts.leak_ids[:MAX_ITEMS],
        item_count=len(texts.leak_ids),
        numbers={
            "all_messages": texts.leaking / texts.messages,
            "stated_wrong": texts.stated_wrong / texts.messages,
            "gold_only_kept": texts.gold_only_kept / texts.messages_noisy,
        },
    )


def enough_data(mde: float | None, thresholds: Thresholds) -> Gate:
    """The design's minimum detectable gain against the effect of interest. A failure alone means `underpowered`."""
    limit = thresholds.effect_of_interest
    source = "exact power of McNemar's test at the observed discordance; conf/verdict: effect_of_interest"
    if mde is None:
        return _absent("enough_data", limit, source, "There is no clean and noisy pair.", withholds=False)
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


def label(setting: Setting) -> str:
    """A setting in words: "noisy_rewrite r=3", "direct", "forward_full r=1 #2" for its third replicate."""
    text = setting.arm.value if setting.arm == Arm.DIRECT else f"{setting.arm.value} r={setting.routers}"
    return f"{text} #{setting.replicate}" if setting.replicate else text


def failed(gates: Sequence[Gate], *, withholding: bool = True) -> tuple[Gate, ...]:
    """The gates that failed; only those that withhold a verdict unless asked otherwise."""
    return tuple(g for g in gates if g.status == Status.FAIL and (g.withholds or not withholding))


def _states(cell: CellOutcomes, arm: Arm) -> np.ndarray | None:
    settings = cell.settings_of(arm)
    return np.stack([cell.row(s) for s in settings]) if settings else None


def _behind(cell: CellOutcomes, mask: BoolArray) -> tuple[str, ...]:
    return tuple(q for q, hit in zip(cell.question_ids, mask, strict=True) if hit)


def _absent(name: str, threshold: float, source: str, detail: str, *, withholds: bool = True) -> Gate:
    return Gate(name, Status.NOT_APPLICABLE, None, threshold, source, detail, withholds=withholds)
