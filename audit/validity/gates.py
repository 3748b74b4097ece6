"""G1 to G6 of li2026 as code, with ours beside them: each says what it found, against which threshold, on which items.

A gate is pure: the cell and its evidence in, a `Gate` out. `withholds` marks those whose failure stops a status; the
rest are printed. G6 stands in `faults`, as it needs the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy import stats

from audit.statistics.contracts import UNREAD
from audit.statistics.paired import BoolArray, IntArray
from audit.validity.edits.record import Archetype, Family
from audit.validity.evidence import SURFACE, CellEvidence
from audit.validity.record import ValidityCell
from audit.validity.thresholds import ValidityThresholds
from audit.verdict.result import MAX_ITEMS, Gate, Status

_MOST = 0.5
_ORDER_ITEMS, _ORDER_Z = 20, 4.0  # items, and expected standard errors, from which an order can be told
_SMALLEST_EXPECTED = 1.0  # of a chi-square: below it the test is not made


def all_gates(cell: ValidityCell, e: CellEvidence, t: ValidityThresholds) -> tuple[Gate, ...]:
    """Every gate but G6, in the paper's order."""
    return tuple(check(cell, e, t) for check in CHECKS)


def edits_reach_scorer(cell: ValidityCell, e: CellEvidence, t: ValidityThresholds) -> Gate:
    """G1, first half: edits whose request has the hash of the original's tested nothing. number: the worst edit."""
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
        return _absent("G1_edits_reach_scorer", t.noop_share_max, _G1, "No edit was asked.")
    worst = max(shares, key=lambda name: shares[name])
    total = sum(int((b.asked & b.same).sum()) for b in cell.families.values())
    return _gate(
        "G1_edits_reach_scorer",
        shares[worst] < t.noop_share_max,
        shares[worst],
        t.noop_share_max,
        _G1,
        f"Of the requests under {worst}, {shares[worst]:.1%} are the very request of the original, the most of "
        f"{len(shares)} edits; {total} such rows are left out, and spare edits take their place.",
        "The edit does not reach what the scorer reads: edit what it reads, or take another (formats=[...]).",
        items=_ids(cell, hit),
        numbers=dict(shares),
    )


