"""G1: edits reach what the scorer reads, there are enough of them, and answers to them can be read."""

import numpy as np
import scipy

from audit.statistics.contracts import UNREAD
from audit.statistics.paired import BoolArray
from audit.validity.edits.record import Family
from audit.validity.evidence import SURFACE, CellEvidence
from audit.validity.gates.common import Rule, ids
from audit.validity.record import ValidityCell
from audit.validity.thresholds import ValidityThresholds
from audit.verdict.result import Gate, percent

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
