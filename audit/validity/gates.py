"""Check the measurement of a validity audit: G1 to G6 of li2026, and further gates.

A gate is the result of a check, which is a function of the cell and its evidence. If a gate with
`withholds` fails, no conclusion is drawn for the cell. The results of all other gates are only
shown. G6 is in `audit.validity.faults`, because it tests the other gates.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations
from typing import Literal

import numpy as np
import scipy

from audit.core.number_text import interval, percent, pvalue, signed_points
from audit.judging import result
from audit.judging.result import Gate, ids_where
from audit.statistics.contracts import UNREAD, response_changes
from audit.statistics.mcnemar import mcnemar_exact
from audit.statistics.paired import BoolArray, IntArray
from audit.validity.design import ValidityThresholds as Limits
from audit.validity.edits.record import Archetype, Family
from audit.validity.evidence import SURFACE, Evidence, changes
from audit.validity.record import Block, Cell

# A gate that passes also lists the items from which its number is computed.
Rule = partial(result.Rule, always_items=True)


def ids(cell: Cell, mask: BoolArray) -> tuple[str, ...]:
    """Return the ids of the items that a mask selects.

    Parameters
    ----------
    cell : Cell
        The cell.
    mask : (n,) array of bool
        The items.

    Returns
    -------
    tuple of str
        The ids.
    """
    return ids_where(cell.question_ids, mask)


# The order of rows is tested only if there are this many items, and if the kappa between edits is
# this many standard errors above 0.
_ORDER_ITEMS, _ORDER_Z = 20, 4.0
_SMALLEST_EXPECTED = 1.0  # least expected count for the chi-square test
EXACT_FROM = 20  # With this many answers or more, a change of exactly 0 is suspicious.
TIED = "Some options are tied in likelihood. Run with higher precision: dtype=float32."
# Answers count as fitting the keys of their items if the kappa is this many standard errors above
# 0.
_RIGHT_Z = 3.0


def pairing(cell: Cell, e: Evidence, t: Limits) -> Gate:
    """Check G4 (fault F4): every edited row must belong to its original.

    Parameters
    ----------
    cell : Cell
        The answers.
    e : Evidence
        The statistics.
    t : ValidityThresholds
        The thresholds.

    Returns
    -------
    Gate
        The gate, which passes if all rows of an id have the same item text and key.
    """
    source = (
        "li2026, G4: items are paired; all edits of an item are resampled together, in whole "
        "clusters"
    )
    return Rule("G4_paired", 0.0, source).checked(
        not cell.mixed_up,
        float(len(cell.mixed_up)),
        f"In {cell.n - len(cell.mixed_up)} of {cell.n} items, every row has the text and the key of its original. "
        f"Resampling keeps each of the {len(np.unique(cell.cluster))} clusters whole.",
        "Rows of different items share an id. Give every item a different id.",
        items=tuple(cell.mixed_up),
    )


def context(cell: Cell, e: Evidence, t: Limits) -> Gate:
    """Check F10: a repeated original must be the same request, without other items in its context.

    Parameters
    ----------
    cell, e, t : object
        The answers, the statistics and the thresholds, as in `pairing`.

    Returns
    -------
    Gate
        The gate, which passes if every replay sends the same request as the first replay.
    """
    rule = Rule(
        "F10_context",
        0.0,
        "li2026, F10; ours: the hashes of the first request and of its replays",
    )
    if len(cell.original.response) < 2:
        return rule.absent("The original was sent once.")
    return rule.checked(
        not cell.other_context,
        float(len(cell.other_context)),
        f"In {cell.n - len(cell.other_context)} of {cell.n} items, the repeated original is the "
        "same request. Token ids are compared if the engine returns them. Otherwise texts are "
        "compared, which lack any text that an endpoint adds.",
        "The context holds other text. Send each request alone, without a conversation before it.",
        items=tuple(cell.other_context),
    )


def agreement(cell: Cell, e: Evidence, t: Limits) -> Gate:
    """Check by the answers that every edited row belongs to its original (G4).

    The answer to a surface edit must agree with the answer to its own original more than with the
    answers to other items.

    Parameters
    ----------
    cell, e, t : object
        The answers, the statistics and the thresholds, as in `pairing`.

    Returns
    -------
    Gate
        The gate. Its value is the agreement (kappa) of a family's edits with the originals, divided
        by the agreement of the edits with each other. The value is judged only if the edits of the
        family agree clearly with each other.

    Notes
    -----
    If the answers of a family were permuted among the items, the ids still look right, and only
    this check finds the fault. The value can also be small if a model has memorised the originals.
    But then its answers to the edits still fit the keys of their items better than chance.
    """
    source = (
        "ours: Cohen's kappa with the item's original, against half of that between edits, or "
        "kappa with the key"
    )
    rule = Rule("G4_order", 0.5, source)
    agreeing = families_that_tell(cell)
    if not agreeing:
        return rule.absent(
            "There are too few items, or the edits agree too little with each other, for this "
            "check."
        )
    family = min(agreeing, key=lambda family: agreeing[family][0] / agreeing[family][1])
    kappa, among = agreeing[family]
    silent = ", ".join(str(family) for family in SURFACE if family not in agreeing)
    unchecked = f" Edits of {silent} agree too little with each other for this check."
    if not silent:
        unchecked = ""
    block = cell.used(family)
    read = block.tests & (block.response != UNREAD) & (cell.before != UNREAD)
    away = read.any(axis=0) & ~(read & (block.response == cell.before)).any(axis=0)
    right, error = _with_key(cell, family)
    return rule.checked(
        kappa >= among / 2 or right >= _RIGHT_Z * error,
        kappa / among,
        f"Answers to {family} edits have a kappa of {kappa:.2f} with the answers to their "
        f"originals, {among:.2f} with each other, and {right:.2f} with the keys of their "
        f"items.{unchecked}",
        "The edited rows seem to belong to other items than the originals. Compare the rows of one "
        "id.",
        items=ids(cell, away),
        numbers={"kappa": kappa, "kappa_among_edits": among, "kappa_with_key": right},
    )


def _with_key(cell: Cell, family: Family) -> tuple[float, float]:
    """Return the mean agreement (kappa) of a family's answers with the keys of the edits, and its
    standard error.

    The standard error is that under the null hypothesis that the answers belong to other items.
    """
    block = cell.used(family)
    read = (block.tests & (block.response != UNREAD)).all(axis=0)
    each = [kappa(key[read], row[read]) for key, row in zip(block.key, block.response, strict=True)]
    return float(np.mean(each)), float(1 / np.sqrt(read.sum()))


def families_that_tell(cell: Cell) -> dict[Family, tuple[float, float]]:
    """Return the surface families whose edits agree clearly with each other.

    Parameters
    ----------
    cell : Cell
        The answers.

    Returns
    -------
    dict of Family to (float, float)
        Maps each of these families to two numbers: the mean kappa of its edits with the originals,
        and the mean kappa of its edits with each other.
    """
    before = cell.before
    agreeing = {}
    for family in SURFACE:
        block = cell.used(family)
        rows = np.where(block.tests, block.response, UNREAD)
        # An item counts only if all of its edits are parsed.
        read = (rows != UNREAD).all(axis=0)
        both, y = read & (before != UNREAD), rows[:, read]
        if both.sum() < _ORDER_ITEMS or len(y) < 2:
            continue
        among = float(np.mean([kappa(a, b) for a, b in combinations(y, 2)]))
        if among * float(np.sqrt(read.sum())) >= _ORDER_Z:
            with_originals = np.mean([kappa(before[both], row[both]) for row in rows])
            agreeing[family] = float(with_originals), among
    return agreeing


def kappa(a: IntArray, b: IntArray) -> float:
    """Return Cohen's kappa, the agreement of two rows of responses beyond chance (Cohen 1960).

    Parameters
    ----------
    a, b : array of int
        Responses.

    Returns
    -------
    float
        The kappa. It is 0 if all responses of both rows are the same.
    """
    chance = 0.0
    for value in np.unique(np.concatenate([a, b])):
        chance += float(np.mean(a == value) * np.mean(b == value))
    return 0.0 if chance >= 1 else (float(np.mean(a == b)) - chance) / (1 - chance)


def scorer_valid(cell: Cell, e: Evidence, t: Limits) -> Gate:
    """Check the evidence for the scorer, and its self-test on these items (F3a: an inverted scale).

    In the paper this gate comes after G2; in this program it comes before G2.

    Parameters
    ----------
    cell, e, t : object
        The answers, the statistics and the thresholds, as in `pairing`.

    Returns
    -------
    Gate
        The gate, which passes if the scorer is validated and its self-test passes.
    """
    facts = cell.scorer
    test = facts["self_test"]
    passed = bool(facts["validated"] and test["passed"])
    detail = f"The scorer fails its self-test: {'; '.join(test['faults'])}."
    if test["passed"]:
        evidence = " ".join(facts["evidence"])
        detail = (
            "Right, wrong, constant and blind answers get the scores that they must get. "
            f"{evidence}"
        )
    detail += " This gate names no items, since scripted answers to all items test the scorer."
    return Rule("scorer_valid", 1.0, f"{facts['name']}: {facts['reference_of']}").checked(
        passed,
        float(passed),
        detail,
        "Label 100 or more replies of this family of models by hand (kappa of at least .8, at most "
        "10 % missed), or choose a validated scorer.",
    )


def key_position(cell: Cell, e: Evidence, t: Limits) -> Gate:
    """Check F3b: if options are shown, the key must be at every position about equally often.

    Parameters
    ----------
    cell, e, t : object
        The answers, the statistics and the thresholds, as in `pairing`.

    Returns
    -------
    Gate
        The gate. Its value is the p-value of a chi-square test of the null hypothesis that all
        positions are equally frequent.
    """
    source = "chi-square of the key's shown position; conf/verdict: position_alpha"
    rule = Rule("F3b_key_position", t.position_alpha, source)
    if not cell.scorer["lettered"]:
        return rule.absent("The options are not shown, so they have no positions.")
    options = np.maximum(1, np.round(1 / cell.chance)).astype(int)
    positions = int(options.max())
    expected = np.array([np.sum((options > k) / options) for k in range(positions)])
    observed = np.bincount(cell.key_position, minlength=positions)[:positions].astype(float)
    keep = expected >= _SMALLEST_EXPECTED
    if keep.sum() < 2:
        return rule.absent("There are too few items for this test.")
    chi = float(np.sum((observed[keep] - expected[keep]) ** 2 / expected[keep]))
    p = float(scipy.stats.chi2.sf(chi, int(keep.sum()) - 1))
    most = int(np.argmax(np.where(keep, observed - expected, -np.inf)))
    return rule.checked(
        p > t.position_alpha,
        p,
        f"The key is first in {observed[0]:.0f} of {cell.n} originals; {expected[0]:.0f} are expected ({pvalue(p)}).",
        "Shuffle the options of each item. Otherwise the same position is always right.",
        items=ids(cell, cell.key_position == most),
        numbers={f"position_{k}": float(x) for k, x in enumerate(observed)},
    )


def label_values(cell: Cell, e: Evidence, t: Limits) -> Gate:
    """Check F3c: the scored labels must have enough total probability, and values must not be tied
    or infinite.

    Parameters
    ----------
    cell, e, t : object
        The answers, the statistics and the thresholds, as in `pairing`.

    Returns
    -------
    Gate
        The gate. Its value is the mean total probability of the labels, or the share of rows with
        tied or infinite values.
    """
    source = "li2026, F3c: labels that the prompt does not ask for; conf/verdict: label_mass_min"
    blocks = [cell.original, *cell.families.values()]
    requested = np.concatenate([block.requested for block in blocks])
    why = np.concatenate([block.why for block in blocks]).astype(str)
    odd_rows = requested & np.isin(why, ("tied", "not finite", "no mass"))
    odd, total = int(odd_rows.sum()), int(requested.sum())
    share = odd / max(total, 1)
    passed, number, limit = share <= 1 - t.parse_share_min, share, 1 - t.parse_share_min
    mass_text, advice = "", TIED
    mass = low = None
    if cell.mass.size:
        mass, low = float(cell.mass.mean()), float(np.quantile(cell.mass, 0.05))
        passed, number, limit = passed and mass >= t.label_mass_min, mass, t.label_mass_min
        mass_text = (
            f" The labels have {percent(mass)} of the probability on average (5th percentile "
            f"{percent(low)})."
        )
        advice = "Request every spelling of a label by its token ids, at any rank."
    return Rule("F3c_label_values", limit, source).checked(
        passed,
        number,
        f"{odd} of {total} answers are tied or not finite. They count as unparsed.{mass_text}",
        advice,
        items=ids(cell, np.any(odd_rows, axis=0)),
        numbers={"mass": mass, "mass_5th_percentile": low, "tied_or_not_finite": share},
    )


def exact_values(cell: Cell, e: Evidence, t: Limits) -> Gate:
    """Check F3c: changes of exactly 0 or exactly 1 suggest that data were not read.

    This gate is a warning, except in one case (see Returns).

    Parameters
    ----------
    cell, e, t : object
        The answers, the statistics and the thresholds, as in `pairing`.

    Returns
    -------
    Gate
        The gate, which fails if all responses are the same, if no surface edit changes any answer,
        or if edits of the content change the mean score by exactly 1. Only the first of these three
        conditions withholds the status.
    """
    exact, surface = [], []
    for family in SURFACE:
        if e.families[family].read >= EXACT_FROM:
            surface.append(e.families[family].response_change.estimate)
    attribute = e.families[Family.ATTRIBUTE]
    many_attribute = attribute.read >= EXACT_FROM
    responses = np.concatenate(
        [cell.before, *(b.response[b.tests] for b in cell.families.values())]
    )
    known = responses[responses != UNREAD]
    if known.size >= EXACT_FROM and np.unique(known).size == 1:
        exact.append("all responses are the same")
    if surface and max(surface) == 0 and many_attribute:
        exact.append("no answer differs under any edit of layout or wording")
    if many_attribute and attribute.score_change == 1.0:
        exact.append("the score changes under every edit of the content")
    statement = "No change over many answers is exactly 0 or 1."
    if exact:
        statement = f"Suspicious values: {'; '.join(exact)}."
    source = "li2026, F3c and Table 6: the ratio came from changes of exactly 0 and exactly 1"
    return Rule("F3c_exact_values", 0.0, source).checked(
        not exact,
        len(exact),
        f"{statement} This gate names no items, since it reads totals.",
        "Look at the raw values. Such numbers usually come from values that were not read.",
        withholds=exact[:1] == ["all responses are the same"],
    )


def _each_edit(
    cell: Cell, part: Literal["requested", "tests"]
) -> Iterator[tuple[str, Block, BoolArray]]:
    """Yield the name, block and rows of every edit, except spare edits, which have few items."""
    for family, block in cell.families.items():
        present = getattr(block, part)
        for name in sorted(set(map(str, block.name[present]))):
            here = present & (block.name == name)
            if here.sum() >= max(1, cell.n // 20):
                yield f"{family} {name}", block, here


def edits_reach_scorer(cell: Cell, e: Evidence, t: Limits) -> Gate:
    """Check the first half of G1: edits must change the request (its hash).

    Parameters
    ----------
    cell, e, t : object
        The answers, the statistics and the thresholds, as in `pairing`.

    Returns
    -------
    Gate
        The gate. Its value is the share of requests that equal the original's request, for the edit
        with the largest share.
    """
    source = (
        "li2026, G1: less than 20 % silent no-ops, by the hash of the token ids that the scorer "
        "read"
    )
    rule = Rule("G1_edits_reach_scorer", t.noop_share_max, source)
    shares: dict[str, float] = {}
    hit = np.zeros(cell.n, dtype=bool)
    for name, block, here in _each_edit(cell, "requested"):
        same = here & block.same
        shares[name] = float(same.sum() / here.sum())
        hit |= same.any(axis=0)
    if not shares:
        return rule.absent("No edit was sent.")
    worst = max(shares, key=lambda name: shares[name])
    total = sum(int((b.requested & b.same).sum()) for b in cell.families.values())
    return rule.checked(
        shares[worst] < t.noop_share_max,
        shares[worst],
        f"Under {worst}, {percent(shares[worst])} of the requests equal the original's, the "
        f"largest share of {len(shares)} edits. Spare edits replace {total} such rows.",
        "Choose an edit that changes what the scorer reads ('formats=[...]').",
        items=ids(cell, hit),
        numbers=dict(shares),
    )


def enough_edits(cell: Cell, e: Evidence, t: Limits) -> Gate:
    """Check that enough edits of each family changed what the scorer reads.

    Parameters
    ----------
    cell, e, t : object
        The answers, the statistics and the thresholds, as in `pairing`.

    Returns
    -------
    Gate
        The gate. Its value is the share of the planned edits that could be made, in the family with
        the smallest share. For attribute edits, the share is that of items with an edit.
    """
    shares = {}
    short = np.zeros(cell.n, dtype=bool)
    for family in (*SURFACE, Family.ATTRIBUTE):
        tested = cell.used(family).tests.sum(axis=0)
        wanted = 1 if family == Family.ATTRIBUTE else cell.wanted
        shares[family.value] = float(np.minimum(tested, wanted).mean() / wanted)
        short |= tested < wanted
    worst = min(shares, key=lambda name: shares[name])
    source = (
        "conf/verdict: applicable_share_min; a family with fewer edits is withheld, and missing "
        "edits never count as 0"
    )
    return Rule("G1_enough_edits", t.applicable_share_min, source).checked(
        shares[worst] >= t.applicable_share_min,
        shares[worst],
        "Share of the wanted edits that changed what the scorer reads: "
        + ", ".join(f"{f} {percent(share)}" for f, share in shares.items())
        + ".",
        "Add a library of paraphrases (variants=...), other format edits, or items that have a "
        "partner.",
        items=ids(cell, short),
        numbers=dict(shares),
    )


def answers_readable(cell: Cell, e: Evidence, t: Limits) -> Gate:
    """Check the second half of G1 (F2): enough answers must be parsed, and equally many under every
    edit.

    Parameters
    ----------
    cell, e, t : object
        The answers, the statistics and the thresholds, as in `pairing`.

    Returns
    -------
    Gate
        The gate. Its value is the share of parsed answers, for the edit with the smallest share.
    """
    read_before = cell.before != UNREAD
    shares, sizes = {"original": float(read_before.mean())}, {"original": read_before.size}
    pvalues: dict[str, float] = {}
    unread = ~read_before
    for name, block, here in _each_edit(cell, "tests"):
        read = block.response != UNREAD
        before, after = np.broadcast_to(read_before, here.shape)[here], read[here]
        shares[name], sizes[name] = float(after.mean()), after.size
        pvalues[name] = float(
            mcnemar_exact(np.sum(before & ~after), np.sum(~before & after), two_sided=True)
        )
        unread = unread | (here & ~read).any(axis=0)
    worst = min(shares, key=lambda name: shares[name])
    fell = [name for name, p in pvalues.items() if p < t.parse_drop_alpha]
    least = float(np.nan_to_num(cell.score_before, nan=0.0).mean())
    best = float(np.nan_to_num(cell.score_before, nan=1.0).mean())
    why = _why_unread(cell)
    counts = [f"{n} {name}" for name, n in why.items()]
    source = (
        "li2026, G1 (parseability at least .95), for each edit; McNemar's test of readable "
        "answers; conf: parse_drop_alpha"
    )
    return Rule("G1_answers_readable", t.parse_share_min, source).checked(
        shares[worst] >= t.parse_share_min and not fell,
        shares[worst],
        f"{percent(shares[worst])} of the {sizes[worst]:,} answers to {worst} can be read, "
        f"the smallest of {len(shares)} shares (original and edits)."
        + (f" The edit itself changes what can be read: {', '.join(fell[:3])}." if fell else "")
        + (f" Unparsed answers, by reason: {', '.join(counts)}." if why else "")
        + f" The score of originals is {percent(least)}"
        + (f" to {percent(best)}, depending on the unparsed answers." if best > least else "."),
        "Look at some unparsed replies. Until they can be read, nothing follows about the model."
        + (f" {TIED}" if "tied" in why else ""),
        items=ids(cell, unread),
        numbers={
            **shares,
            "least_score": least,
            "best_score": best,
            **{f"unread: {name}": float(n) for name, n in why.items()},
        },
    )


def _why_unread(cell: Cell) -> dict[str, int]:
    """Return the number of unparsed answers by reason."""
    reasons: Counter[str] = Counter()
    for block in (cell.original, *cell.families.values()):
        unparsed = block.why[block.requested & (block.response == UNREAD)]
        reasons.update(map(str, unparsed))
    return {reason or "no reason given": reasons[reason] for reason in sorted(reasons)}


def archetype(cell: Cell, e: Evidence, t: Limits) -> Gate:
    """Check G5: all attribute edits of a context must have the same contract, declared before the
    run.

    Parameters
    ----------
    cell, e, t : object
        The answers, the statistics and the thresholds, as in `pairing`.

    Returns
    -------
    Gate
        The gate, which fails if some attribute edits should move the answer and others should not.
    """
    rule = Rule("G5_archetype", 1.0, "li2026, G5; contracts as declared in audit.validity.edits")
    if e.archetype is None:
        return rule.absent("No edit of the content was sent, so its contract is unknown.")
    tests = cell.used(Family.ATTRIBUTE)
    directional = int((tests.tests & tests.directional).sum())
    total = int(tests.tests.sum())
    # The items of the rarer contract are listed.
    few = tests.tests & (tests.directional == (2 * directional < total))
    why = {
        Archetype.DIAGNOSTIC: "Every edit of the content changes the right answer: answers must follow",
        Archetype.INVARIANCE: "No edit of the content changes the right answer: answers must stay",
        Archetype.MIXED: "Some edits of the content change the right answer and some do not, so a "
        "single number has no meaning",
    }[e.archetype]
    return rule.checked(
        e.archetype != Archetype.MIXED,
        directional / total,
        f"{why} ({directional} of {total} change it)."
        + ("" if few.any() else " No items are listed, since all edits have the same contract."),
        "Split the benchmark by the condition that decides whether an edit changes the right answer.",
        items=ids(cell, few.any(axis=0)),
    )


def isolation(cell: Cell, e: Evidence, t: Limits) -> Gate:
    """Check F6: edits of the content should move more answers than neutral words do.

    This gate is only a warning, and applies only if the edits move the key. An item gets as many
    neutral words as its edits change.

    Parameters
    ----------
    cell, e, t : object
        The answers, the statistics and the thresholds, as in `pairing`.

    Returns
    -------
    Gate
        The gate. Its value is the lower confidence limit of the difference between the two shares
        of moved answers.
    """
    rule = Rule(
        "F6_isolation",
        0.0,
        "li2026, F6 and App. F (E6, placebo specificity); here a difference above 0",
    )
    if e.archetype != Archetype.DIAGNOSTIC or e.placebo is None:
        return rule.absent("The run has no placebo, or the content should not move answers.")
    return rule.checked(
        e.placebo.low > 0,
        e.placebo.low,
        f"Edits of the content move {signed_points(e.placebo.estimate)} of the answers more than "
        f"neutral words of the same number ({interval(e.placebo.low, e.placebo.high)}).",
        "Any change of that size moves answers, so edits of the content do not show the effect of "
        "content.",
        withholds=False,
    )


def direction(cell: Cell, e: Evidence, t: Limits) -> Gate:
    """Check F5: wrong answers must not become right merely because an edit moves the key to them.

    Parameters
    ----------
    cell, e, t : object
        The answers, the statistics and the thresholds, as in `pairing`.

    Returns
    -------
    Gate
        The gate, which fails if nearly every wrong answer becomes right under an edit although the
        answers do not change.

    Notes
    -----
    With two options, every wrong answer that does not change becomes right if the key moves. So the
    gate fails only if most answers, right and wrong, did not change.
    """
    source = (
        "notes, section 6: .9 or more of the wrong answers become right; conf: wrong_to_right_max"
    )
    rule = Rule("F5_direction", t.wrong_to_right_max, source)
    family = e.families[Family.ATTRIBUTE]
    moves = family.transitions
    wrong = moves.wrong_right + moves.wrong_wrong
    if wrong < 5:
        return rule.absent("Fewer than five answers were wrong before, too few for this check.")
    share = moves.wrong_to_right_share
    block = cell.used(Family.ATTRIBUTE)
    turned = block.tests & (cell.score_before == 0) & (block.scores == 1)
    still = float((block.response == cell.before)[turned].mean()) if turned.any() else 0.0
    stayed = 1 - float(np.nanmean(changes(cell, block)))
    return rule.checked(
        share < t.wrong_to_right_max or min(still, stayed) < 0.5,
        share,
        f"Of {wrong} answers that were wrong before, {percent(share)} are right after an edit of "
        f"the content. Of these answers, {percent(still)} did not move, so the key moved to "
        f"the answer. Of all answers, {percent(stayed)} did not move.",
        "The score changes because the key moved to answers that stayed. Read the responses, not "
        "the scores.",
        items=ids(cell, (turned & (block.response == cell.before)).any(axis=0)),
        numbers={
            "right_right": moves.right_right,
            "right_wrong": moves.right_wrong,
            "wrong_right": moves.wrong_right,
            "wrong_wrong": moves.wrong_wrong,
            "unread": moves.unread,
            "did_not_move": still,
        },
    )


def above_baseline(cell: Cell, e: Evidence, t: Limits) -> Gate:
    """Check G2: the score on originals must exceed the score of the best rule that does not read
    the question.

    Parameters
    ----------
    cell, e, t : object
        The answers, the statistics and the thresholds, as in `pairing`.

    Returns
    -------
    Gate
        The gate. Its value is the score of the model minus the score of the best rule, in standard
        errors.
    """
    rule, baseline = e.baseline
    s = e.score.estimate
    n = max(e.score.n, 1)
    se = float("nan")
    if np.isfinite(s):
        se = float(np.sqrt(max(s * (1 - s), baseline * (1 - baseline)) / n))
    # If clusters have several items, the clustered standard error is larger.
    se = float(np.fmax(se, e.score.se))
    z = float("inf") if s > baseline else 0.0
    if se > 0:
        z = (s - baseline) / se
    passed = bool(z >= t.baseline_standard_errors)
    source = (
        "li2026, G2, with the best answer-only rule of the notes as baseline, not only guessing"
    )
    return Rule("G2_above_baseline", t.baseline_standard_errors, source).checked(
        passed,
        z if np.isfinite(z) else 99.0,
        f"Originals score {percent(s)}, {'' if passed else 'not '}above {rule} ({percent(baseline)}) by "
        f"{t.baseline_standard_errors:g} standard errors. Guessing gives {percent(e.chance)}. The "
        "listed items are originals with a score of 0.",
        "Choose an easier benchmark or a stronger model, since a rule that never reads the "
        "question scores about as well.",
        items=ids(cell, cell.score_before == 0),
        numbers={"score": s, "chance": e.chance, **e.shortcuts},
    )


def denominator(cell: Cell, e: Evidence, t: Limits) -> Gate:
    """Check G3: the denominator of the ratio CSR must be above zero.

    If the gate fails, only the ratio is withheld, because the status is computed from a difference.

    Parameters
    ----------
    cell, e, t : object
        The answers, the statistics and the thresholds, as in `pairing`.

    Returns
    -------
    Gate
        The gate. Its value is the lower confidence limit of the change under surface edits.
    """
    estimates, lows = [], []
    moved = np.zeros(cell.n, dtype=bool)
    for family in SURFACE:
        moved |= (changes(cell, cell.used(family)) == 1).any(axis=0)
        if e.families[family].read:
            estimates.append(e.families[family].response_change.estimate)
            lows.append(e.families[family].response_change.low)
    number, low = max(estimates, default=float("nan")), max(lows, default=float("nan"))
    source = "li2026, G3 (.02), here for the lower 95 % limit; conf/verdict: denominator_min"
    return Rule("G3_denominator", t.denominator_min, source).checked(
        bool(low >= t.denominator_min),
        low,
        f"Edits of layout or wording change {percent(number)} of the answers (lower limit {percent(low)}). The paper's "
        f"ratio (CSR) is {'reported' if low >= t.denominator_min else 'not reported: its denominator may be zero'}.",
        "Nothing needs repair: the ratio is undefined if layout and wording move no answers. The "
        "difference holds.",
        withholds=False,
        items=ids(cell, moved),
    )


def replays(cell: Cell, e: Evidence, t: Limits) -> Gate:
    """Check the noise floor: few answers may change if the original is sent again.

    Parameters
    ----------
    cell, e, t : object
        The answers, the statistics and the thresholds, as in `pairing`.

    Returns
    -------
    Gate
        The gate. Its value is the share of answers that change between replays.
    """
    rule = Rule(
        "noise_floor",
        t.replay_change_max,
        "ours: identity replays; conf/verdict: replay_change_max",
    )
    if e.replay is None or not e.replay.n:
        return rule.absent("The original was sent once, so the noise floor is unknown.")
    return rule.checked(
        e.replay.estimate <= t.replay_change_max,
        e.replay.estimate,
        f"If the same request is sent again, {percent(e.replay.estimate)} of the answers change.",
        "Answers change without an edit. Lower the temperature, or look for batching that changes "
        "logprobs.",
        items=ids(
            cell, (response_changes(cell.before, cell.original.response[1:]) == 1).any(axis=0)
        ),
    )


Check = Callable[[Cell, Evidence, Limits], Gate]
CHECKS: tuple[Check, ...] = (
    edits_reach_scorer,
    enough_edits,
    answers_readable,
    scorer_valid,
    key_position,
    label_values,
    exact_values,
    above_baseline,
    denominator,
    pairing,
    agreement,
    archetype,
    direction,
    isolation,
    replays,
    context,
)


def all_gates(cell: Cell, e: Evidence, t: Limits) -> tuple[Gate, ...]:
    """Return every gate except G6, in the order of the paper.

    Parameters
    ----------
    cell, e, t : object
        The answers, the statistics and the thresholds, as in `pairing`.

    Returns
    -------
    tuple of Gate
        The gates.
    """
    return tuple(check(cell, e, t) for check in CHECKS)
