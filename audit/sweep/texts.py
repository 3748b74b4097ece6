"""Define the sentences of the sweep by code: reasons, advice, headlines and missing controls."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from audit.core.number_text import listed, points, pvalue
from audit.judging.result import Reason, Texts, sentence

# A headline without a finding also states what the sweep cannot detect
# (docs/findings/calibration.md).
BLIND = (
    "This test cannot see memory that helps intact and damaged questions alike, such as an exam "
    "learnt by heart."
)

_INTERVAL = "95 % interval {low:bare} to {high:bare}"
_HELD_OUT = (
    f"than on the held-out questions of the control benchmark: {{gain:signed}} ({_INTERVAL})."
)
_SLOPE = f"with the number of routers ({{slope:signed}} a router, {_INTERVAL})."
_IMPUTED = "unparsed and missing replies are imputed against it (odds ratio {odds_ratio:g} between the arms)"
_STANDS = (
    "Unparsed answers are imputed against the verdict (odds ratio {odds_ratio:g} between the arms). "
    "The verdict stands"
)
_H1 = "gain under noise beyond chance and beyond every control"
_H2 = (
    "by more than sampling explains ({p:p}, {items:,} shared items). They range from {lowest:signed} ({lowest_model}) "
    "to {highest:signed} ({highest_model})."
)
_HIGHER = "{model} scores {gain:points} higher on {benchmark} when its questions are damaged "
_HIGHEST = _HIGHER + "(r = {routers}; 95 %: at least {low:points})"
_KEPT = "stored answers are kept."

_CONTROLS = {
    "clean": "the clean baseline",
    "direct": "the original question",
    "ensemble": "as many routers that delete nothing",
}
_ASKED_BY = {"direct": "(arms: direct)", "ensemble": "(ensemble_control=true)"}

# These explanations of a gain are not excluded. The headline quotes them.
_DOUBTS = {
    "not_compared": "a control that could explain the gain was not run",
    "run_once": "the noisy arm was run once, and a shift of this whole run could explain the gain",
    "no_reference": "the messages may hint at the answers, and no other model answered from these "
    "messages",
    "weak_reference": "the model that answered from the same messages is weaker, and may miss "
    "their hints",
    "reference_gains_too": "another model gains about as much from the same messages",
    "larger_on_one_scale": "the gain is larger than on held-out questions in points, but not on every scale",
    "larger_on_no_scale": "the gain is not clearly larger than on held-out questions",
    "may_beat_ensemble": "too few questions were asked to distinguish an effect of damage from an "
    "effect of repetition",
    "may_beat_direct": "too few questions were asked to show that the gain exceeds what the clean "
    "router loses",
    "not_above_direct": "the gain over the clean router is no larger than what that router loses",
    "interval_holds_zero": "the test finds a gain, but its interval includes zero",
}


def _beats(routers: Sequence[int], controls: Sequence[str]) -> str:
    beaten = listed(_CONTROLS[name] for name in controls)
    return f"At r = {listed(routers)}, the noisy arm beats {beaten} after correction over r and models."


def _not_compared(controls: Sequence[str], ensemble_routers: Sequence[int]) -> str:
    at = f" at r = {listed(ensemble_routers)}" if ensemble_routers else ""
    missing = " or ".join(f"{_CONTROLS[name]} {_ASKED_BY[name]}" for name in controls)
    cause = "Either of them" if len(controls) > 1 else "That control"
    return f"The noisy arm was not compared{at} with {missing}. {cause} may explain the gain."


def _size(limit: float) -> str:
    if not limit < 1:  # This includes NaN, for which the data give no limit.
        return "a gain of any size"
    return f"a gain of up to {points(limit)}" if limit > 0 else "no gain"


def _bound(
    limit: float, effect: float, imputed: bool, aided: bool = False, stated: bool = False
) -> str:
    method = "largest of the one-sided 95 % limits at each r"
    if imputed:
        method += ", with unparsed and missing replies imputed in favour of the gain"
    if aided:
        method += ", without questions for which a clean message states an answer"
    if stated:
        method += ", once with and once without those for which a noisy message states one"
    against = "no more than" if limit <= effect else "above"
    matters = f"the smallest effect that matters ({points(effect)})"
    return (
        f"{_size(limit).capitalize()} is still compatible with the data ({method}). This limit is "
        f"{against} {matters}."
    )


def _shift(side: str, sd: float, estimate: float, df: int, capped: bool) -> str:
    if not df:
        return (
            f"Shifts of whole {side} runs were not measured, so a standard deviation of "
            f"{points(sd)} is assumed."
        )
    method = "the largest plausible value" if capped else "the estimate plus one standard error"
    comparisons = (
        "1 comparison of runs estimates" if df == 1 else f"{df} comparisons of runs estimate"
    )
    chance = ", which may be chance" if capped and estimate > 0 else ""
    return (
        f"Intervals allow for shifts of whole {side} runs with a standard deviation of {points(sd)}. This is {method} "
        f"({comparisons} {points(estimate)}{chance})."
    )


def _h3(alpha: float, p_improve: float, p_degrade: float, up: float, down: float) -> str:
    rise = "" if p_improve <= alpha else "do not clearly "
    fall = "" if p_degrade <= alpha else "do not clearly "
    return (
        f"H3: improvements {rise}rise with the number of routers ({up:+.1f} items a router, {pvalue(p_improve)}), and "
        f"degradations {fall}fall ({down:+.1f}, {pvalue(p_degrade)})."
    )


def _headline(with_doubt: str, otherwise: str = "") -> Callable[..., str]:
    """Return a function that writes a headline from one of two templates.

    - `with_doubt` is used if the reason for the verdict is one of the doubts (explanations that are
    not
      excluded). The text of the doubt replaces {doubt}.
    - `otherwise` is used for all other reasons.

    In both templates, {size} describes the largest gain that is compatible with the data.
    """

    def headline(about: str, limit: float, **numbers: Any) -> str:
        doubt = _DOUBTS.get(about, "")
        more = {"doubt": doubt, "size": _size(limit), "limit": max(limit, 0.0)}
        template = with_doubt if doubt or not otherwise else otherwise
        return sentence(Reason("it", numbers | more), {"it": template})

    return headline


TEXTS: Texts = {
    # Reasons of a gain:
    "beats_controls": _beats,
    "stands_without_leaks": "The gain remains without the questions whose messages state the "
    "answer.",
    "gone_without_leaks": "The gain vanishes without the questions whose messages state the "
    "answer.",
    "stands_if_unparsed": f"The gain remains if {_IMPUTED}.",
    "gone_if_unparsed": f"The gain vanishes if {_IMPUTED}. The gain may come from the choice of "
    "replies that could be parsed.",
    "not_compared": _not_compared,
    "no_reference": "No other model answered from the same messages, which may hint at the "
    "answers.",
    "weak_reference": "{reference} answers less accurately from clean messages than this model, so "
    "it may miss hints in the noisy ones.",
    "reference_gains_too": "{reference} gains {gain:signed} from the same messages. The data do not "
    "show that this model gains more.",
    "hints_excluded": "{reference} gains {gain:signed} from the same messages on average over r. "
    "This model gains more, beyond chance. So hints explain its gain only if {reference} overlooks "
    "hints or knows their answers anyway.",
    "one_router": "At r = 1, the clean baseline is also the ensemble control.",
    "ensemble_not_run": "At r = {routers:listed} the noisy arm was not compared with as many "
    "routers that delete nothing.",
    "above_zero": "At r = {routers:listed}, the interval of the gain over every control that was run is above zero.",
    "run_once": "But the noisy arm was run once. A whole run can shift by a standard deviation of {sd:points} "
    "(batches, endpoints, engines), and such a shift could explain the gain.",
    "not_above_ensemble": "The noisy arm does not beat as many routers that delete nothing: the "
    f"mean difference over r is {{mean:signed}} ({_INTERVAL}).",
    "ensemble_gains": "These intact routers beat the clean baseline too, at r = {routers:listed}.",
    "ensemble_bounds": "The noisy arm could be above these routers by {limit:points} at most (one-sided 95 % limit). "
    "That is no more than the smallest effect that matters ({effect:points}).",
    "may_beat_ensemble": "The noisy arm could be above these routers by {limit:points} (one-sided 95 % limit). So the "
    "data cannot distinguish an effect of damage from an effect of repetition.",
    "few_questions": "The result rests on {n:,} questions. At least {least:,} are needed for a "
    "finding.",
    # Reasons of a clearance or an undecided result:
    "not_above_direct": "At r = {routers:listed}, the noisy arm beats the clean router but not the "
    "original question. The gain may only make up for what the clean router loses.",
    "may_beat_direct": "The noisy arm could still be above the original question by {limit:points} "
    "(one-sided 95 % limit).",
    "interval_holds_zero": "At r = {routers:listed} the test finds a gain over the clean baseline, "
    "but its simultaneous 95 % interval includes zero. So the gain does not count as a finding.",
    "beats_no_control": "The noisy arm beats every control at no r after correction ({p:p}).",
    "falls": f"Note: accuracy falls by {{drop:points}} on average over r ({_INTERVAL}; {{p:p}}). The routers delete "
    "facts, so a fall is expected. It is not a finding.",
    "no_room": "At a score of {score:percent} a gain of {effect:points} is not possible, so this test cannot exclude "
    "it.",
    "bound": _bound,
    "blind": "This test cannot see memory that helps intact and damaged questions alike, since it "
    "causes no gain.",
    # Statements that follow the reasons:
    "larger_on_every_scale": f"The gain is larger {_HELD_OUT} It is also larger in log-odds and in the share of wrong "
    "answers repaired.",
    "larger_on_one_scale": f"The gain is larger {_HELD_OUT} It is not larger on every other scale "
    "(log-odds, share of wrong answers repaired). So rewriting may help without memory.",
    "larger_on_no_scale": f"The gain is not clearly larger {_HELD_OUT} So rewriting may help "
    "without memory.",
    "shift": _shift,
    "shift_tested": "The test of a gain assumes at least {sd:points} for {sides:listed} runs, "
    "since these were not repeated.",
    "stands_at_worst": f"{_STANDS} even in the worst case.",
    "stands_up_to": f"{_STANDS} up to an odds ratio of {{up_to:g}}.",
    "worst_case": "With every unparsed noisy answer right and every other unparsed one wrong, the largest gain is "
    "{gain:points}.",
    "slope_rises": f"Noisy accuracy rises {_SLOPE}",
    "slope_falls": f"Noisy accuracy falls {_SLOPE}",
    "slope_flat": f"Noisy accuracy shows no clear trend {_SLOPE}",
    "slope_few_groups": "Noisy accuracy changes by {slope:signed} a router. There are too few "
    "groups of questions for an interval.",
    "one_clean_run": "The noise floor was not measured: the number of clean runs is {runs}. Expected 2 "
    "or more (clean_replicates=2).",
    "no_clean_pair": "The noise floor was not measured: no question is answered in two of the "
    "{runs} runs of the clean arm.",
    "clean_against_clean": "Clean against clean ({runs} replicates): the test rejects {rejected} of {pairs} "
    "comparisons at {alpha:percent}. The gain between two clean runs has a standard deviation of {sd:points}.",
    "h1_excess": f"H1: {{count}} of {{models}} tested models {_H1} ({{excess:listed}}; smallest adjusted {{p:p}}).",
    "h1_none": f"H1: 0 of {{models}} tested models {_H1} (smallest adjusted {{p:p}}).",
    "h1_not_counted": f"H1: 0 of {{models}} tested models {_H1}. The test itself finds a gain (smallest adjusted "
    "{p:p}). The verdicts state why it does not count.",
    "h2_differ": f"H2: the mean gains of {{models}} models differ {_H2}",
    "h2_alike": f"H2: the mean gains of {{models}} models do not differ {_H2}",
    "h3": _h3,
    "not_tested": "{name} was not tested: {error}",
    # Advice:
    "ask_at_least": "Ask as many questions as `audit plan` names, and at least {least:,}.",
    "hold_out": "Treat the score as partly memory of the exam until held-out questions show "
    "otherwise.",
    "read_improved": "Read the questions that went from wrong to correct, and the messages that "
    "the worker saw.",
    "mend_unparsed": "Look at the unparsed replies and the errors, and remove their cause "
    "(store.retry_errors=true repeats failed calls). Or choose a reading by likelihood.",
    "run_controls": f"Run the same command with the controls: {_KEPT}",
    "run_twice": f"Run the same command with noisy_replicates=2: {_KEPT}",
    "run_both_arms": "Run the clean and the noisy arm on the same questions.",
    "give_reference": "Run a model of about the same ability on the stored messages (the same "
    "command with model=OTHER messages_from=RUN_DIR). Then repeat this command with "
    "hint_reference=ITS_RUN_DIR.",
    "take_abler_reference": "Choose a hint reference whose ability is about that of this model, or "
    "higher.",
    "read_messages": "Read the messages for hints, or ask more questions to compare the two gains.",
    "is_repetition": "Treat the gain as an effect of repetition and compute.",
    "ask_more_of_ensemble": "Ask more questions or run more replicates of the ensemble control.",
    "ask_more_of_direct": "Ask more questions or run more replicates of `direct`.",
    "harder_questions": "Choose questions on which this model can gain, such as a harder "
    "benchmark.",
    # Headlines:
    "headline_withheld": "No verdict on {model} and {benchmark}: {why:listed}.",
    "headline_not_comparable": "No verdict on {model} and {benchmark}: the comparison could not be made.",
    "headline_excess": f"{_HIGHEST}. Chance, the original question and repetition do not explain it: its score of "
    "{score:percent} may be partly memory.",
    "headline_gain_uncontrolled": _headline(
        f"{_HIGHEST}. But {{doubt}}. Exclude this explanation before you draw a conclusion."
    ),
    "headline_excess_explained_by_ensembling": "{model} gains up to {gain:points} on {benchmark} "
    "from several damaged messages, and about as much from as many intact messages. Repetition "
    "explains the gain.",
    "headline_not_identified": "This test cannot show whether damage raises the score of {model} on "
    "{benchmark}: its score of {score:percent} leaves no room for a gain that matters.",
    "headline_underpowered": _headline(
        f"{_HIGHER}than through the clean router. But {{doubt}}.",
        "Too few questions for a verdict on {model} on {benchmark}: {size} on damaged questions is neither shown nor "
        "excluded. Nothing follows for its score of {score:percent}.",
    ),
    "headline_no_excess_detected": _headline(
        "No gain is counted for {model} on {benchmark} at its score of {score:percent}: {doubt}. "
        f"The gain could be {{limit:points}} at most (one-sided 95 % limit). {BLIND}",
        "Damage to its questions raises the score of {model} on {benchmark} ({score:percent}) by {limit:points} at "
        f"most (one-sided 95 % limit). {BLIND}",
    ),
}

# These name the controls that were not run. CANNOT_EXCLUDE states the explanation of a gain that
# remains possible without each control.
NOT_RUN: Texts = {
    "direct": "direct: the original question without a router",
    "ensemble": "ensemble control: as many clean routers, at any r",
    "ensemble_at": "ensemble control: as many clean routers, at r = {routers:listed}",
    "clean_replicates": "clean replicates: {runs} run, and 2 are needed for a noise floor",
    "noisy_replicates": "noisy replicates: 1 run, and 2 are needed to measure shifts of whole "
    "noisy runs",
    "hint_reference": "hint reference: another model that answers from the same messages",
}
# A run prints these notes on missing controls before it starts.
_ENSEMBLE = (
    "The ensemble control is not run at r = {routers:listed}, so a gain there could come from "
    "repetition. It would be called gain_uncontrolled. Add ensemble_control=true."
)
PRE_RUN_NOTES: Texts = {
    "direct": "The original question is not asked, so a gain could come from what the clean router "
    "loses. Add direct to arms.",
    "ensemble": _ENSEMBLE,
    "ensemble_at": _ENSEMBLE,
    "noisy_replicates": "The noisy arm is run once. A gain no larger than a plausible shift of a "
    "whole run would be called gain_uncontrolled. Add noisy_replicates=2.",
}
_REPETITION = "that repetition and compute caused the gain, and not memory"
CANNOT_EXCLUDE: Texts = {
    "direct": "that the clean router lost part of the question, which lowered the baseline",
    "ensemble": _REPETITION,
    "ensemble_at": _REPETITION,
    "clean_replicates": "that clean answers vary as much as the gain between runs",
    "noisy_replicates": "that the whole noisy run shifted by an implausible amount "
    "(noisy_replicates=2)",
    "hint_reference": "that the noisy messages hint at the answers",
}


def tipping(gamma: float | None) -> str | None:
    """Format the largest odds ratio at which a verdict remains the same.

    Parameters
    ----------
    gamma : float or None
        The largest odds ratio at which the verdict remains the same. It is infinite if the verdict
        remains the same even in the worst case.

    Returns
    -------
    str or None
        The number as text, or "worst case" if the ratio is infinite; None if `gamma` is None.
    """
    if gamma is None:
        return None
    return "worst case" if math.isinf(gamma) else f"{gamma:g}"
