"""What the sweep says of a cell, by code: reasons, advice, headlines, what was not run and what that leaves open."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from audit.verdict.reason import Texts, listed
from audit.verdict.result import interval, percent, points, pvalue, signed_points

# What this instrument cannot see, in every headline that finds nothing: measured (docs/calibration.md).
BLIND = "Memory that helps intact and damaged questions alike, such as an exam learnt by heart, would not be seen."
_RESUME = "what is in the shards is kept."

_CONTROLS = {
    "clean": "the clean baseline",
    "direct": "the original question",
    "ensemble": "as many routers that delete nothing",
}
_ASKED_BY = {"direct": "(arms: direct)", "ensemble": "(ensemble_control=true)"}

# Where a gain is no finding: why, in the headline.
_DOUBTS = {
    "not_compared": "a control that could explain it was not run",
    "may_be_shift": "a shift of the whole run could explain it",
    "run_once": "one noisy run cannot tell it from a shift of the whole run",
    "no_reference": "the messages may hint at the answers, and no other model was given them",
    "weak_reference": "the model that was given the same messages is weaker, and may miss what they hint at",
    "reference_gains_too": "another model gains about as much from the same messages",
    "may_beat_ensemble": "there are too few questions to tell damage from repetition",
    "may_beat_direct": "there are too few questions to tell whether that is more than the clean router loses",
    "not_above_direct": "the gain over the clean router is no more than that router loses",
    "interval_holds_zero": "the test finds a gain, but its interval includes zero",
}


def _beats(routers: Sequence[int], controls: Sequence[str]) -> str:
    beaten = listed(_CONTROLS[name] for name in controls)
    return f"At r = {listed(routers)}, noisy beats {beaten} after correction over r and models."


def _not_compared(controls: Sequence[str], ensemble_routers: Sequence[int]) -> str:
    at = f" at r = {listed(ensemble_routers)}" if ensemble_routers else ""
    missing = " or ".join(f"{_CONTROLS[name]} {_ASKED_BY[name]}" for name in controls)
    return f"It was not compared{at} with {missing}. {'Either' if len(controls) > 1 else 'That'} may explain it."


def _size(limit: float) -> str:
    if not limit < 1:  # NaN: the data set no limit
        return "A gain of any size"
    return f"A gain of up to {points(limit)}" if limit > 0 else "No gain"


def _bound(limit: float, effect: float, imputed: bool, within: bool) -> str:
    how = "97.5 % limit, largest over r" + ", unparsed and missing replies imputed for it" * imputed
    against = "no more than" if within else "above"
    matters = f"the smallest effect that matters ({points(effect)})"
    return f"{_size(limit)} is still compatible with the data ({how}). That is {against} {matters}."


def _not_above_ensemble(mean: float, low: float, high: float) -> str:
    return (
        "It does not beat as many routers that delete nothing: on average over r the difference is "
        f"{signed_points(mean)} ({interval(low, high)})."
    )


def _held_out(clearly: bool, rest: str) -> Callable[..., str]:
    def said(gain: float, low: float, high: float) -> str:
        larger = f"The gain is {'' if clearly else 'not clearly '}larger than on the held-out questions of the control"
        return f"{larger} benchmark: {signed_points(gain)} ({interval(low, high)}). {rest}"

    return said


def _shift(side: str, sd: float, estimate: float, df: int, capped: bool) -> str:
    how = "all that is plausible" if capped else "the estimate and one standard error"
    runs = f"{df} comparison{'s' * (df != 1)} of runs estimate{'s' * (df == 1)} {points(estimate)}"
    return f"Intervals include shifts of whole {side} runs, standard deviation {points(sd)}: {how} ({runs})."


def _stopped(n: int, e_value: float, repeats: float | None) -> str:
    found = "" if repeats is None else f" (repeated runs here say {points(repeats)})"
    return (
        f"The run could stop early (stop=early) and asked {n:,} questions. Its verdict rests on an e-process, whose "
        f"tests and limits hold at any stop: the e-value of a gain over every control is {e_value:.3g}, and p is 1/e "
        "(at most 1). Estimates at a stop lean towards what stopped the run: read the limits. Shifts of whole runs are "
        f"assumed to be zero{found}."
    )


def _withheld(model: str, benchmark: str, why: Sequence[str]) -> str:
    return f"No verdict on {model} and {benchmark}: {', and '.join(why) or 'the comparison could not be made'}."


def _higher(model: str, benchmark: str, gain: float, low: float, routers: int, **_: Any) -> str:
    return (
        f"{model} scores {points(gain)} higher on {benchmark} when its questions are damaged "
        f"({routers} router{'s' * (routers != 1)}; 95 %: at least {points(low)})"
    )


def _still(limit: float) -> str:
    """What a gain could be at most; nothing where the data set no limit."""
    return f" {_size(limit)} is still compatible with the data (97.5 % limit)." if limit < 1 else ""


def _excess(limit: float, score: float, **n: Any) -> str:
    return (
        f"{_higher(**n)}. Chance, the original question and repetition do not explain it: its score of "
        f"{percent(score)} may be partly memory.{_still(limit)}"
    )


def _uncontrolled(limit: float, about: str, **n: Any) -> str:
    return f"{_higher(**n)}, but {_DOUBTS[about]}. Settle that before you read anything into it.{_still(limit)}"


def _explained(model: str, benchmark: str, gain: float, limit: float, **_: Any) -> str:
    return (
        f"{model} gains up to {points(gain)} on {benchmark} from several damaged messages, and about as much from as "
        f"many intact ones: repetition explains it.{_still(limit)}"
    )


def _brittle(model: str, benchmark: str, loss: float, score: float, limit: float, **_: Any) -> str:
    return (
        f"{model} loses {points(loss)} on {benchmark} when its questions are damaged: its score of {percent(score)} "
        f"depends on the full wording.{_still(limit)}"
    )


def _underpowered(model: str, benchmark: str, about: str, gain: float, limit: float, score: float, **_: Any) -> str:
    if about in _DOUBTS:
        return (
            f"{model} scores {points(gain)} higher on {benchmark} with damaged questions than through the clean "
            f"router, but {_DOUBTS[about]}.{_still(limit)}"
        )
    return (
        f"Too few questions to tell for {model} on {benchmark}: {_size(limit).lower()} on damaged questions could be "
        f"real or not. Nothing follows for its score of {percent(score)}."
    )


def _no_excess(model: str, benchmark: str, about: str, limit: float, score: float, **_: Any) -> str:
    most = f"{points(max(limit, 0.0))} at most (97.5 % limit)"
    if about in _DOUBTS:
        of = f"No gain is counted for {model} on {benchmark} at its score of {percent(score)}"
        return f"{of}: {_DOUBTS[about]}. It could be {most}. {BLIND}"
    return f"Damage to its questions raises the score of {model} on {benchmark} ({percent(score)}) by {most}. {BLIND}"


TEXTS: Texts = {
    # why: a gain
    "beats_controls": _beats,
    "stands_without_leaks": "It is still there without the questions whose messages state the answer.",
    "gone_without_leaks": "The gain is gone without the questions whose messages state the answer.",
    "stands_if_unparsed": "It is still there if unparsed and missing replies are imputed against it (odds ratio "
    "{odds_ratio:g} between the arms).",
    "gone_if_unparsed": "The gain is gone if unparsed and missing replies are imputed against it (odds ratio "
    "{odds_ratio:g} between the arms): it may come from which replies there are.",
    "not_compared": _not_compared,
    "may_be_shift": "Its lower limit is not beyond {margin:points}. Whole runs may shift by as much, and a run that "
    "may stop early does not measure it.",
    "no_reference": "No other model answered from the same messages: they may hint at the answers.",
    "weak_reference": "{reference} answers the clean messages worse than this model: it may miss what they hint at.",
    "reference_gains_too": "{reference} gains {gain:signed} from the same messages: that this model gains more is not "
    "shown.",
    "hints_excluded": "{reference} gains {gain:signed} from the same messages on average over r. The difference is "
    "beyond chance: hints in the messages do not explain it.",
    "one_router": "With one router, the clean baseline is the router that deletes nothing.",
    "ensemble_not_run": "At r = {routers:listed} it was not compared with as many routers that delete nothing.",
    "above_zero": "At r = {routers:listed}, the intervals of noisy over every control that was run lie above zero.",
    "run_once": "But the noisy arm was run once. A whole run can shift by a standard deviation of {sd:points} "
    "(batches, endpoints, engines), and that could explain the gain.",
    "not_above_ensemble": _not_above_ensemble,
    "ensemble_gains": "These beat the clean baseline too, at r = {routers:listed}.",
    "ensemble_bounds": "Noisy could be above them by {limit:points} at most (97.5 % limit), no more than the smallest "
    "effect that matters ({effect:points}).",
    "may_beat_ensemble": "Noisy could be above them by {limit:points} (97.5 % limit): the data cannot tell damage from "
    "repetition.",
    "few_questions": "It rests on {n:,} questions; nothing is found with fewer than {least:,}.",
    # why: no gain
    "not_above_direct": "At r = {routers:listed}, noisy beats the clean router but not the original question: it may "
    "only win back what the clean router loses.",
    "may_beat_direct": "It could still be above the original question by {limit:points} (97.5 % limit).",
    "interval_holds_zero": "At r = {routers:listed} the test finds a gain over the clean baseline, but its "
    "simultaneous 95 % interval includes zero: it is not counted as a finding.",
    "beats_no_control": "At no r does noisy beat every control after correction ({p:p}).",
    "falls": lambda drop, low, high, p: (
        f"Accuracy falls by {points(drop)} on average over r ({interval(low, high)}; {pvalue(p)})."
    ),
    "not_bounded": lambda **n: _bound(**n, within=False),
    "bounded": lambda **n: _bound(**n, within=True),
    "blind": "Memory that helps intact and damaged questions alike makes no gain: this test cannot see it.",
    # beside the verdict
    "beyond_held_out_on_every_scale": _held_out(
        True, "So it is on the scales of log-odds and of the share of wrong answers repaired."
    ),
    "beyond_held_out_on_one_scale": _held_out(
        True,
        "But not on the scales of log-odds and of the share of wrong answers repaired: rewriting may help as such.",
    ),
    "beyond_held_out_on_no_scale": _held_out(False, "Rewriting may help as such, without memory."),
    "shift_measured": _shift,
    "shift_assumed": "Shifts of whole {side} runs (batches, endpoints, engines) were not measured: a standard "
    "deviation of {sd:points} is assumed.",
    "shift_tested": "The test of a gain assumes at least {sd:points} for {sides:listed} runs, as these were not "
    "repeated.",
    "stands_at_worst": "Unparsed answers are imputed against the verdict from the same question's other answers (odds "
    "ratio {odds_ratio:g} between the arms). It stands even in the worst case.",
    "stands_up_to": "Unparsed answers are imputed against the verdict from the same question's other answers (odds "
    "ratio {odds_ratio:g} between the arms). It stands up to an odds ratio of {up_to:g}.",
    "worst_case": "With every unparsed noisy answer right and every other wrong, the largest gain is {gain:points}.",
    "stopped_early": _stopped,
    # what to do
    "ask_at_least": "Ask at least {least:,} questions; `audit plan` says how many find what.",
    "hold_out": "Treat the score as partly memory of the exam until shown otherwise: repeat it on held-out questions.",
    "read_improved": "Read the questions that went from wrong to correct, and what the worker was shown.",
    "mend_unparsed": "Read the unparsed replies and the errors, and mend what makes them so (store.retry_errors=true "
    "asks failed calls again), or read answers by likelihood.",
    "run_controls": f"Run the same command with the controls: {_RESUME}",
    "run_twice": f"Run the same command with noisy_replicates=2: {_RESUME}",
    "run_both_arms": "Run the clean and the noisy arm on the same questions.",
    "fixed_number": "Ask a fixed number of questions with noisy_replicates=2.",
    "give_reference": "Let a model that is about as able answer from the stored messages (model=OTHER "
    "messages_from=RUN_DIR, else the same command). Then type the command again with hint_reference=ITS_RUN_DIR.",
    "take_abler_reference": "Take a hint reference that is about as able as this model, or abler.",
    "read_messages": "Read what the messages tell, or ask more questions to tell the two gains apart.",
    "is_repetition": "Read the gain as an effect of repetition and compute.",
    "ask_more_of_ensemble": "Ask more questions, or run more replicates of the ensemble control, to tell the two "
    "apart.",
    "ask_more_of_direct": "Ask more questions, or run more replicates of `direct`, to tell the two apart.",
    "not_in_other_words": "Do not rely on the score for questions in other words. Look at which deletions cost the "
    "answer.",
    # headlines
    "headline_withheld": _withheld,
    "headline_excess": _excess,
    "headline_gain_uncontrolled": _uncontrolled,
    "headline_excess_explained_by_ensembling": _explained,
    "headline_brittle": _brittle,
    "headline_underpowered": _underpowered,
    "headline_no_excess_detected": _no_excess,
}

# A control that was not run, and what cannot be excluded without it.
NOT_RUN: Texts = {
    "direct": "direct: the original question without a router",
    "ensemble": lambda routers: (
        "ensemble control: as many clean routers, " + (f"for r = {listed(routers)}" if routers else "at any r")
    ),
    "clean_replicates": "clean replicates: {runs} was run, 2 are needed for a noise floor",
    "noisy_replicates": "noisy replicates: 1 was run, 2 are needed to measure how much whole noisy runs shift",
    "hint_reference": "hint reference: another model that answers from the same messages",
}
CANNOT_EXCLUDE: Texts = {
    "direct": "that a clean router which loses part of the question lowered the baseline and made the gain",
    "ensemble": "that repetition and compute made the gain, and not memory",
    "clean_replicates": "that clean answers vary by as much as the gain from one run to the next",
    "noisy_replicates": "that the whole noisy run shifted by more than is plausible (noisy_replicates=2)",
    "hint_reference": "that the noisy messages hint at the answers",
}


def tipping(gamma: float | None) -> str | None:
    """The odds ratio at which a verdict turns, as it is written."""
    return None if gamma is None else "worst case" if math.isinf(gamma) else f"{gamma:g}"
