"""The words of the construct-validity audit: one entry a status and one a gate, for page, gate and headline alike."""

from __future__ import annotations

from audit.exits import NOT_CLEARED, OK
from audit.validity.result import ValidityStatus
from audit.verdict.vocabulary import GateWord, VerdictWord

# Worst first, as on the page. No status is an accusation, so none has the exit code of a finding.
VERDICTS: dict[ValidityStatus, VerdictWord] = {
    ValidityStatus.INELIGIBLE_EDITS: VerdictWord(
        "Ineligible: the edits", "warn", "✖", "X", "#e69f00",
        "The edits do not reach what the scorer reads, or too few items have them (the paper's F1).",
        NOT_CLEARED,
    ),
    ValidityStatus.SCORER_UNVALIDATED: VerdictWord(
        "Scorer unvalidated", "warn", "▼", "v", "#cc79a7",
        "No human label or reference backs the scorer, or it failed a test of itself. A score that it gives says "
        "nothing yet.",
        NOT_CLEARED,
    ),
    ValidityStatus.FAILED: VerdictWord(
        "Failed a gate", "warn", "▲", "^", "#d55e00",
        "Answers cannot be read, the model does no better than a rule that never reads the question, or rows are not "
        "paired: no conclusion is drawn.",
        NOT_CLEARED,
    ),
    ValidityStatus.INELIGIBLE_ARCHETYPE: VerdictWord(
        "Ineligible: the archetype", "warn", "◆", "D", "#e69f00",
        "Attribute edits of two contracts are mixed, so that no one number means anything (the paper's F5).",
        NOT_CLEARED,
    ),
    ValidityStatus.EXPLORATORY: VerdictWord(
        "Exploratory", "mute", "■", "s", "#626a73",
        "All gates pass, and a check did not catch the fault that it is there for, or could not be tried.",
        NOT_CLEARED,
    ),
    ValidityStatus.INDETERMINATE: VerdictWord(
        "Indeterminate", "mute", "✚", "P", "#626a73",
        "All gates pass, and the data confirm neither: no direction of the difference is shown after correction, or "
        "attribute edits move answers more than surface edits do and are not shown to be followed more often than not. "
        "The paper's algorithm has no status for this.",
        NOT_CLEARED,
    ),
    ValidityStatus.NON_SELECTIVE: VerdictWord(
        "Confirmatory, non-selective", "good", "●", "o", "#0072b2",
        "Where nothing should move: attribute edits move answers by no more than the margin beyond what surface edits "
        "do, as it should be. Where the key moves: surface edits move answers more often than the construct does, "
        "which is not as it should be.",
        OK,
    ),
    ValidityStatus.SELECTIVE: VerdictWord(
        "Confirmatory, selective", "good", "●", "o", "#009e73",
        "Attribute edits move answers more than surface edits do. Where the key moves, they follow it; where nothing "
        "should move, they react to these edits.",
        OK,
    ),
}  # fmt: skip

GATES: dict[str, GateWord] = {
    "G1_edits_reach_scorer": GateWord(
        "G1: edits reach the scorer",
        "edits do not reach what the scorer reads",
        "Hashes of the consumed token ids of every edit and of its original.",
    ),
    "G1_enough_edits": GateWord(
        "G1: enough edits", "too few items have the edits", "Edits of each item that changed what the scorer reads."
    ),
    "G1_answers_readable": GateWord(
        "G1: answers readable",
        "answers cannot be read under an edit",
        "Whether an answer was read, original against each edit.",
    ),
    "scorer_valid": GateWord(
        "Scorer valid", "the scorer is not validated", "The scorer's evidence, and its self-test on these items."
    ),
    "F3b_key_position": GateWord(
        "Key at every position", "the key stands at one position", "Where the key of each original was shown."
    ),
    "F3c_label_values": GateWord(
        "Labels have values",
        "the scored labels hold no probability",
        "Why answers were not read, and the probability that the labels hold.",
    ),
    "F3c_exact_values": GateWord(
        "Plausible values", "some figures are suspiciously exact", "Changes of response and score by family."
    ),
    "G2_above_baseline": GateWord(
        "G2: above baseline",
        "the model does no better than a rule that never reads",
        "Scores of the originals, and of rules that see the options alone.",
    ),
    "G3_denominator": GateWord(
        "G3: ratio has a denominator",
        "the ratio has no denominator",
        "Changes of response under format and semantic edits.",
    ),
    "G4_paired": GateWord(
        "G4: rows are paired",
        "rows of different items share an id",
        "Text and key of every row of an item, and the items' clusters.",
    ),
    "G4_order": GateWord(
        "G4: items in order",
        "edited rows are not of their originals",
        "Responses to originals and to surface edits, item by item.",
    ),
    "G5_archetype": GateWord("G5: archetype", "contracts are mixed", "The contract declared of every attribute edit."),
    "F5_direction": GateWord(
        "Answers moved, not keys",
        "keys moved onto answers that stayed",
        "Score and response before and after attribute edits.",
    ),
    "noise_floor": GateWord(
        "Repeated requests agree",
        "the same request gives other answers",
        "Responses to the very same request, sent again.",
    ),
    "G6_repair_regression": GateWord(
        "G6: faults are caught",
        "a check missed the fault that it is there for",
        "A copy of this run for each fault, its check, and the tests that the chronology names.",
    ),
}

# Thresholds, as the page prints them.
LABELS = {
    "alpha": "Error rate of both directions together",
    "noop_share_max": "G1: largest share of edits that change nothing",
    "parse_share_min": "G1: least share of readable answers",
    "parse_drop_alpha": "Readable before against after an edit: level of the test",
    "applicable_share_min": "G1: least share of the edits wanted",
    "baseline_standard_errors": "G2: standard errors above the baseline",
    "denominator_min": "G3: least lower limit of the denominator",
    "margin": "How much more than a surface edit still counts as not moving",
    "follow_min": "Least lower limit of contracts followed",
    "wrong_to_right_max": "Largest share of wrong answers that an edit makes right",
    "position_alpha": "Key at every position: level of the test",
    "label_mass_min": "Labels have values: least mean probability",
    "replay_change_max": "Repeated requests agree: largest share that changes",
}
