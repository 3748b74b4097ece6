"""The words of verdicts and gates."""

from audit.verdict.vocabulary import GateWord, Outcome, VerdictWord
from shouting.result import Verdict

VERDICTS = {
    Verdict.WITHHELD: VerdictWord("Withheld", "✖", "X", "A check failed.", Outcome.NO_DECISION),
    Verdict.MATTERS: VerdictWord("Shouting matters", "▲", "^", "Shouted questions are missed.", Outcome.FOUND),
    Verdict.UNDERPOWERED: VerdictWord("Not enough data", "✚", "P", "It cannot be told.", Outcome.NO_DECISION),
    Verdict.NOTHING: VerdictWord("No harm found", "●", "o", "Shouted questions fare no worse.", Outcome.NOTHING_SEEN),
}
GATES = {"parseability": GateWord("Readable answers", "too many answers could not be read")}
