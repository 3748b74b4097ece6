"""The scorer: what validates it, where its key stands, and whether its values are values (F3a, F3b, F3c)."""

import numpy as np
import scipy

from audit.statistics.contracts import UNREAD
from audit.validity.edits.record import Family
from audit.validity.evidence import SURFACE, CellEvidence
from audit.validity.gates.pairing import Rule, ids
from audit.validity.record import ValidityCell
from audit.validity.thresholds import ValidityThresholds
from audit.verdict.result import Gate, percent, pvalue

_SMALLEST_EXPECTED = 1.0  # of a chi-square: below it the test is not made


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
    detail += " No items stand behind this gate: the scorer is on trial, with scripted answers to all of them."
    return Rule("scorer_valid", 1.0, f"{facts['name']}: {facts['reference_of']}").checked(
        passed,
        float(passed),
        detail,
        "Label 100 or more replies of this family of models by hand (kappa of at least .8, at most 10 % missed), or "
        "take a scorer that is validated.",
    )


def key_position(cell: ValidityCell, e: CellEvidence, t: ValidityThresholds) -> Gate:
    """F3b: the key must not stand at one place, where options are shown. Chi-square over positions."""
    source = "chi-square of the key's shown position; conf/verdict: position_alpha"
    rule = Rule("F3b_key_position", t.position_alpha, source)
    if not cell.scorer["lettered"]:
        return rule.absent("The options are not shown, so that they have no positions.")
    places = cell.original.key_position[0]
    places = places[places >= 0]
    options = np.maximum(1, np.round(1 / cell.chance)).astype(int)[: places.size]
    positions = int(options.max()) if options.size else 0
    expected = np.array([np.sum((options > k) / options) for k in range(positions)])
    observed = np.bincount(places, minlength=positions)[:positions].astype(float)
    keep = expected >= _SMALLEST_EXPECTED
    if keep.sum() < 2:
        return rule.absent("Too few items to tell.")
    chi = float(np.sum((observed[keep] - expected[keep]) ** 2 / expected[keep]))
    p = float(scipy.stats.chi2.sf(chi, int(keep.sum()) - 1))
    most = int(np.argmax(np.where(keep, observed - expected, -np.inf)))
    return rule.checked(
        p > t.position_alpha,
        p,
        f"The key is first in {observed[0]:.0f} of {places.size} originals; {expected[0]:.0f} are due: {pvalue(p)}.",
        "Shuffle the options of each item: otherwise always the first option scores.",
        items=ids(cell, cell.original.key_position[0] == most),
        numbers={f"position_{k}": float(x) for k, x in enumerate(observed)},
    )


def label_values(cell: ValidityCell, e: CellEvidence, t: ValidityThresholds) -> Gate:
    """F3c: labels without probability, ties and infinities. number: mean mass, or the share of such rows."""
    source = "li2026, F3c: targets outside what was asked for; conf/verdict: label_mass_min"
    blocks = [cell.original, *cell.families.values()]
    rows = [b.asked & np.isin(b.why.astype(str), ("tied", "not finite", "no mass")) for b in blocks]
    odd = sum(int(row.sum()) for row in rows)
    asked = sum(int(b.asked.sum()) for b in blocks)
    share = odd / asked if asked else 0.0
    mass = float(cell.mass.mean()) if cell.mass.size else None
    low = float(np.quantile(cell.mass, 0.05)) if cell.mass.size else None
    passed = share <= 1 - t.parse_share_min and (mass is None or mass >= t.label_mass_min)
    said = (
        ""
        if mass is None
        else f" The labels hold {percent(mass)} of the probability on average (5th percentile {percent(low)})."
    )
    limit = 1 - t.parse_share_min if mass is None else t.label_mass_min
    return Rule("F3c_label_values", limit, source).checked(
        passed,
        share if mass is None else mass,
        f"{odd} of {asked} answers are tied or not finite; none of them was given to the first option.{said}",
        "Ask for every spelling of a label by its token ids, at any rank."
        if mass is not None
        else "Options tied in likelihood: run with higher precision, dtype=float32.",
        items=ids(cell, np.any([row.any(axis=0) for row in rows], axis=0)),
        numbers={"mass": mass, "mass_5th_percentile": low, "tied_or_not_finite": share},
    )


EXACT_FROM = 20  # answers from which "exactly 0" is no accident


def exact_values(cell: ValidityCell, e: CellEvidence, t: ValidityThresholds) -> Gate:
    """F3c: every surface change exactly 0 while attribute edits move answers, or a change of exactly 1. An alarm."""
    found = []
    reads = {f: e.families[f] for f in (*SURFACE, Family.ATTRIBUTE) if e.families[f].read >= EXACT_FROM}
    surface = [reads[f].response_change.estimate for f in SURFACE if f in reads]
    responses = np.concatenate([cell.before, *(b.response[b.tests] for b in cell.families.values())])
    known = responses[responses != UNREAD]
    if known.size >= EXACT_FROM and np.unique(known).size == 1:
        found.append("one and the same response to everything")
    if surface and max(surface) == 0 and Family.ATTRIBUTE in reads:
        found.append("no answer differs under any edit of layout or wording")
    attribute = reads.get(Family.ATTRIBUTE)
    if attribute is not None and attribute.score_change == 1.0:
        found.append("the score changes under every edit of the content")
    source = "li2026, F3c and its Table 6: changes of exactly 0 and exactly 1 made the ratio"
    return Rule("F3c_exact_values", 0.0, source).checked(
        not found,
        len(found),
        (f"Found: {'; '.join(found)}." if found else "No change is exactly 0 or 1 where answers were many.")
        + " No items stand behind this gate: it reads totals.",
        "Look at the raw values: such figures usually come from values that were not read.",
        withholds=found[:1] == ["one and the same response to everything"],
    )
