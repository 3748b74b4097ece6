"""G1: edits reach what the scorer reads, there are enough of them, and answers to them can be read. G2 and
G3: the score is above what needs no question, and the ratio has a denominator. G5: what attribute edits should do in a
context, and whether answers moved or only keys (F5). The noise floor.
"""

import numpy as np
import scipy

from audit.statistics.contracts import UNREAD, response_changes
from audit.statistics.paired import BoolArray
from audit.validity.edits.record import Archetype, Family
from audit.validity.evidence import SURFACE, CellEvidence, changes
from audit.validity.gates.pairing import Rule, ids
from audit.validity.record import ValidityCell
from audit.validity.thresholds import ValidityThresholds
from audit.verdict.result import Gate, interval, percent, signed_points

_G1 = "li2026, G1: silent no-ops below 20 %, on the hash of the token ids that the scorer consumed"


def edits_reach_scorer(cell: ValidityCell, e: CellEvidence, t: ValidityThresholds) -> Gate:
    """G1, first half: edits whose request has the hash of the original's tested nothing. number: the worst edit."""
    rule = Rule("G1_edits_reach_scorer", t.noop_share_max, _G1)
    shares: dict[str, float] = {}
    hit = np.zeros(cell.n, dtype=bool)
    for family, block in cell.families.items():
        for name in sorted({str(x) for x in block.name[block.asked]}):
            here = block.asked & (block.name == name)
            if here.sum() < max(1, cell.n // 20):  # a stand-in for a few items
                continue
            same = here & block.same
            shares[f"{family} {name}"] = float(same.sum() / here.sum())
            hit |= same.any(axis=0)
    if not shares:
        return rule.absent("No edit was asked.")
    worst = max(shares, key=lambda name: shares[name])
    total = sum(int((b.asked & b.same).sum()) for b in cell.families.values())
    return rule.checked(
        shares[worst] < t.noop_share_max,
        shares[worst],
        f"Under {worst}, {percent(shares[worst])} of the requests are the original's, the most of {len(shares)} edits. "
        f"{total} such rows are left out, and spare edits take their place.",
        "Edit what the scorer reads, or take another edit ('formats=[...]').",
        items=ids(cell, hit),
        numbers=dict(shares),
    )


def enough_edits(cell: ValidityCell, e: CellEvidence, t: ValidityThresholds) -> Gate:
    """Edits that tested something, of those wanted, by family; of the attribute family items with at least one."""
    shares = {}
    short = np.zeros(cell.n, dtype=bool)
    for family in (*SURFACE, Family.ATTRIBUTE):
        there = cell.used(family).tests.sum(axis=0)
        wanted = 1 if family == Family.ATTRIBUTE else cell.wanted
        shares[family.value] = float(np.minimum(there, wanted).mean() / wanted) if cell.n else 0.0
        short |= there < wanted
    worst = min(shares, key=lambda name: shares[name])
    source = "conf/verdict: applicable_share_min; a family below it is withheld, and zeros are never averaged in"
    return Rule("G1_enough_edits", t.applicable_share_min, source).checked(
        shares[worst] >= t.applicable_share_min,
        shares[worst],
        "Of the edits wanted, these changed what the scorer reads: "
        + ", ".join(f"{f} {percent(share)}" for f, share in shares.items())
        + ".",
        "Give a library of paraphrases (variants=...), other format edits, or items that have a partner.",
        items=ids(cell, short),
        numbers=dict(shares),
    )


def answers_readable(cell: ValidityCell, e: CellEvidence, t: ValidityThresholds) -> Gate:
    """G1, second half (F2): share of readable answers under each edit, and whether an edit changes what can be read."""
    read_before = cell.before != UNREAD
    shares = {"original": float(read_before.mean())}
    pvalues: dict[str, float] = {}
    unread = ~read_before
    for family, block in cell.families.items():
        for name in sorted({str(x) for x in block.name[block.tests]}):
            here = block.tests & (block.name == name)
            if here.sum() < max(1, cell.n // 20):
                continue
            read = block.response != UNREAD
            shares[f"{family} {name}"] = float(read[here].mean())
            pvalues[f"{family} {name}"] = _mcnemar(np.broadcast_to(read_before, here.shape)[here], read[here])
            unread = unread | (here & ~read).any(axis=0)
    worst = min(shares, key=lambda name: shares[name])
    fell = [name for name, p in pvalues.items() if p < t.parse_drop_alpha]
    best, least = _bounds(cell)
    why = _why_unread(cell)
    source = (
        "li2026, G1 (parseability at least .95), of every edit by itself; McNemar on readable; conf: parse_drop_alpha"
    )
    return Rule("G1_answers_readable", t.parse_share_min, source).checked(
        shares[worst] >= t.parse_share_min and not fell,
        shares[worst],
        f"{percent(shares[worst])} of the answers to {worst} can be read, the fewest of {len(shares)}."
        + (f" The edit itself changes what can be read: {', '.join(fell[:3])}." if fell else "")
        + (f" Unparsed, of all: {', '.join(f'{n} {name}' for name, n in why.items())}." if why else "")
        + f" The score of originals is {percent(least)} to {percent(best)}, by what unparsed answers would have been.",
        "Look at some unparsed replies: until they can be read, this says nothing about the model."
        + (" Options tied in likelihood: run with higher precision, dtype=float32." * ("tied" in why)),
        items=ids(cell, unread),
        numbers={
            **shares,
            "least_score": least,
            "best_score": best,
            **{f"unread: {name}": float(n) for name, n in why.items()},
        },
    )


def _why_unread(cell: ValidityCell) -> dict[str, int]:
    """Why answers were not read, with counts: each is a state of its own, and none of them is wrong."""
    blocks = (cell.original, *cell.families.values())
    found = np.concatenate([b.why[b.asked & (b.response == UNREAD)].astype(str) for b in blocks])
    names, counts = np.unique(found, return_counts=True)
    return {str(name) or "no reason told": int(n) for name, n in zip(names, counts, strict=True)}


def _mcnemar(before: BoolArray, after: BoolArray) -> float:
    lost, won = int(np.sum(before & ~after)), int(np.sum(~before & after))
    return float(scipy.stats.binomtest(lost, lost + won).pvalue) if lost + won else 1.0


def _bounds(cell: ValidityCell) -> tuple[float, float]:
    """Score of originals were every unparsed answer right, and were every one wrong."""
    s = cell.score_before
    return float(np.nan_to_num(s, nan=1.0).mean()), float(np.nan_to_num(s, nan=0.0).mean())


_MOST = 0.5


def archetype(cell: ValidityCell, e: CellEvidence, t: ValidityThresholds) -> Gate:
    """G5: what attribute edits should do in this context, from contracts that were declared before the run."""
    rule = Rule("G5_archetype", 1.0, "li2026, G5; contracts as declared in audit.validity.edits")
    if e.archetype is None:
        return rule.absent("No edit of the content was asked: what it should do cannot be named.")
    tests = cell.used(Family.ATTRIBUTE)
    directional = int((tests.tests & tests.directional).sum())
    total = int(tests.tests.sum())
    few = tests.tests & (tests.directional == (2 * directional < total))  # of the contract that fewer have
    why = {
        Archetype.DIAGNOSTIC: "Every edit of the content changes the right answer: answers must follow",
        Archetype.INVARIANCE: "No edit of the content changes the right answer: answers must stay",
        Archetype.MIXED: "Some edits of the content change the right answer and some do not: no one number tells",
    }[e.archetype]
    return rule.checked(
        e.archetype != Archetype.MIXED,
        directional / total if total else 0.0,
        f"{why} ({directional} of {total} change it)."
        + ("" if few.any() else " No item stands out: all edits should do the same."),
        "Split the benchmark by the condition that decides whether an edit changes the right answer.",
        items=ids(cell, few.any(axis=0)),
    )


def isolation(cell: ValidityCell, e: CellEvidence, t: ValidityThresholds) -> Gate:
    """F6: where the key moves, edits of the content move more answers than as many neutral words. An alarm."""
    rule = Rule("F6_isolation", 0.0, "li2026, F6 and App. F (E6, placebo specificity); here a difference above 0")
    if e.archetype != Archetype.DIAGNOSTIC or e.placebo is None:
        return rule.absent("No placebo, or the content should not move answers.")
    return rule.checked(
        e.placebo.low > 0,
        e.placebo.low,
        f"Edits of the content move {signed_points(e.placebo.estimate)} of the answers beyond what as many neutral "
        f"words move ({interval(e.placebo.low, e.placebo.high)}).",
        "Any change of that size moves answers: edits of the content do not isolate the content.",
        withholds=False,
    )


def direction(cell: ValidityCell, e: CellEvidence, t: ValidityThresholds) -> Gate:
    """F5: where nearly every wrong answer turns right under an edit, the key moved and the answers did not."""
    source = "notes, section 6: wrong to right of .9 or more of the wrong; conf: wrong_to_right_max"
    rule = Rule("F5_direction", t.wrong_to_right_max, source)
    family = e.families[Family.ATTRIBUTE]
    moves = family.transitions
    wrong = moves.wrong_right + moves.wrong_wrong
    if wrong < 5:
        return rule.absent("Fewer than five answers were wrong before: nothing to tell.")
    share = moves.wrong_to_right_share
    block = cell.used(Family.ATTRIBUTE)
    turned = block.tests & (cell.score_before == 0) & (block.scores == 1)
    still = float((block.response == cell.before)[turned].mean()) if turned.any() else 0.0
    return rule.checked(
        share < t.wrong_to_right_max or still < _MOST,
        share,
        f"Of {wrong} answers that were wrong before, {percent(share)} are right after an edit of the content. Of "
        f"these, {percent(still)} did not move: there the key came to the answer.",
        "A key that moves onto answers that stayed makes the score change: read the responses, not the scores.",
        items=ids(cell, (turned & (block.response == cell.before)).any(axis=0)),
        numbers={"right_right": moves.right_right, "right_wrong": moves.right_wrong, "wrong_right": moves.wrong_right,
                 "wrong_wrong": moves.wrong_wrong, "unread": moves.unread, "did_not_move": still},
    )  # fmt: skip


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
