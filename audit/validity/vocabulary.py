"""The words of the construct-validity audit: one entry a status and one a gate, for page, gate and headline alike."""

from __future__ import annotations

from audit.validity.edits.record import Archetype
from audit.validity.result import ValidityStatus
from audit.verdict.vocabulary import GateWord, Outcome, VerdictWord

# Worst first, as on the page.
VERDICTS: dict[ValidityStatus, VerdictWord] = {
    ValidityStatus.INELIGIBLE_EDITS: VerdictWord(
        "Ineligible: the edits", "◇", "d",
        "The edits do not reach what the scorer reads, or too few items have them (the paper's F1).",
        Outcome.NO_DECISION, plain="The edits do not reach what is scored",
    ),
    ValidityStatus.SCORER_UNVALIDATED: VerdictWord(
        "Scorer unvalidated", "▼", "v",
        "No human label or reference backs the scorer, or it failed a test of itself. A score that it gives says "
        "nothing yet.",
        Outcome.NO_DECISION, plain="Nothing backs the scorer yet",
    ),
    ValidityStatus.FAILED: VerdictWord(
        "Not measurable", "✖", "X",
        "Answers cannot be read, the model does no better than a rule that never reads the question, or rows are not "
        "paired: no conclusion is drawn.",
        Outcome.NO_DECISION, plain="A check failed: no result about the model",
    ),
    ValidityStatus.INELIGIBLE_ARCHETYPE: VerdictWord(
        "Ineligible: the archetype", "◆", "D",
        "Attribute edits of two contracts are mixed, so that no one number means anything (the paper's F5).",
        Outcome.NO_DECISION, plain="Edits of two kinds are mixed",
    ),
    ValidityStatus.EXPLORATORY: VerdictWord(
        "Exploratory", "■", "s",
        "All gates pass, and a check did not catch the fault that it is there for, or could not be tried.",
        Outcome.NO_DECISION, plain="A check did not catch its own fault",
    ),
    ValidityStatus.INDETERMINATE: VerdictWord(
        "Indeterminate", "✚", "P",
        "All gates pass, and the data confirm neither: no direction of the difference is shown after correction, or "
        "attribute edits move answers more than surface edits do and are not shown to be followed more often than not. "
        "The paper's algorithm has no status for this.",
        Outcome.NO_DECISION, plain="The data confirm neither direction",
    ),
    # Confirmed either way, and good or bad news by the cell's archetype. Without one, nothing can be told.
    ValidityStatus.NON_SELECTIVE: VerdictWord(
        "Confirmatory, non-selective", "●", "o", "Which contract the attribute edits have is not known.",
        Outcome.NO_DECISION,
        {
            Archetype.DIAGNOSTIC: VerdictWord(
                "Confirmatory, non-selective: surface over construct", "▲", "^",
                "The key moves, and surface edits move answers more often than the construct does: a finding.",
                Outcome.FOUND, plain="Answers follow the surface more than the meaning",
            ),
            Archetype.INVARIANCE: VerdictWord(
                "Confirmatory, non-selective", "●", "o",
                "Nothing should move, and attribute edits move answers by no more than the margin beyond what surface "
                "edits do, as it should be.",
                Outcome.NOTHING_SEEN, plain="Answers stay where they should",
            ),
        },
    ),
    ValidityStatus.SELECTIVE: VerdictWord(
        "Confirmatory, selective", "●", "o", "Which contract the attribute edits have is not known.",
        Outcome.NO_DECISION,
        {
            Archetype.DIAGNOSTIC: VerdictWord(
                "Confirmatory, selective", "●", "o",
                "The key moves, and answers follow it more than they follow surface edits, as it should be.",
                Outcome.NOTHING_SEEN, plain="Answers follow the meaning more than the surface",
            ),
            Archetype.INVARIANCE: VerdictWord(
                "Confirmatory, selective: reacts to the attribute", "▲", "^",
                "Nothing should move, and attribute edits move answers more than surface edits do: a finding.",
                Outcome.FOUND, plain="Answers move where they should not",
            ),
        },
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
