"""Hold the sentences of the sweep by code: reasons, advice, headlines, and controls not run."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from audit.core.number_text import listed, points, pvalue
from audit.judging.result import Reason, Texts, sentence

# Every headline without a finding states what this instrument cannot see
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
_STANDS = "Unparsed answers are imputed against the verdict (odds ratio {odds_ratio:g} between the arms). It stands"
_H1 = "gain under noise, beyond chance and every control,"
_H2 = (
    "by more than sampling explains ({p:p}, {items:,} shared items). They run from {lowest:signed} ({lowest_model}) to "
    "{highest:signed} ({highest_model})."
)
_HIGHER = "{model} scores {gain:points} higher on {benchmark} when its questions are damaged "
_HIGHEST = _HIGHER + "(r = {routers}; 95 %: at least {low:points})"
_KEPT = "what is in the shards is kept."

_CONTROLS = {
    "clean": "the clean baseline",
    "direct": "the original question",
    "ensemble": "as many routers that delete nothing",
}
_ASKED_BY = {"direct": "(arms: direct)", "ensemble": "(ensemble_control=true)"}

# The headline quotes these explanations of a gain, which are not excluded.
_DOUBTS = {
    "not_compared": "a control that could explain it was not run",
    "run_once": "a shift of the whole noisy run, which was made once, could explain it",
    "no_reference": "the messages may hint at the answers, and no other model answered from them",
    "weak_reference": "the model that answered from the same messages is weaker, and may miss "
    "their hints",
    "reference_gains_too": "another model gains about as much from the same messages",
    "may_beat_ensemble": "too few questions were asked to tell damage from repetition",
    "may_beat_direct": "too few questions were asked to tell whether the gain exceeds the loss by "
    "the clean router",
    "not_above_direct": "the gain over the clean router is no larger than the loss by that router",
    "interval_holds_zero": "the test finds a gain, but its interval includes zero",
}


def _beats(routers: Sequence[int], controls: Sequence[str]) -> str:
    beaten = listed(_CONTROLS[name] for name in controls)
    return f"At r = {listed(routers)}, noisy beats {beaten} after correction over r and models."


def _not_compared(controls: Sequence[str], ensemble_routers: Sequence[int]) -> str:
    at = f" at r = {listed(ensemble_routers)}" if ensemble_routers else ""
    missing = " or ".join(f"{_CONTROLS[name]} {_ASKED_BY[name]}" for name in controls)
    cause = "Either" if len(controls) > 1 else "That control"
    return f"The noisy arm was not compared{at} with {missing}. {cause} may explain the gain."


def _size(limit: float) -> str:
    if not limit < 1:  # NaN means that the data give no limit.
        return "a gain of any size"
    return f"a gain of up to {points(limit)}" if limit > 0 else "no gain"


def _bound(limit: float, effect: float, imputed: bool, aided: bool = False) -> str:
    method = "largest of the one-sided 95 % limits at each r"
    if imputed:
        method += ", with unparsed and missing replies imputed in favour of the gain"
    if aided:
        method += ", without questions for which a clean message names an answer"
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
    method = "the most that is plausible" if capped else "the estimate and one standard error"
    comparisons = (
        "1 comparison of runs estimates" if df == 1 else f"{df} comparisons of runs estimate"
    )
    chance = ", which may be chance" if capped and estimate > 0 else ""
    return (
        f"Intervals allow for whole {side} runs to shift by {points(sd)} (standard deviation): {method} "
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
    """Return a function that writes a headline.

    with_doubt: the template if `about` is a doubt, which {doubt} quotes. otherwise: the template
    for other reasons. {size} is the largest gain that is compatible with the data.
    """

    def headline(about: str, limit: float, **numbers: Any) -> str:
        doubt = _DOUBTS.get(about, "")
        more = {"doubt": doubt, "size": _size(limit), "limit": max(limit, 0.0)}
        template = with_doubt if doubt or not otherwise else otherwise
        return sentence(Reason("it", numbers | more), {"it": template})

    return headline


TEXTS: Texts = {
    # >>Reasons of a gain
    "beats_controls": _beats,
    "stands_without_leaks": "The gain remains without the questions whose messages state the "
    "answer.",
    "gone_without_leaks": "The gain vanishes without the questions whose messages state the "
    "answer.",
    "stands_if_unparsed": f"The gain remains if {_IMPUTED}.",
    "gone_if_unparsed": f"The gain vanishes if {_IMPUTED}. The choice of parsed replies may have "
    "caused it.",
    "not_compared": _not_compared,
    "no_reference": "No other model answered from the same messages, which may hint at the "
    "answers.",
    "weak_reference": "{reference} answers the clean messages worse than this model, so it may "
    "miss their hints.",
    "reference_gains_too": "{reference} gains {gain:signed} from the same messages. It is not "
    "shown that this model gains more.",
    "hints_excluded": "{reference} gains {gain:signed} from the same messages on average over r. "
    "The difference is beyond chance, so hints in the messages do not explain the gain.",
    "one_router": "With one router, the clean baseline is the router that deletes nothing.",
    "ensemble_not_run": "At r = {routers:listed} the noisy arm was not compared with as many "
    "routers that delete nothing.",
    "above_zero": "At r = {routers:listed}, the intervals of noisy over every control that was run lie above zero.",
    "run_once": "But the noisy arm was run once. A whole run can shift by a standard deviation of {sd:points} "
    "(batches, endpoints, engines), and that could explain the gain.",
    "not_above_ensemble": "Noisy does not beat as many routers that delete nothing: the mean "
    "difference over r is "
    f"{{mean:signed}} ({_INTERVAL}).",
    "ensemble_gains": "These intact routers beat the clean baseline too, at r = {routers:listed}.",
    "ensemble_bounds": "Noisy could be above them by {limit:points} at most (one-sided 95 % limit), no more than the "
    "smallest effect that matters ({effect:points}).",
    "may_beat_ensemble": "Noisy could be above them by {limit:points} (one-sided 95 % limit): the data cannot tell "
    "damage from repetition.",
    "few_questions": "The result rests on {n:,} questions. At least {least:,} are needed for a "
    "finding.",
    # >>Reasons of a clearance or an open result
    "not_above_direct": "At r = {routers:listed}, noisy beats the clean router but not the "
    "original question. The gain may only make up for the loss by the clean router.",
    "may_beat_direct": "Noisy could still be above the original question by {limit:points} "
    "(one-sided 95 % limit).",
    "interval_holds_zero": "At r = {routers:listed} the test finds a gain over the clean baseline, "
    "but its simultaneous 95 % interval includes zero. So the gain does not count as a finding.",
    "beats_no_control": "At no r does noisy beat every control after correction ({p:p}).",
    "falls": f"Note: accuracy falls by {{drop:points}} on average over r ({_INTERVAL}; {{p:p}}). The routers delete "
    "facts, so a fall is expected and is no finding.",
    "no_room": "At a score of {score:percent} no gain of {effect:points} is possible, so none is excluded.",
    "bound": _bound,
    "blind": "This test cannot see memory that helps intact and damaged questions alike, since it "
    "causes no gain.",
    # >>Statements that follow the reasons
    "larger_on_every_scale": f"The gain is larger {_HELD_OUT} So it is on the scales of log-odds and of the share of "
    "wrong answers repaired.",
    "larger_on_one_scale": f"The gain is larger {_HELD_OUT} On the scales of log-odds and of the "
    "share of wrong answers repaired it is not. So rewriting may help without memory.",
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
    "one_clean_run": "The noise floor was not measured: the clean arm has {runs} run. Expected 2 "
    "or more (clean_replicates=2).",
    "no_clean_pair": "The noise floor was not measured: no question is answered in two of the "
    "{runs} runs of the clean arm.",
    "clean_against_clean": "Clean against clean ({runs} replicates): {rejected} of {pairs} comparisons rejected at "
    "{alpha:percent}. A gain between identical conditions has a standard deviation of {sd:points}.",
    "h1_excess": f"H1: a {_H1} in {{count}} of {{models}} tested ({{excess:listed}}; smallest adjusted {{p:p}}).",
    "h1_none": f"H1: no {_H1} in {{models}} tested (smallest adjusted {{p:p}}).",
    "h1_not_counted": f"H1: no {_H1} in {{models}} tested. The test alone finds one (smallest adjusted {{p:p}}): the "
    "verdicts say why it is not counted.",
    "h2_differ": f"H2: the mean gains of {{models}} models differ {_H2}",
    "h2_alike": f"H2: the mean gains of {{models}} models do not differ {_H2}",
    "h3": _h3,
    "not_tested": "{name} was not tested: {error}",
    # >>Advice
    "ask_at_least": "Ask as many questions as `audit plan` names, and at least {least:,}.",
    "hold_out": "Treat the score as partly memory of the exam until held-out questions show "
    "otherwise.",
    "read_improved": "Read the questions that went from wrong to correct, and the messages that "
    "the worker saw.",
    "mend_unparsed": "Read the unparsed replies and the errors, and remove their cause "
    "(store.retry_errors=true repeats failed calls). Or read answers by likelihood.",
    "run_controls": f"Run the same command with the controls: {_KEPT}",
    "run_twice": f"Run the same command with noisy_replicates=2: {_KEPT}",
    "run_both_arms": "Run the clean and the noisy arm on the same questions.",
    "give_reference": "Run a model of about the same ability on the stored messages (the same "
    "command with model=OTHER messages_from=RUN_DIR). Then repeat this command with "
    "hint_reference=ITS_RUN_DIR.",
    "take_abler_reference": "Choose a hint reference whose ability is about that of this model, or "
    "higher.",
    "read_messages": "Read the messages, or ask more questions to tell the two gains apart.",
    "is_repetition": "Read the gain as an effect of repetition and compute.",
    "ask_more_of_ensemble": "To tell the two apart, ask more questions or run more replicates of the ensemble control.",
    "ask_more_of_direct": "To tell the two apart, ask more questions or run more replicates of `direct`.",
    "harder_questions": "Choose questions on which this model can gain, such as a harder "
    "benchmark.",
    # >>Headlines
    "headline_withheld": "No verdict on {model} and {benchmark}: {why:listed}.",
    "headline_not_comparable": "No verdict on {model} and {benchmark}: the comparison could not be made.",
    "headline_excess": f"{_HIGHEST}. Chance, the original question and repetition do not explain it: its score of "
    "{score:percent} may be partly memory.",
    "headline_gain_uncontrolled": _headline(
        f"{_HIGHEST}. But {{doubt}}. Settle this before drawing a conclusion."
    ),
    "headline_excess_explained_by_ensembling": "{model} gains up to {gain:points} on {benchmark} "
    "from several damaged messages, and about as much from as many intact messages. Repetition "
    "explains the gain.",
    "headline_not_identified": "This test cannot see whether damage raises the score of {model} on "
    "{benchmark}: its score of {score:percent} leaves no room for a gain that matters.",
    "headline_underpowered": _headline(
        f"{_HIGHER}than through the clean router. But {{doubt}}.",
        "Too few questions to tell for {model} on {benchmark}: {size} on damaged questions could be real or not. "
        "Nothing follows for its score of {score:percent}.",
    ),
    "headline_no_excess_detected": _headline(
        "No gain is counted for {model} on {benchmark} at its score of {score:percent}: {doubt}. "
        f"The gain could be {{limit:points}} at most (one-sided 95 % limit). {BLIND}",
        "Damage to its questions raises the score of {model} on {benchmark} ({score:percent}) by {limit:points} at "
        f"most (one-sided 95 % limit). {BLIND}",
    ),
}

# Controls that were not run. CANNOT_EXCLUDE states the explanation that each missing control leaves
# open.
NOT_RUN: Texts = {
    "direct": "direct: the original question without a router",
    "ensemble": "ensemble control: as many clean routers, at any r",
    "ensemble_at": "ensemble control: as many clean routers, at r = {routers:listed}",
    "clean_replicates": "clean replicates: {runs} was run, and 2 are needed for a noise floor",
    "noisy_replicates": "noisy replicates: 1 was run, and 2 are needed to measure shifts of whole "
    "noisy runs",
    "hint_reference": "hint reference: another model that answers from the same messages",
}
# Notes before a run on missing controls, without which a gain stays uncontrolled.
_ENSEMBLE = (
    "The ensemble control is not run at r = {routers:listed}, so a gain there could come from "
    "repetition. It would be called gain_uncontrolled. Add ensemble_control=true."
)
PRE_RUN_NOTES: Texts = {
    "direct": "The original question is not asked, so a gain could come from the loss by the clean "
    "router. Add direct to arms.",
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
    """Format the odds ratio at which a verdict changes."""
    if gamma is None:
        return None
    return "worst case" if math.isinf(gamma) else f"{gamma:g}"
