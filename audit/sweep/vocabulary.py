"""The words of the sweep: one entry a verdict and one a gate, for page, chart, gate and headline alike."""

from __future__ import annotations

from audit.exits import FOUND, NOT_CLEARED, OK
from audit.sweep.result import Verdict
from audit.verdict.vocabulary import GateWord, VerdictWord

# Worst first: charts and tallies keep this order.
VERDICTS: dict[Verdict, VerdictWord] = {
    Verdict.EXCESS: VerdictWord(
        "Excess", "bad", "▲", "^", "#d55e00",
        "The model scores higher when information is taken away, beyond chance, beyond the original question and "
        "beyond what repetition explains. The score may rest on memory of the exam.",
        FOUND,
    ),
    Verdict.UNCONTROLLED: VerdictWord(
        "Gain, uncontrolled", "warn", "◆", "D", "#0072b2",
        "The score rose under noise beyond chance, but a control that could explain it (the original question, or as "
        "many routers that delete nothing) was not run.",
        NOT_CLEARED, weigh=True,
    ),
    Verdict.BRITTLE: VerdictWord(
        "Brittle", "odd", "▼", "v", "#cc79a7",
        "The score falls well below its clean baseline once the question is damaged: it depends on the full wording.",
        NOT_CLEARED, weigh=True,
    ),
    Verdict.WITHHELD: VerdictWord(
        "Withheld", "warn", "✖", "X", "#e69f00",
        "The measurement itself failed a check, so no conclusion is drawn. What to mend is stated.",
        NOT_CLEARED,
    ),
    Verdict.UNDERPOWERED: VerdictWord(
        "Underpowered", "mute", "✚", "P", "#626a73",
        "Too few data to tell: a gain of the size of interest is neither shown nor excluded. This is neither a clean "
        "bill nor a suspicion: measure more.",
        NOT_CLEARED,
    ),
    Verdict.EXCESS_EXPLAINED: VerdictWord(
        "Excess explained by ensembling", "odd", "■", "s", "#56b4e9",
        "The score rose under noise, and relaying the intact question as often helps about as much. Repetition "
        "explains it; memory is not needed.",
        OK,
    ),
    Verdict.NO_EXCESS: VerdictWord(
        "No excess detected", "good", "●", "o", "#009e73",
        "Taking information away raises the score by less than the effect of interest: the upper limit is stated. "
        "Memory that helps intact and damaged questions alike is not seen by this test.",
        OK,
    ),
}  # fmt: skip

GATES: dict[str, GateWord] = {
    "parseability": GateWord("Readable answers", "too many answers could not be read"),
    "above_chance": GateWord("Score above guessing", "the model is not clearly better than guessing"),
    "pairing": GateWord("Same questions everywhere", "the questions do not match between the arms"),
    "noise_floor": GateWord("Repeated runs agree", "repeated runs of the same condition differ by more than chance"),
    "exact_values": GateWord("Plausible values", "some figures are suspiciously exact"),
    "clean_fidelity": GateWord("Faithful clean relay", "the clean routers do not pass the question on faithfully"),
    "manipulation_reached_worker": GateWord(
        "Noise reaches the model", "the manipulated questions did not reach the model"
    ),
    "answer_leak": GateWord("Messages free of the answer", "the routers gave the answers away"),
    "enough_data": GateWord("Enough questions", "there are too few questions"),
}
