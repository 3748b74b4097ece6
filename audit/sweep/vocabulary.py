"""The words of the sweep: one entry a verdict and one a gate, for page, chart, gate and headline alike.

Last, `INSTRUMENT`: the audit as a row of the table of instruments.
"""

from collections.abc import Mapping
from typing import Any

from audit.sweep.result import Verdict
from audit.verdict.instrument import Indicator, Instrument, Measured
from audit.verdict.vocabulary import GateWord, Outcome, VerdictWord

# Worst first: charts and tallies keep this order.
VERDICTS: dict[Verdict, VerdictWord] = {
    Verdict.EXCESS: VerdictWord(
        "Excess", "▲", "^",
        "The model scores higher when information is taken away, beyond chance, beyond the original question and "
        "beyond what repetition explains. The score may rest on memory of the exam.",
        Outcome.FOUND, plain="Scores higher on damaged questions",
    ),
    Verdict.UNCONTROLLED: VerdictWord(
        "Gain, uncontrolled", "◆", "D",
        "The score rose under noise beyond chance, but a control that could explain it (the original question, or as "
        "many routers that delete nothing, a second noisy run, another model given the same messages) was not run.",
        Outcome.CAUSE_UNKNOWN, plain="Scores higher on damaged questions; a control is missing",
    ),
    Verdict.BRITTLE: VerdictWord(
        "Brittle", "▼", "v",
        "The score falls well below its clean baseline once the question is damaged: it depends on the full wording.",
        Outcome.CAUSE_UNKNOWN, plain="Loses points when questions are damaged",
    ),
    Verdict.WITHHELD: VerdictWord(
        "Withheld", "✖", "X",
        "The measurement itself failed a check, so no conclusion is drawn. What to mend is stated.",
        Outcome.NO_DECISION, plain="A check of the measurement failed",
    ),
    Verdict.UNDERPOWERED: VerdictWord(
        "Not enough data", "✚", "P",
        "A gain of the size that matters could be real or not: the data cannot tell. This is neither a clean bill "
        "nor a suspicion: measure more.",
        Outcome.NO_DECISION,
    ),
    Verdict.EXCESS_EXPLAINED: VerdictWord(
        "Excess explained by ensembling", "■", "s",
        "The score rose under noise, and relaying the intact question as often helps about as much. Repetition "
        "explains it; memory is not needed.",
        Outcome.EXPLAINED, plain="Gains from repetition, not from damage",
    ),
    Verdict.NO_EXCESS: VerdictWord(
        "No excess detected", "●", "o",
        "Taking information away raises the score by less than the smallest effect that matters (limit stated). "
        "Memory that helps intact and damaged questions alike is not seen by this test.",
        Outcome.NOTHING_SEEN, plain="Damage does not raise the score",
    ),
}  # fmt: skip

GATES: dict[str, GateWord] = {
    "parseability": GateWord("Readable answers", "too many answers could not be read"),
    "above_chance": GateWord("Score above guessing", "the model is not clearly better than guessing"),
    "pairing": GateWord("Same questions everywhere", "the questions do not match between the arms"),
    "noise_floor": GateWord("Repeated runs agree", "repeats of one condition differ more than chance usually makes"),
    "exact_values": GateWord("Plausible values", "some figures are suspiciously exact"),
    "clean_fidelity": GateWord("Faithful clean relay", "the clean routers do not pass the question on faithfully"),
    "manipulation_reached_worker": GateWord(
        "Noise reaches the model", "the manipulated questions did not reach the model"
    ),
    "answer_leak": GateWord("Messages free of the answer", "the routers gave the answers away"),
    "enough_data": GateWord("Enough questions", "there are too few questions"),
}

# How a question reached the model, in tables, lists and filters.
ARMS = {"direct": "direct", "forward_full": "clean", "noisy_rewrite": "noisy", "deleted": "words deleted"}

# What has no entry above and is printed: thresholds, and what the calibration was simulated with.
LABELS = {
    "alpha": "Error rate of an excess, family-wise",
    "power": "Power at which a detectable gain is stated",
    "effect_of_interest": "Smallest effect that matters",
    "above_chance_standard_errors": "Score above guessing: standard errors needed",
    "answered_share_min": "Readable answers: least share",
    "clean_loss_max": "Faithful clean relay: largest loss against direct",
    "lossy_share_max": "Faithful clean relay: largest share of messages that lost something",
    "noop_share_max": "Noise reaches the model: largest share of prompts left as they were",
    "leak_share_max": "Messages free of the answer: largest share that states it",
    "noise_floor_alpha": "Repeated runs agree: level of the test",
    "run_sd_plausible": "Largest plausible shift of a whole run, standard deviation",
    "finding_questions_min": "Questions from which on something can be found",
    "pairing_z_min": "Same questions everywhere: standard errors needed",
    "pairing_questions_min": "Same questions everywhere: fewest questions",
    "brittle_drop_min": "Mean fall that is called brittle",
    "credibility_high": "Credibility called high from",
    "credibility_moderate": "Credibility called moderate from",
    "n": "Questions",
    "routers": "Router counts (r)",
    "draws": "Draws of router messages",
    "clean_replicates": "Runs of the clean arm",
    "noisy_replicates": "Runs of the noisy arm",
    "reference": "Clean accuracy of the hint reference less the model's",
    "clean_accuracy": "Clean accuracy",
    "discordance": "Questions that change between clean and noisy",
    "correlation": "Correlation between settings",
    "direct": "With the direct arm",
    "ensemble": "With the ensemble control",
    "panel": "Models in a panel",
    "clean": "Noise does nothing for the model",
    "gain_one_r": "Noise lifts it by 5 points at one r",
    "gain_5": "Noise lifts it by 5 points at every r",
    "gain_10": "Noise lifts it by 10 points at every r",
    "H1": "H1: some model gains",
    "H2": "H2: models differ in their gains",
    "H3": "H3: more routers, more gain",
}


def severity(verdict: Verdict, gain: float, name: str) -> tuple[int, float, str]:
    """The order of models in charts and tables: the worst verdict first, in it the largest gain."""
    return list(VERDICTS).index(verdict), -gain, name


def measured(cell: Mapping[str, Any]) -> Measured:
    """The gain under noise behind the verdict: the largest with its simultaneous interval; of a loss the mean."""
    effect, rates = cell["effect"] or {}, (cell["calibration"] or {}).get("rates", {})
    alarms = rates.get("clean_any_excess", rates.get("clean_excess"))
    if cell["verdict"] == "brittle":
        mean, low, high = (effect.get(f"mean_{name}") for name in ("gain", "ci_low", "ci_high"))
        return Measured("mean gain under noise", mean, low, high, None)
    return Measured("largest gain under noise", effect.get("gain"), effect.get("ci_low"), effect.get("ci_high"), alarms)


def tracked(cell: Mapping[str, Any]) -> tuple[Indicator, ...]:
    """Of a cell of verdict.json. excess: the gain under noise, averaged over r (the best r is chosen in every run)."""
    effect = cell["effect"] or {}
    excess = Indicator("excess", effect.get("mean_gain"), effect.get("mean_ci_low"), effect.get("mean_ci_high"))
    return (Indicator("score", cell["score"]), excess)


INSTRUMENT = Instrument("sweep", "the router-worker sweep", frozenset({"noise"}), measured, tracked)
