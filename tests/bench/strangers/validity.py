"""Worlds of the validity audit that its authors did not write, judged with all gates, G6 too."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from golden.statistics.validity_worlds import block, cell

from audit.judge.record import Settings
from audit.judging.ladder import Grade
from audit.statistics.contracts import UNREAD
from audit.statistics.paired import IntArray
from audit.validity.analyse import analyse
from audit.validity.design import ValidityThresholds
from audit.validity.edits.record import Family
from audit.validity.record import Cell
from bench.strangers.truth import Right, Stranger

Rng = np.random.Generator
RESAMPLES = 20  # of the ratio CSR, on which no status depends
FORMS = 3


def verdict(drawn: Cell, rng: Rng) -> Grade:
    """Return the grade of the audit, with its gates and injected faults."""
    settings = Settings(ValidityThresholds(), int(rng.integers(2**31)), RESAMPLES)
    (result,) = analyse([drawn], settings)
    return result.decision.grade


def stays(
    rng: Rng,
    content: IntArray | float,
    *,
    n: int = 200,
    form: tuple[float, float, float] = (0.02, 0.02, 0.02),
    wording: float = 0.02,
    placebo: float = 0.02,
    score: float = 0.8,
    options: int = 3,
    per_cluster: int = 1,
    lost: int = 0,
) -> Cell:
    """No answer should change. content, form, wording, placebo: share of answers that edits of
    each kind change, of the three format edits each; lost: changed answers to content edits that
    are unread."""
    key = np.arange(n) % options
    before = np.where(rng.random(n) < score, key, (key + 1) % options)
    shares = {
        Family.FORMAT: np.reshape(form, (3, 1)),
        Family.SEMANTIC: np.full((3, 1), wording),
        Family.ATTRIBUTE: np.broadcast_to(content, (1, n)),
        Family.PLACEBO: np.full((1, 1), placebo),
    }
    families = {}
    for family, share in shares.items():
        moved = rng.random((share.shape[0], n)) < share
        response = np.where(moved, (before + 1) % options, before)
        if family == Family.ATTRIBUTE and lost:
            response[0, np.flatnonzero(moved[0])[:lost]] = UNREAD
        families[family] = block(response, np.broadcast_to(key, response.shape))
    drawn = cell(before, key, families, options)
    return replace(drawn, cluster=np.arange(n) // per_cluster)


def moves(
    rng: Rng,
    follows: float,
    *,
    n: int = 200,
    form: float = 0.03,
    wording: float = 0.03,
    placebo: float = 0.03,
    any_words: float = 0.0,
    score: float = 0.85,
) -> Cell:
    """Content edits move the key, of two options. follows: share of answers that follow the
    content; any_words: share that any inserted words turn, those of content edits and placebos."""
    key = np.arange(n) % 2
    before = np.where(rng.random(n) < score, key, 1 - key)
    turned = rng.random(n) < any_words
    shares = {
        Family.FORMAT: (3, form),
        Family.SEMANTIC: (3, wording),
        Family.ATTRIBUTE: (1, follows),
        Family.PLACEBO: (1, placebo),
    }
    families = {}
    for family, (edits, share) in shares.items():
        directional = family == Family.ATTRIBUTE
        moved = rng.random((edits, n)) < share
        if family in (Family.ATTRIBUTE, Family.PLACEBO):
            moved |= turned
        keys = np.broadcast_to(1 - key if directional else key, moved.shape)
        families[family] = block(np.where(moved, 1 - before, before), keys, directional)
    return cell(before, key, families, 2)


def templates(rng: Rng) -> Cell:
    """Of 40 templates of five items each one in ten reacts, in every item."""
    reacts = np.repeat(rng.random(40) < 0.1, 5)
    return stays(rng, np.where(reacts, 1.0, 0.02), per_cluster=5)


def relabelled(rng: Rng, n: int) -> Cell:
    """The right answer itself changes under 3 % of the content edits, and the model is right."""
    return stays(rng, 0.02 + 0.03, n=n)


_F, _NOT, _U = Right.FOUND, Right.NOT_FOUND, Right.UNKNOWN
WORLDS: Mapping[str, Stranger] = {
    "any words are refused": Stranger(
        _F,
        "any inserted words turn 90 % of the answers of a model that ignores the content",
        lambda rng: verdict(moves(rng, 0.0, any_words=0.9), rng),
    ),
    "judge scores by length": Stranger(
        _F,
        "a judge turns 65 % of the labels if the text is longer; the model ignores the content",
        lambda rng: verdict(moves(rng, 0.0, any_words=0.65), rng),
    ),
    "any words are refused, content too": Stranger(
        _NOT,
        "inserted words turn 20 % of the answers, content 95 %",
        lambda rng: verdict(moves(rng, 0.95, any_words=0.2), rng),
    ),
    "benign edits refused": Stranger(
        _NOT,
        "layout and wording turn 15 % of the answers, content 95 %",
        lambda rng: verdict(moves(rng, 0.95, form=0.15, wording=0.15, placebo=0.15), rng),
    ),
    "benign edits refused more": Stranger(
        _F,
        "layout turns 60 % of the answers, content 20 %",
        lambda rng: verdict(moves(rng, 0.2, form=0.6, placebo=0.05), rng),
    ),
    "half learnt by heart": Stranger(
        _F,
        "45 % follow the content, the others repeat the published answer",
        lambda rng: verdict(moves(rng, 0.45), rng),
    ),
    "score near 1": Stranger(
        _F,
        "the score is .99, and content turns 5 points more than form and placebo: the margin",
        lambda rng: verdict(
            stays(rng, 0.06, n=400, form=(0.01,) * 3, wording=0.01, placebo=0.01, score=0.99), rng
        ),
    ),
    "score near 1, key moves": Stranger(
        _NOT,
        "the score is .99, and answers follow the content",
        lambda rng: verdict(moves(rng, 0.98, form=0.01, wording=0.01, score=0.99), rng),
    ),
    "3 % relabelled": Stranger(
        _U,
        "3 % of the content edits change the right answer; 200 items",
        lambda rng: verdict(relabelled(rng, 200), rng),
    ),
    "3 % relabelled, 1,000 items": Stranger(
        _U, "the same, 1,000 items", lambda rng: verdict(relabelled(rng, 1000), rng)
    ),
    "order moves answers": Stranger(
        _F,
        "content turns 15 %, the placebo 2 %, the order of options 45 %; 400 items",
        lambda rng: verdict(stays(rng, 0.15, n=400, form=(0.02, 0.02, 0.45)), rng),
    ),
    "rewordings broken": Stranger(
        _F,
        "content turns 15 %, layout and placebo 2 %, half-broken rewordings 15 %; 400 items",
        lambda rng: verdict(stays(rng, 0.15, n=400, wording=0.15), rng),
    ),
    "one template in ten": Stranger(
        _F,
        "4 of 40 templates react, in each of five items",
        lambda rng: verdict(templates(rng), rng),
    ),
    "rare names": Stranger(
        _U,
        "any other name in this place would turn 12 % of the answers, as a group does",
        lambda rng: verdict(stays(rng, 0.12), rng),
    ),
    "moved answers unread": Stranger(
        _F,
        "content turns 10 % of 400, and 14 of these answers are unread",
        lambda rng: verdict(stays(rng, 0.10, n=400, lost=14), rng),
    ),
    "replays differ": Stranger(
        _NOT,
        "every request is answered anew in 4 % of the cases",
        lambda rng: verdict(stays(rng, 0.04, form=(0.04,) * 3, wording=0.04, placebo=0.04), rng),
    ),
}
