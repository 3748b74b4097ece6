"""G2 and G3: the score is above what needs no question, and the ratio has a denominator. The noise floor."""

import numpy as np

from audit.statistics.contracts import response_changes
from audit.validity.evidence import SURFACE, CellEvidence, changes
from audit.validity.gates.common import Rule, ids
from audit.validity.record import ValidityCell
from audit.validity.thresholds import ValidityThresholds
from audit.verdict.result import Gate, percent


def above_baseline(cell: ValidityCell, e: CellEvidence, t: ValidityThresholds) -> Gate:
    """G2: the original score beats the best rule that does not read the question (not only guessing)."""
    rule, baseline = e.baseline
    s = e.score.estimate
    n = max(e.score.n, 1)
    se = float(np.sqrt(max(s * (1 - s), baseline * (1 - baseline)) / n)) if np.isfinite(s) else float("nan")
    se = float(np.fmax(se, e.score.se))  # larger where items come in clusters
    z = (s - baseline) / se if se > 0 else (float("inf") if s > baseline else 0.0)
    passed = bool(z >= t.baseline_standard_errors)
    source = "li2026, G2, against the best answer-only rule of the notes in place of guessing alone"
    return Rule("G2_above_baseline", t.baseline_standard_errors, source).checked(
        passed,
        z if np.isfinite(z) else 99.0,
        f"Originals score {percent(s)}, {'' if passed else 'not '}above {rule} ({percent(baseline)}) by "
        f"{t.baseline_standard_errors:g} standard errors. Guessing gives {percent(e.chance)}. Behind it: "
        "originals that do not score.",
        "Take an easier benchmark or a stronger model: a rule that never reads the question does as well.",
        items=ids(cell, cell.score_before == 0),
        numbers={"score": s, "chance": e.chance, **e.shortcuts},
    )


def denominator(cell: ValidityCell, e: CellEvidence, t: ValidityThresholds) -> Gate:
    """G3: the ratio's denominator. It withholds the ratio and no status: ours rests on a difference."""
    found = [e.families[f].response_change for f in SURFACE if e.families[f].read]
    number = max((m.estimate for m in found), default=float("nan"))
    moved = np.any([(changes(cell, cell.used(f)) == 1).any(axis=0) for f in SURFACE], axis=0)
    low = max((m.low for m in found), default=float("nan"))
    source = "li2026, G3 (.02), here of the lower 95 % limit; conf/verdict: denominator_min"
    return Rule("G3_denominator", t.denominator_min, source).checked(
        bool(low >= t.denominator_min),
        low,
        f"Edits of layout or wording change {percent(number)} of the answers (lower limit {percent(low)}). The paper's "
        f"ratio (CSR) is {'reported' if low >= t.denominator_min else 'not reported: its denominator may be zero'}.",
        "Nothing to mend: a model that layout and wording leave alone has no ratio. The difference stands.",
        withholds=False,
        items=ids(cell, moved),
    )


def replays(cell: ValidityCell, e: CellEvidence, t: ValidityThresholds) -> Gate:
    """The noise floor: the very request of the original again."""
    rule = Rule("noise_floor", t.replay_change_max, "ours: identity replays; conf/verdict: replay_change_max")
    if e.replay is None or not e.replay.n:
        return rule.absent("The original was asked once: there is no noise floor.")
    return rule.checked(
        e.replay.estimate <= t.replay_change_max,
        e.replay.estimate,
        f"The same request, sent again, changes {percent(e.replay.estimate)} of the answers.",
        "Answers change by themselves: lower the temperature, or look for batching that changes logprobs.",
        items=ids(cell, (response_changes(cell.before, cell.original.response[1:]) == 1).any(axis=0)),
    )