def enough_edits(cell: ValidityCell, e: CellEvidence, t: ValidityThresholds) -> Gate:
    """Edits that tested something, of those wanted, by family; of the attribute family items with at least one."""
    shares = {}
    for family in (*SURFACE, Family.ATTRIBUTE):
        tests = cell.used(family).tests
        wanted = 1 if family == Family.ATTRIBUTE else cell.wanted
        shares[family.value] = float(np.minimum(tests.sum(axis=0), wanted).mean() / wanted) if cell.n else 0.0
    worst = min(shares, key=lambda name: shares[name])
    return _gate(
        "G1_enough_edits",
        shares[worst] >= t.applicable_share_min,
        shares[worst],
        t.applicable_share_min,
        "conf/verdict: applicable_share_min; a family below it is withheld, and zeros are never averaged in",
        "Of the edits wanted, " + ", ".join(f"{f} has {share:.0%}" for f, share in shares.items()) + " that changed "
        "what the scorer reads.",
        "Give a library of paraphrases (variants=...), other format edits, or items that have a partner.",
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
    return _gate(
        "G1_answers_readable",
        shares[worst] >= t.parse_share_min and not fell,
        shares[worst],
        t.parse_share_min,
        "li2026, G1 (parseability at least .95), of every edit by itself; McNemar on readable; conf: parse_drop_alpha",
        f"{shares[worst]:.1%} of the answers to {worst} can be read, the fewest of {len(shares)}."
        + (f" The edit itself changes what can be read: {', '.join(fell[:3])}." if fell else "")
        + f" Were all unread answers wrong or right, the score of originals would be {least:.3f} or {best:.3f}.",
        "Read some unreadable replies. A change of answers under such an edit is a change of the reader.",
        items=_ids(cell, unread),
        numbers={**shares, "least_score": least, "best_score": best},
    )


def above_baseline(cell: ValidityCell, e: CellEvidence, t: ValidityThresholds) -> Gate:
    """G2: the original score beats the best rule that does not read the question (not only guessing)."""
    rule, baseline = e.baseline
    s = e.score.estimate
    n = max(e.score.n, 1)
    se = float(np.sqrt(max(s * (1 - s), baseline * (1 - baseline)) / n)) if np.isfinite(s) else float("nan")
    z = (s - baseline) / se if se > 0 else (float("inf") if s > baseline else 0.0)
    passed = bool(z >= t.baseline_standard_errors)
    return _gate(
        "G2_above_baseline",
        passed,
        z if np.isfinite(z) else 99.0,
        t.baseline_standard_errors,
        "li2026, G2, against the best answer-only rule of the notes in place of guessing alone",
        f"The score of {s:.3f} on originals is {'' if passed else 'not '}above {rule} ({baseline:.3f}) by "
        f"{t.baseline_standard_errors:g} standard errors; guessing gives {e.chance:.3f}.",
        "A model that does no better than a rule that never reads the question has no construct to be tested.",
        numbers={"score": s, "chance": e.chance, **e.shortcuts},
    )


def denominator(cell: ValidityCell, e: CellEvidence, t: ValidityThresholds) -> Gate:
    """G3: the ratio's denominator. It withholds the ratio and no status: ours rests on a difference."""
    found = [e.families[f].response_change for f in SURFACE if e.families[f].read]
    number = max((m.estimate for m in found), default=float("nan"))
    low = max((m.low for m in found), default=float("nan"))
    return _gate(
        "G3_denominator",
        bool(low >= t.denominator_min),
        low,
        t.denominator_min,
        "li2026, G3 (.02), here of the lower 95 % limit; conf/verdict: denominator_min",
        f"Surface edits change {number:.1%} of the responses (lower limit {low:.1%}): the ratio CSR is "
        f"{'reported' if low >= t.denominator_min else 'not reported, its denominator may be nothing'}.",
        "Nothing to mend: a model that surface edits leave alone has no ratio. The difference D stands.",
        withholds=False,
    )


def pairing(cell: ValidityCell, e: CellEvidence, t: ValidityThresholds) -> Gate:
    """G4 (F4): every edited row is of its own original: the same item text and key in all rows of an id."""
    return _gate(
        "G4_paired",
        not cell.mixed_up,
        float(len(cell.mixed_up)),
        0.0,
        "li2026, G4: item-level pairing; all edits of an item are resampled together, in whole clusters",
        f"In {cell.n - len(cell.mixed_up)} of {cell.n} items every row has the text and the key of its original; "
        f"{len(np.unique(cell.cluster))} clusters are resampled whole.",
        "Rows of different items share an id: a paired interval on them is wrong in a direction nobody knows.",
        items=tuple(cell.mixed_up),
    )


def agreement(cell: ValidityCell, e: CellEvidence, t: ValidityThresholds) -> Gate:
    """G4, by the answers: an invariant edit must agree with its own original more than with another item's.

    Rows that were permuted within a family keep their ids and show here. number: agreement over what is expected from
    how the family's edits agree among themselves; judged where that is clear.
    """
    name, source = "G4_order", "ours: Cohen's kappa with the item's own original, against half of what the edits share"
    before = cell.before
    found: list[tuple[float, float, Family]] = []
    for family in SURFACE:
        block = cell.used(family)
        rows = np.where(block.tests, block.response, UNREAD)
        known = (before != UNREAD) & (rows != UNREAD).all(axis=0)
        x, y = before[known], rows[:, known]
        if x.size < _ORDER_ITEMS or len(y) < 2:
            continue
        among = float(np.mean([kappa(y[i], y[j]) for i in range(len(y)) for j in range(i)]))
        if among * float(np.sqrt(x.size)) >= _ORDER_Z:
            found.append((float(np.mean([kappa(x, row) for row in y])), among, family))
    if not found:
        return _absent(name, 0.5, source, "Too few items, or edits that agree too little among themselves, to tell.")
    own, among, family = min(found, key=lambda one: one[0] / one[1])
    return _gate(
        name,
        own >= among / 2,
        own / among,
        0.5,
        source,
        f"Responses to the {family} edits agree with those to the originals of the same items by a kappa of {own:.2f}, "
        f"and among themselves by {among:.2f}.",
        "The edited rows seem to belong to other items than the originals: compare one id in both.",
        numbers={"kappa": own, "kappa_among_edits": among},
    )


def scorer_valid(cell: ValidityCell, e: CellEvidence, t: ValidityThresholds) -> Gate:
    """What validates the scorer, and its own self-test on these items (F3a: orientation). Before G2 in our order."""
    facts = cell.scorer
    test = facts["self_test"]
    passed = bool(facts["validated"]) and bool(test["passed"])
    evidence = " ".join(facts["evidence"])
    if not test["passed"]:
        detail = f"The scorer fails its self-test: {'; '.join(test['faults'])}."
    else:
        detail = f"Oracle, anti-oracle, constant and blind answers score as they must. {evidence}"
    return _gate(
        "scorer_valid",
        passed,
        float(passed),
        1.0,
        f"{facts['name']}: {facts['reference_of']}",
        detail,
        "Label 100 or more replies of this family of models by hand (kappa of at least .8, at most 10 % missed), or "
        "take a scorer that is validated.",
    )


def key_position(cell: ValidityCell, e: CellEvidence, t: ValidityThresholds) -> Gate:
    """F3b: the key must not stand at one place, where options are shown. Chi-square over positions."""
    name, source = "F3b_key_position", "chi-square of the key's shown position; conf/verdict: position_alpha"
    if not cell.scorer["lettered"]:
        return _absent(name, t.position_alpha, source, "The options are not shown, so that they have no positions.")
    places = cell.original.key_position[0]
    places = places[places >= 0]
    options = np.maximum(1, np.round(1 / cell.chance)).astype(int)[: places.size]
    positions = int(options.max()) if options.size else 0
    expected = np.array([np.sum((options > k) / options) for k in range(positions)])
    observed = np.bincount(places, minlength=positions)[:positions].astype(float)
    keep = expected >= _SMALLEST_EXPECTED
    if keep.sum() < 2:
        return _absent(name, t.position_alpha, source, "Too few items to tell.")
    chi = float(np.sum((observed[keep] - expected[keep]) ** 2 / expected[keep]))
    p = float(stats.chi2.sf(chi, int(keep.sum()) - 1))
    return _gate(
        name,
        p > t.position_alpha,
        p,
        t.position_alpha,
        source,
        f"The key stands first in {observed[0]:.0f} of {places.size} originals; {expected[0]:.0f} is due (p={p:.2g}).",
        "Shuffle the options per item: whoever says the first option is scored right otherwise.",
        numbers={f"position_{k}": float(x) for k, x in enumerate(observed)},
    )


def label_values(cell: ValidityCell, e: CellEvidence, t: ValidityThresholds) -> Gate:
    """F3c: labels without probability, ties and infinities. number: mean mass, or the share of such rows."""
    name, source = "F3c_label_values", "li2026, F3c: targets outside what was asked for; conf/verdict: label_mass_min"
    blocks = [cell.original, *cell.families.values()]
    odd = sum(int(np.isin(b.why[b.asked].astype(str), ("tied", "not finite", "no mass")).sum()) for b in blocks)
    asked = sum(int(b.asked.sum()) for b in blocks)
    share = odd / asked if asked else 0.0
    mass = float(cell.mass.mean()) if cell.mass.size else None
    low = float(np.quantile(cell.mass, 0.05)) if cell.mass.size else None
    passed = share <= 1 - t.parse_share_min and (mass is None or mass >= t.label_mass_min)
    said = (
        "" if mass is None else f" The labels hold {mass:.3f} of the probability on average (5th percentile {low:.3f})."
    )
    return _gate(
        name,
        passed,
        share if mass is None else mass,
        1 - t.parse_share_min if mass is None else t.label_mass_min,
        source,
        f"{odd} of {asked} answers are tied or not finite; none of them was given to the first option.{said}",
        "Ask for every spelling of a label by its token ids, at any rank.",
        numbers={"mass": mass, "mass_5th_percentile": low, "tied_or_not_finite": share},
    )


def exact_values(cell: ValidityCell, e: CellEvidence, t: ValidityThresholds) -> Gate:
    """F3c: every surface change exactly 0 while attribute edits move answers, or a change of exactly 1. An alarm."""
    found = []
    reads = {f: e.families[f] for f in (*SURFACE, Family.ATTRIBUTE) if e.families[f].read >= 20}
    surface = [reads[f].response_change.estimate for f in SURFACE if f in reads]
    responses = np.concatenate([cell.before, *(b.response[b.tests] for b in cell.families.values())])
    known = responses[responses != UNREAD]
    if known.size >= 20 and np.unique(known).size == 1:
        found.append("one and the same response to everything")
    if surface and max(surface) == 0 and Family.ATTRIBUTE in reads:
        found.append("not one response differs under any surface edit")
    attribute = reads.get(Family.ATTRIBUTE)
    if attribute is not None and attribute.score_change == 1.0:
        found.append("the score changes under every attribute edit")
    constant = found[:1] == ["one and the same response to everything"]
    return Gate(
        name="F3c_exact_values",
        status=Status.FAIL if found else Status.PASS,
        number=float(len(found)),
        threshold=0.0,
        source="li2026, F3c and its Table 6: changes of exactly 0 and exactly 1 made the ratio",
        detail=f"Found: {'; '.join(found)}." if found else "No change is exactly 0 or 1 where answers were many.",
        advice="Look at the raw values: such figures usually come from values that were not read." if found else "",
        withholds=constant,
    )


def archetype(cell: ValidityCell, e: CellEvidence, t: ValidityThresholds) -> Gate:
    """G5: what attribute edits should do in this context, from contracts that were declared before the run."""
    name, source = "G5_archetype", "li2026, G5; contracts as declared in audit.validity.edits"
    if e.archetype is None:
        return _absent(name, 1.0, source, "No attribute edit was asked, so that no archetype can be named.")
    tests = cell.used(Family.ATTRIBUTE)
    directional = int((tests.tests & tests.directional).sum())
    total = int(tests.tests.sum())
    why = {
        Archetype.DIAGNOSTIC: "every attribute edit moves the key: a model that has the construct must follow",
        Archetype.INVARIANCE: "no attribute edit moves the key: a model that has the construct must not react",
        Archetype.MIXED: "some attribute edits move the key and some do not: no one number means anything",
    }[e.archetype]
    return _gate(
        name,
        e.archetype != Archetype.MIXED,
        directional / total if total else 0.0,
        1.0,
        source,
        f"{e.archetype.upper()}: {why} ({directional} of {total} directional).",
        "Split the benchmark by the condition that decides the contract.",
    )


def direction(cell: ValidityCell, e: CellEvidence, t: ValidityThresholds) -> Gate:
    """F5: where nearly every wrong answer turns right under an edit, the key moved and the answers did not."""
    name, source = (
        "F5_direction",
        "notes, section 6: wrong to right of .9 or more of the wrong; conf: wrong_to_right_max",
    )
    family = e.families[Family.ATTRIBUTE]
    moves = family.transitions
    wrong = moves.wrong_right + moves.wrong_wrong
    if wrong < 5:
        return _absent(
            name, t.wrong_to_right_max, source, "Fewer than five answers were wrong before: nothing to tell."
        )
    share = moves.wrong_to_right_share
    block = cell.used(Family.ATTRIBUTE)
    turned = block.tests & (cell.score_before == 0) & (block.scores == 1)
    still = float((block.response == cell.before)[turned].mean()) if turned.any() else 0.0
    return _gate(
        name,
        share < t.wrong_to_right_max or still < _MOST,
        share,
        t.wrong_to_right_max,
        source,
        f"Of {wrong} answers that were wrong before, {share:.1%} are right after an attribute edit, and {still:.1%} of "
        "these did not move: there the key came to the answer.",
        "A key that moves onto answers that stayed makes the score change: read the responses, not the scores.",
        numbers={"right_right": moves.right_right, "right_wrong": moves.right_wrong, "wrong_right": moves.wrong_right,
                 "wrong_wrong": moves.wrong_wrong, "unread": moves.unread, "did_not_move": still},
    )  # fmt: skip


def replays(cell: ValidityCell, e: CellEvidence, t: ValidityThresholds) -> Gate:
    """The noise floor: the very request of the original again."""
    name, source = "noise_floor", "ours: identity replays; conf/verdict: replay_change_max"
    if e.replay is None or not e.replay.n:
        return _absent(name, t.replay_change_max, source, "The original was asked once: there is no noise floor.")
    return _gate(
        name,
        e.replay.estimate <= t.replay_change_max,
        e.replay.estimate,
        t.replay_change_max,
        source,
        f"Sent again, the very same request changes {e.replay.estimate:.1%} of the responses.",
        "Answers change by themselves: lower the temperature, or look for batching that changes logprobs.",
    )


Check = Callable[[ValidityCell, CellEvidence, ValidityThresholds], Gate]
CHECKS: tuple[Check, ...] = (
    edits_reach_scorer, enough_edits, answers_readable, scorer_valid, key_position, label_values, exact_values,
    above_baseline, denominator, pairing, agreement, archetype, direction, replays,
)  # fmt: skip
_G1 = "li2026, G1: silent no-ops below 20 %, on the hash of the token ids that the scorer consumed"


def failed(gates: Sequence[Gate]) -> list[Gate]:
    """Those that withhold and do not pass."""
    return [g for g in gates if g.status == Status.FAIL and g.withholds]


def kappa(a: IntArray, b: IntArray) -> float:
    """Agreement of two rows of responses beyond chance (Cohen 1960); 0 where both are one and the same constant."""
    values = np.unique(np.concatenate([a, b]))
    chance = float(sum(np.mean(a == v) * np.mean(b == v) for v in values))
    return 0.0 if chance >= 1 else (float(np.mean(a == b)) - chance) / (1 - chance)


def named(gates: Sequence[Gate], name: str) -> Gate | None:
    return next((g for g in gates if g.name == name), None)


def _mcnemar(before: BoolArray, after: BoolArray) -> float:
    lost, won = int(np.sum(before & ~after)), int(np.sum(~before & after))
    return float(stats.binomtest(lost, lost + won).pvalue) if lost + won else 1.0


def _bounds(cell: ValidityCell) -> tuple[float, float]:
    """Score of originals were every unread answer right, and were every one wrong."""
    s = cell.score_before
    return float(np.nan_to_num(s, nan=1.0).mean()), float(np.nan_to_num(s, nan=0.0).mean())


def _ids(cell: ValidityCell, mask: BoolArray) -> tuple[str, ...]:
    return tuple(q for q, hit in zip(cell.question_ids, mask, strict=True) if hit)


def _gate(
    name: str,
    passed: bool,
    number: float,
    threshold: float,
    source: str,
    detail: str,
    advice: str,
    *,
    withholds: bool = True,
    items: tuple[str, ...] = (),
    numbers: dict[str, float | None] | dict[str, float] | None = None,
) -> Gate:
    passed = bool(passed)
    shown = () if passed else tuple(sorted(items))
    return Gate(
        name=name,
        status=Status.PASS if passed else Status.FAIL,
        number=float(number),
        threshold=float(threshold),
        source=source,
        detail=detail,
        advice="" if passed else advice,
        withholds=withholds,
        items=shown[:MAX_ITEMS],
        item_count=len(shown),
        numbers=dict(numbers or {}),
    )


def _absent(name: str, threshold: float, source: str, detail: str) -> Gate:
    return Gate(name, Status.NOT_APPLICABLE, None, float(threshold), source, detail)
