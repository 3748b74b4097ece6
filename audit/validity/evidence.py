"""Compute all statistics of one cell (one model on one benchmark in one context).

This module makes no decisions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import itemgetter

import numpy as np

from audit.core.errors import DataError
from audit.statistics.contracts import (
    UNREAD,
    Mean,
    Transitions,
    clustered_mean,
    fits,
    follows,
    rate_interval,
    response_changes,
    score_changes,
    transitions,
)
from audit.statistics.dif import GroupDif, MantelHaenszel
from audit.statistics.gstudy import GStudy, gstudy
from audit.statistics.paired import BoolArray, FloatArray, IntArray
from audit.statistics.selectivity import N_RESAMPLES, Ratio, Selectivity, ratio, selectivity
from audit.statistics.values import average, mean_of
from audit.validity.edits.record import Archetype, Family, archetype_of
from audit.validity.metrics import (
    Answers,
    ReferenceMetric,
    group_dif,
    groups_of,
    reference_metrics,
    wording_dif,
)
from audit.validity.record import Block, Cell

SURFACE = (Family.FORMAT, Family.SEMANTIC)


@dataclass(frozen=True)
class EditEvidence:
    """Report the effects of one edit, or of a whole family. Rates and changes are means over items,
    0-1.

    Attributes
    ----------
    name : str
        Name of the edit; "" for a family.
    score : float
        Mean score under the edit.
    score_change : float
        Absolute difference between the mean scores under the edit and on the originals, if answers
        are scored by the key of each edit.
    original_key : float
        The absolute difference of the mean scores, if all answers are scored by the key of the
        original.
    response_change : Mean
        Rate at which the canonical response changes.
    followed : Mean
        Rate at which answers follow the contract of the edit.
    followed_held : Mean
        The rate at which answers follow the contract, if an unparsed answer counts as not following
        it.
    transitions : Transitions
        Numbers of right and wrong answers before and after the edit.
    asked, read : int
        Number of edits that were sent, and number of edits for which the answer to the edit and the
        answer to the original are parsed.
    same : int
        Number of edits whose request equals that of the original (F1). The other fields leave these
        edits out.
    """

    name: str
    score: float
    score_change: float
    original_key: float
    response_change: Mean
    followed: Mean
    followed_held: Mean
    transitions: Transitions
    asked: int
    read: int
    same: int = 0


@dataclass(frozen=True)
class PlaceboMatch:
    """Report how far the placebo and the attribute edits change the text of an item. All numbers
    are means over n items.

    Attributes
    ----------
    unit : {"words", "tokens"}
        Unit of the distances.
    placebo_changed, attribute_changed : float
        Mean number of changed units.
    placebo_span, attribute_span : float
        Mean length of the span from the first to the last change.
    changed, span : Mean
        Number of changed units, and length of the span: placebo minus attribute edits, with 95 %
        intervals over clusters.
    equal : float
        Share of items in which the numbers of changed units differ by at most one.
    """

    unit: str
    placebo_changed: float
    attribute_changed: float
    placebo_span: float
    attribute_span: float
    changed: Mean
    span: Mean
    equal: float


@dataclass(frozen=True)
class Evidence:
    """Hold all statistics of one cell.

    Attributes
    ----------
    archetype : Archetype or None
        What attribute edits should do to the answers.
    score : Mean
        Score of the originals.
    chance : float
        Score of guessing.
    shortcuts : mapping
        Scores of rules that do not read the question.
    families, edits, groups : mapping
        The evidence of each family of edits, of each edit, and of each group of items, by name.
    primary : Selectivity or None
        The difference D: the share of answers that attribute edits move minus the share that
        surface edits move. Under a directional edit, an answer counts as moved only if it moved to
        the new key. Under an invariant edit, every changed answer counts.
    selective_p : float or None
        One-sided p-value of the test that D is above 0. Attribute edits must also change more
        answers than the placebo does.
    non_selective_p : float or None
        One-sided p-value of the test that `responses` is below 0. If no answer should change, the
        bound is the margin instead of 0. Then attribute edits must also change fewer answers than
        the placebo and the margin together.
    responses : Selectivity or None
        The difference D, if every change of the response counts, to whatever option.
    csr : mapping of str to Ratio
        The paper's ratio CSR under each way to score answers: by the key of the edit, by the key of
        the original, and by changes of the response.
    replay : Mean or None
        Share of answers that change between replays of the original.
    placebo : Mean or None
        Share of answers that change under attribute edits minus the share under the placebo.
    placebo_match : PlaceboMatch or None
        How far the placebo and the attribute edits change the text.
    generalisability : GStudy or None
        Dependability of a mean score over the original and the surface edits.
    dif : MantelHaenszel or None
        The comparison of attribute edits with originals, at equal score.
    group_dif : tuple of GroupDif
        The comparisons of each group of items with all other items.
    reference : tuple of ReferenceMetric
        Metrics of the authors of the benchmark.

    Notes
    -----
    For both p-values, unparsed answers are imputed with the values that are the worst case for the
    conclusion. The exception is a directional cell, where `followed_held` decides whether answers
    follow the edits.
    """

    archetype: Archetype | None
    score: Mean
    chance: float
    shortcuts: Mapping[str, float]
    families: Mapping[Family, EditEvidence]
    edits: Mapping[Family, tuple[EditEvidence, ...]]
    groups: Mapping[Family, tuple[EditEvidence, ...]]
    primary: Selectivity | None
    selective_p: float | None
    non_selective_p: float | None
    responses: Selectivity | None
    csr: Mapping[str, Ratio]
    replay: Mean | None
    placebo: Mean | None
    placebo_match: PlaceboMatch | None
    generalisability: GStudy | None
    dif: MantelHaenszel | None
    group_dif: tuple[GroupDif, ...] = ()
    reference: tuple[ReferenceMetric, ...] = ()

    @property
    def baseline(self) -> tuple[str, float]:
        """Return the rule with the highest score among the rules that do not read the question
        (guessing and shortcuts).

        Returns
        -------
        tuple of (str, float)
            The name of the rule, and its score.
        """
        rules = (("guessing", self.chance), *self.shortcuts.items())
        return max(rules, key=itemgetter(1))


def measure(
    cell: Cell, *, margin: float = 0.05, rng: np.random.Generator, n_resamples: int = N_RESAMPLES
) -> Evidence:
    """Compute all statistics of a cell.

    Parameters
    ----------
    cell : Cell
        The answers.
    margin : float
        The margin of `ValidityThresholds`.
    rng : numpy.random.Generator
        Source of the resamples.
    n_resamples : int
        Number of resamples.

    Returns
    -------
    Evidence
        The statistics. A statistic that cannot be computed is None (and not 0).
    """
    used, moved, families = {}, {}, {}
    edits, of_groups = {}, {}
    groups = groups_of(cell.items)
    for family in Family:
        all_edits, block = cell.families[family], cell.used(family)
        used[family] = block
        moved[family] = average(changes(cell, block))
        families[family] = edit_evidence(cell, block, "")
        edits[family] = _by_part(cell, all_edits, _edits_of(all_edits))
        of_groups[family] = _by_part(cell, all_edits, groups)
    attribute = used[Family.ATTRIBUTE]
    directional = attribute.directional[attribute.tests].astype(bool).tolist()
    surface, edited = np.concatenate([used[f].scores for f in SURFACE]), attribute.scores
    primary = _selectivity(average(_obeyed(cell, attribute)), moved, cell)
    placebo = clustered_mean(moved[Family.ATTRIBUTE] - moved[Family.PLACEBO], cell.cluster)
    selective_p, non_selective_p = _pvalues(
        cell, used, primary, None if any(directional) else margin
    )
    answers = Answers(cell.scorer, cell.items, cell.before, cell.mass_before, cell.cluster)
    replayed = response_changes(cell.before, cell.original.response[1:])
    return Evidence(
        archetype=archetype_of(directional),
        score=rate_interval(cell.score_before, cell.cluster),
        chance=float(cell.chance.mean()),
        shortcuts={name: float(np.nanmean(values)) for name, values in cell.shortcuts.items()},
        families=families,
        edits=edits,
        groups=of_groups,
        primary=primary,
        selective_p=selective_p,
        non_selective_p=non_selective_p,
        responses=_selectivity(moved[Family.ATTRIBUTE], moved, cell),
        csr=_ratios(cell, used, moved, rng, n_resamples),
        replay=rate_interval(average(replayed), cell.cluster) if len(replayed) else None,
        placebo=placebo if placebo.n else None,
        placebo_match=_placebo_match(cell),
        generalisability=_gstudy(cell, surface),
        dif=wording_dif(cell, surface, edited) if directional and not any(directional) else None,
        group_dif=group_dif(cell, surface, edited),
        reference=reference_metrics(answers, rng=rng, n_resamples=n_resamples),
    )


def _pvalues(
    cell: Cell, used: Mapping[Family, Block], primary: Selectivity | None, margin: float | None
) -> tuple[float | None, float | None]:
    """Return the p-values `selective_p` and `non_selective_p` of `Evidence`.

    `margin` is None if an edit is directional.

    Unparsed answers are imputed with the worst case for each conclusion. Either they all moved
    under edits of the content and stayed under other edits, or the reverse.
    """
    changed = {family: changes(cell, block) for family, block in used.items()}

    def moved(content: float, others: float) -> dict[Family, FloatArray]:
        """Map each family to the changes (n,) of the items. Unparsed answers get imputed values."""
        filled = {}
        for family, block in used.items():
            value = content if family == Family.ATTRIBUTE else others
            unparsed = block.tests & np.isnan(changed[family])
            filled[family] = average(np.where(unparsed, value, changed[family]))
        return filled

    plain, least, most = moved(np.nan, np.nan), moved(0.0, 1.0), moved(1.0, 0.0)
    above = [primary]
    if margin is None:
        block = used[Family.ATTRIBUTE]
        obeyed = _obeyed(cell, block)
        unparsed = block.tests & np.isnan(obeyed)
        followed = average(obeyed), average(np.where(unparsed, 0.0, obeyed))
        for others, attribute in zip((plain, least), followed, strict=True):
            above.append(_beyond_words({**others, Family.ATTRIBUTE: attribute}, cell))
    else:
        above.append(_selectivity(least[Family.ATTRIBUTE], least, cell))
        above += [_beyond_words(plain, cell), _beyond_words(least, cell)]
    # Any change counts here, as for surface edits. The answers of a model that guesses change with
    # the content, but seldom reach the key.
    below = [
        _selectivity(plain[Family.ATTRIBUTE], plain, cell, margin or 0.0),
        _selectivity(most[Family.ATTRIBUTE], most, cell, margin or 0.0),
    ]
    if margin is not None:
        below += [_beyond_words(plain, cell, margin), _beyond_words(most, cell, margin)]
    above_p = max((tested.above_p for tested in above if tested), default=None)
    below_p = max((tested.below_p for tested in below if tested), default=None)
    return above_p, below_p


def _beyond_words(
    moved: Mapping[Family, FloatArray], cell: Cell, margin: float = 0.0
) -> Selectivity | None:
    """Return the test of attribute edits against the placebo, which has as many neutral words."""
    placebo, nothing = moved[Family.PLACEBO], np.full(cell.n, np.nan)
    others = {Family.FORMAT: placebo, Family.SEMANTIC: nothing}
    return _selectivity(moved[Family.ATTRIBUTE], others, cell, margin)


def changes(cell: Cell, block: Block) -> FloatArray:
    """Compute which edits changed the canonical response.

    Parameters
    ----------
    cell : Cell
        The answers to the originals.
    block : Block
        The answers to edits.

    Returns
    -------
    (L, n) array
        1 or 0; NaN if the edit tests nothing or an answer is unparsed.
    """
    return np.where(block.tests, response_changes(cell.before, block.response), np.nan)


def _obeyed(cell: Cell, block: Block) -> FloatArray:
    """Return a mask (L, n) of the attribute edits that moved the response.

    A directional edit counts if it moves the response to its new key. An invariant edit counts if
    it moves the response to any option.
    """
    plain = changes(cell, block)
    return np.where(block.directional, plain * fits(block.response, block.key), plain)


def edit_evidence(cell: Cell, block: Block, name: str) -> EditEvidence:
    """Return the evidence of one edit or of a family.

    Edits are first averaged within each item.

    Parameters
    ----------
    cell : Cell
        The answers to the originals.
    block : Block
        The answers to the edits.
    name : str
        Name of the edit; "" for a family.

    Returns
    -------
    EditEvidence
        Rates and changes.
    """
    tests = block.tests
    before, after = cell.score_before, np.where(tests, block.scores, np.nan)
    fits_original = np.where(
        tests & (block.response != UNREAD), fits(block.response, cell.original.key[0]), np.nan
    )
    followed = np.where(
        tests, follows(cell.before, block.response, block.key, block.directional), np.nan
    )
    both = tests & ~np.isnan(followed)
    moved = response_changes(cell.before, block.response)
    return EditEvidence(
        name=name,
        score=mean_of(average(after)),
        score_change=mean_of(average(score_changes(before, after))),
        original_key=mean_of(average(score_changes(before, fits_original))),
        response_change=rate_interval(average(np.where(tests, moved, np.nan)), cell.cluster),
        followed=rate_interval(average(followed), cell.cluster),
        followed_held=rate_interval(average(np.where(both == tests, followed, 0.0)), cell.cluster),
        transitions=transitions(np.broadcast_to(before, after.shape)[tests], after[tests]),
        asked=int(tests.sum()),
        read=int(both.sum()),
        same=int((block.requested & block.same).sum()),
    )


def _by_part(cell: Cell, block: Block, places: Mapping[str, BoolArray]) -> tuple[EditEvidence, ...]:
    """Return the evidence of each part of a family, including its spare edits.

    `places` has a mask (L, n) or (n,) for each part.
    """
    parts = []
    for name, here in places.items():
        part = replace(block, requested=block.requested & here)
        parts.append(edit_evidence(cell, part, name))
    return tuple(parts)


def _edits_of(block: Block) -> dict[str, BoolArray]:
    """Map the name of each edit that was sent to a mask (L, n)."""
    names = sorted(set(map(str, block.name[block.requested])))
    return {name: block.name == name for name in names}


def _selectivity(
    attr: FloatArray, moved: Mapping[Family, FloatArray], cell: Cell, margin: float = 0.0
) -> Selectivity | None:
    """Return the test of D; None if too few items have answers."""
    try:
        return selectivity(attr, moved[Family.FORMAT], moved[Family.SEMANTIC], cell.cluster, margin)
    except DataError:
        return None


def _placebo_match(cell: Cell) -> PlaceboMatch | None:
    """Return how far placebo and attribute edits change the text; None if nothing was measured."""
    if not cell.distances.size or np.isnan(cell.distances).all():
        return None
    changed = cell.distances[0] - cell.distances[1]
    known = changed[~np.isnan(changed)]
    placebo_changed, attribute_changed, placebo_span, attribute_span = map(mean_of, cell.distances)
    return PlaceboMatch(
        unit=cell.distance_unit,
        placebo_changed=placebo_changed,
        attribute_changed=attribute_changed,
        placebo_span=placebo_span,
        attribute_span=attribute_span,
        changed=clustered_mean(changed, cell.cluster),
        span=clustered_mean(cell.distances[2] - cell.distances[3], cell.cluster),
        equal=float(np.mean(np.abs(known) <= 1)),
    )


def _ratios(
    cell: Cell,
    used: Mapping[Family, Block],
    moved: Mapping[Family, FloatArray],
    rng: np.random.Generator,
    n_resamples: int,
) -> dict[str, Ratio]:
    """Return the three versions of CSR: scored by the key of the edit, scored by the key of the
    original, and computed from changes of the response.
    """

    def scored(block: Block, key: IntArray) -> FloatArray:
        """Return the changes (n,) of the score if answers are scored by a given key."""
        after = np.where(
            block.tests & (block.response != UNREAD), fits(block.response, key), np.nan
        )
        return average(score_changes(cell.score_before, after))

    conventions: dict[str, list[FloatArray]] = {"own key": [], "original key": [], "response": []}
    for family in (Family.ATTRIBUTE, *SURFACE):
        block = used[family]
        conventions["own key"].append(scored(block, block.key))
        conventions["original key"].append(scored(block, cell.original.key[0]))
        conventions["response"].append(moved[family])
    ratios = {}
    for name, (attr, fmt, sem) in conventions.items():
        if not np.isnan(attr).all() and not np.isnan([fmt, sem]).all():
            ratios[name] = ratio(attr, fmt, sem, cell.cluster, rng=rng, n_resamples=n_resamples)
    return ratios


def _gstudy(cell: Cell, surface: FloatArray) -> GStudy | None:
    """Return the G-study over the original and the surface edits; None with too few answers."""
    table = np.concatenate([cell.score_before[None], surface])
    table = table[~np.isnan(table).all(axis=1)]
    try:
        return gstudy(table, cell.original.scores)
    except DataError:
        return None
