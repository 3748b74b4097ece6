"""From arrays to a verdict: each verdict is reached, each indicator says why it was not judged, and all is plain."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from importlib.resources import files

import jsonschema
import numpy as np
import pytest
from memory_cells import READS, cell
from scipy import stats

from audit.config import load_group
from audit.errors import ConfigError
from audit.governance.decision import rule
from audit.memory.analyse import analyse
from audit.memory.calibrated import nearest, sentence
from audit.memory.decide import decide
from audit.memory.evidence import Name, correct, measure
from audit.memory.instrument import INSTRUMENT, measured
from audit.memory.record import ItemSet, MemoryCell, Reads
from audit.memory.result import MemoryVerdict as V
from audit.memory.thresholds import MemoryThresholds
from audit.memory.verdict import RunVerdict, cell_dict
from audit.memory.vocabulary import GATES, INDICATORS, VERDICTS
from audit.records import CellRows
from audit.statistics.multiplicity import holm
from audit.verdict.instrument import KINDS
from audit.verdict.result import json_ready

SETTINGS = MemoryThresholds()


def judged(*cells: MemoryCell, **thresholds):
    return analyse(cells, replace(SETTINGS, **thresholds), seed=3, n_resamples=999)


def p_of(result, name: Name):
    return result.evidence.indicator(name).adjusted


def test_nothing_is_seen_only_where_both_kinds_of_indicator_looked_hard_enough():
    clean = cell(references=5, seed=1)
    (result,) = judged(clean, effect_of_interest=0.2)
    assert result.decision.verdict == V.NOTHING_SEEN
    gap = result.evidence.gap  # the level that Holm asks of the smallest of six p-values, 5 references: t with 4
    quantiles = stats.t.ppf(1 - 0.05 / 6, 4) + stats.t.ppf(0.8, 4)
    assert gap.did.df == 4 and gap.detectable == pytest.approx(quantiles * gap.did.se)
    (three,) = judged(cell(references=3, seed=1), effect_of_interest=0.2)
    assert three.decision.verdict == V.UNDERPOWERED  # three references tell too little of how models differ
    assert "not cleared" in result.headline and any("another layout" in x for x in result.cannot_exclude)
    (few,) = judged(clean, effect_of_interest=0.01)
    assert few.decision.verdict == V.UNDERPOWERED and "could go unseen" in few.decision.reasons[0]
    (alone,) = judged(replace(clean, fresh=None, tested=(clean.tested[0], None), references=()))
    assert alone.decision.verdict == V.UNDERPOWERED
    assert alone.evidence.indicator(Name.ORDER).judged and not alone.evidence.indicator(Name.GAP).judged
    assert any("fine-tuning" in x for x in alone.cannot_exclude)


def test_a_gap_that_the_data_do_not_exclude_is_not_called_unseen():
    """A design that finds 7 points with 80 % power, and a gap of 10: Holm over a panel of twelve models (72 indicators)
    takes the finding away, and that is no clearance."""
    made = cell(n=1000, fresh=900, references=8, answers=0.335)
    (alone,) = judged(made)
    assert alone.decision.verdict == V.GAP_TO_FRESH and alone.evidence.gap.detectable < 0.1
    panel = tuple(replace(one, adjusted=min(1.0, 72 * one.pvalue)) for one in alone.evidence.indicators)
    found = decide(replace(alone.evidence, indicators=panel), alone.gates, SETTINGS)
    assert found.verdict == V.UNDERPOWERED and "still compatible" in found.reasons[0]
    (clean,) = judged(cell(n=1000, fresh=900, references=8))
    assert clean.decision.verdict == V.NOTHING_SEEN


def without(made: MemoryCell, published: float, fresh: float, share: float = 0.04) -> MemoryCell:
    """With so many of the tested model's answers unread on each set, all of this score."""
    sides = []
    for one, score in zip(made.tested, (published, fresh), strict=True):
        lost = np.flatnonzero(one.score == score)[: round(share * one.score.size)]
        kept = one.score.copy()
        kept[lost] = np.nan
        sides.append(replace(one, score=kept))
    return replace(made, tested=(sides[0], sides[1]))


def test_unread_answers_clear_nobody():
    """A gap of 10 points whose right published and wrong fresh answers are unread: as read it seems refuted."""
    made = cell(n=3000, fresh=1500, references=8, answers=1 / 3, seed=1)
    (whole,) = judged(made)
    assert whole.evidence.gap_adverse is whole.evidence.gap_favourable is None
    (result,) = judged(without(made, 1.0, 0.0, 0.06), effect_of_interest=0.11, alpha=1e-6)
    e = result.evidence
    high = min(e.gap.did.high, e.largest_compatible)
    assert e.gap.did.high < e.gap_favourable.did.high == e.largest_compatible
    readable = tuple(replace(g, status="pass") for g in result.gates)
    limit = (high + e.largest_compatible) / 2  # refuted as read, and not where unread answers are held for the gap
    found = decide(e, readable, replace(SETTINGS, effect_of_interest=limit, alpha=1e-6))
    assert found.verdict == V.UNDERPOWERED and "held for it" in found.reasons[0]
    read = replace(e, gap_adverse=None, gap_favourable=None)
    assert decide(read, readable, replace(SETTINGS, effect_of_interest=limit, alpha=1e-6)).verdict == V.NOTHING_SEEN


def test_unread_answers_make_no_gap():
    """A clean model whose wrong published and right fresh answers are unread: the gap is gone where these count."""
    made = cell(n=3000, fresh=1500, references=8, seed=6)
    (result,) = judged(without(made, 0.0, 1.0, 0.06))
    e = result.evidence
    assert e.gap.pvalue < 0.05 / 6 < e.gap_adverse.pvalue == e.indicator(Name.GAP).pvalue
    assert result.decision.verdict == V.WITHHELD and "held against it" in result.decision.reasons[0]
    assert "held against it" in result.headline


def test_answers_that_were_never_asked_for_are_held_for_nothing():
    made = without(cell(n=300, fresh=200), 0.0, 1.0)
    (result,) = judged(replace(made, tested=tuple(replace(s, asked=~np.isnan(s.score)) for s in made.tested)))
    assert result.evidence.gap_adverse is None


def test_memory_of_the_text_is_seen_by_order_and_completion():
    (result,) = judged(cell(text=0.5))
    assert result.decision.verdict == V.MEMORY_OF_TEXT
    assert all(p_of(result, name) <= 0.05 for name in (Name.ORDER, Name.OPTIONS, Name.ITEM, Name.HALF, Name.WRONG))
    assert p_of(result, Name.GAP) > 0.05
    assert "order of the items" in result.headline


def test_learnt_answers_are_a_gap_to_fresh_items():
    (result,) = judged(cell(n=600, fresh=400, answers=0.6))
    assert result.decision.verdict == V.GAP_TO_FRESH and p_of(result, Name.GAP) <= 0.05
    assert "does not carry over" in result.headline


def test_harder_fresh_items_are_told_by_the_references():
    hard = cell(n=1000, fresh=600, harder=0.25)
    (result,) = judged(hard)
    assert result.decision.verdict == V.WITHHELD and "not as hard" in result.headline
    assert not result.evidence.indicator(Name.GAP).judged and not result.evidence.indicator(Name.ITEM).judged
    (text,) = judged(cell(n=1000, fresh=600, harder=0.25, text=0.5))
    assert text.decision.verdict == V.MEMORY_OF_TEXT  # what does not rest on the fresh items still speaks


def test_an_order_with_a_sense_of_its_own_counts_only_beyond_the_references():
    sequenced = cell(sequenced=0.6)
    with_references, alone = judged(
        sequenced, replace(sequenced, fresh=None, tested=(sequenced.tested[0], None), references=())
    )
    assert p_of(alone, Name.ORDER) <= 0.05 < p_of(with_references, Name.ORDER)
    assert any("has a sense" in x for x in alone.cannot_exclude)
    assert alone.decision.verdict == V.MEMORY_OF_TEXT and "sense of its own" in alone.headline  # 47 to 89 % of them
    assert any("likelier options first" in x for x in alone.cannot_exclude)


def test_orders_that_a_reference_could_not_read_are_not_judged():
    """With nothing beyond the references p was 1, and no memory was said to show, whatever the model had read."""
    made = cell(text=0.5)
    first = made.references[0][0]
    blind = replace(first, order=np.full_like(first.order, np.nan), options=np.full_like(first.options, np.nan))
    (result,) = judged(replace(made, references=((blind, made.references[0][1]), *made.references[1:])))
    for name in (Name.ORDER, Name.OPTIONS):
        assert "every reference could read are too few" in result.evidence.indicator(name).why
    assert all(judged(made)[0].evidence.indicator(name).judged for name in (Name.ORDER, Name.OPTIONS))


def test_an_order_that_words_tell_is_not_judged_without_references():
    made = cell(fresh=0, references=0)
    shards = made.tested[0].order.shape
    told = np.random.default_rng(0).normal(size=shards)
    told[:, 0] += 2
    published = replace(made.published, neighbours={"words": told})
    (result,) = judged(replace(made, published=published))
    assert "words of neighbours" in result.evidence.indicator(Name.ORDER).why
    gate = next(g for g in result.gates if g.name == "order_exchangeable")
    assert gate.status == "fail" and not gate.withholds


def test_without_an_indicator_there_is_no_verdict():
    made = cell(n=40, fresh=0, references=0)
    few = replace(made.tested[0], order=np.zeros((0, 1)), options=np.full((40, 6), np.nan))
    (result,) = judged(replace(made, tested=(few, None)))
    assert result.decision.verdict == V.WITHHELD and "n=all" in " ".join(result.decision.reasons)


@pytest.mark.parametrize(("arm", "gate"), [("published", "likelihoods_read"), ("score", "parseability")])
def test_what_was_not_read_withholds_the_verdict(arm, gate):
    made = cell(text=0.5)
    own = replace(made.tested[0], reads={**READS, arm: Reads(100, 80, 7)})
    (result,) = judged(replace(made, tested=(own, made.tested[1])))
    assert result.decision.verdict == V.WITHHELD and GATES[gate].because in result.headline


def test_references_that_guess_are_left_out_of_the_score():
    made = cell()
    guessing = tuple(replace(one, score=(np.arange(one.score.size) % 4 == 0) * 1.0) for one in made.references[0])
    (result,) = judged(replace(made, references=(guessing, *made.references[1:])))
    assert result.evidence.left_out == ("r1",) and len(result.evidence.gap.did.gaps) == 2
    assert "3 reference models that are above chance; 2" in result.evidence.indicator(Name.GAP).why
    (none,) = judged(replace(made, references=(guessing,)), references_min=1)
    assert "above chance" in none.evidence.indicator(Name.GAP).why and none.evidence.indicator(Name.ITEM).judged


def test_holm_is_over_all_indicators_of_the_panel():
    panel = [measure(c, SETTINGS, rng=np.random.default_rng(k), n_resamples=199) for k, c in enumerate(
        [cell(n=100, fresh=0, references=0), cell(n=100, fresh=80)]
    )]  # fmt: skip
    raw = [one.pvalue for e in panel for one in e.indicators if one.judged]
    corrected = [one.adjusted for e in correct(panel) for one in e.indicators if one.judged]
    assert len(raw) == 2 + 6
    assert corrected == holm(raw).tolist()


def test_missing_values_are_left_out_and_not_counted_as_wrong():
    made = cell(n=200, fresh=150)
    score = made.tested[0].score.copy()
    score[:20] = np.nan
    (result,) = judged(replace(made, tested=(replace(made.tested[0], score=score), made.tested[1])))
    assert result.evidence.gap.did.n == 180
    assert result.evidence.gap.published == pytest.approx(np.nanmean(score))


def test_the_verdict_is_plain_fits_its_schema_and_is_the_same_to_the_byte():
    cells = (cell(text=0.5), cell(n=100, fresh=0, references=0, seed=9))
    results = judged(*cells)
    run = RunVerdict(
        seed=3, n_resamples=999, thresholds=SETTINGS.to_dict(),
        orders={"seed": 3, "shard_items": 5, "orders": 10, "option_orders": 5}, runs=({"models": []},),
        rows=(CellRows("m", "exam", 90, 100),), cells=cells, results=results,
    )  # fmt: skip
    schema = json.loads((files("audit.memory") / "verdict.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(run.to_dict(), schema)
    assert run.to_dict() == replace(run, results=judged(*cells)).to_dict()
    first, second = run.to_dict()["cells"]
    assert first["headline"].startswith("Incomplete, 90 of 100 answers: m shows memory")
    assert second["fresh"] is None and second["evidence"]["gap"] is None
    assert rule(replace(run, rows=()).to_dict()).exit_code == 3 and rule(run.to_dict()).exit_code == 1
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**run.to_dict(), "audit": "sweep"}, schema)


def test_every_word_is_there():
    schema = json.loads((files("audit.memory") / "verdict.schema.json").read_text(encoding="utf-8"))
    assert set(VERDICTS) == set(V) and set(schema["$defs"]["cell"]["properties"]["verdict"]["enum"]) == set(V)
    assert set(INDICATORS) == set(Name)
    assert set(schema["$defs"]["indicator"]["properties"]["name"]["enum"]) == set(Name)
    (result,) = judged(cell(n=100, fresh=80))
    assert {g.name for g in result.gates} == set(GATES)
    assert [v for v, w in VERDICTS.items() if w.exit_code == 0] == [V.NOTHING_SEEN]


def test_the_thresholds_of_the_file_are_the_defaults():
    values = load_group("verdict", "memory")
    assert MemoryThresholds.from_mapping(values) == SETTINGS
    assert set(values) == {f.name for f in fields(MemoryThresholds)}
    with pytest.raises(ConfigError, match="alpa"):
        MemoryThresholds.from_mapping({"alpa": 0.1})
    with pytest.raises(ConfigError, match="0 < power < 1"):
        MemoryThresholds(power=1.5)


def test_the_nearest_design_is_of_the_same_kind():
    rates = {"clean": 0.04, "clean_se": 0.01, "text": 0.9}
    designs = [{"design": {"n": n, "fresh": f, "references": r}, "rates": rates}
               for n, f, r in ((100, 0, 0), (1000, 0, 0), (1000, 500, 5))]  # fmt: skip
    table = {"designs": designs}
    assert nearest(table, n=200, fresh=0, references=0).design["n"] == 100
    assert nearest(table, n=200, fresh=100, references=1).design["fresh"] == 500
    assert nearest(table, n=900, fresh=100, references=0).design == designs[1]["design"]
    assert nearest(None, n=1, fresh=0, references=0) is None
    assert "4.0% (± 1.0%)" in sentence(designs[0]) and "unmeasured" in sentence(designs[0])


def test_guessing_an_item_set():
    items = ItemSet("b", ("1", "2", "3"), np.arange(3), np.array([4, 2, 0]))
    assert items.chance == pytest.approx((0.25 + 0.5 + 0) / 3)


def test_a_model_that_is_its_own_reference_has_nothing_beyond_it():
    made = cell(text=0.6)
    (result,) = judged(replace(made, references=(made.tested,)), references_min=1)
    assert p_of(result, Name.ORDER) == 1 and p_of(result, Name.ITEM) == 1
    assert result.decision.verdict not in (V.MEMORY_OF_TEXT, V.GAP_TO_FRESH)


def test_fresh_items_whose_order_is_likelier_too_take_the_order_test_away():
    made = cell(text=0.6)
    fresh = replace(made.tested[1], order=made.tested[1].order + 0.0)
    fresh.order[:, 0] += 1
    (result,) = judged(replace(made, tested=(made.tested[0], fresh)))
    assert "cannot have been learnt" in result.evidence.indicator(Name.ORDER).why
    assert result.evidence.indicator(Name.OPTIONS).judged


def test_few_references_judge_nothing_against_fresh_items_unless_asked_to():
    made = cell(text=0.6)
    one = replace(made, references=made.references[:1])
    (result,) = judged(one)
    assert "references_min=1" in result.evidence.indicator(Name.ITEM).why
    assert result.evidence.indicator(Name.ORDER).judged
    (asked,) = judged(one, references_min=1)
    assert p_of(asked, Name.ITEM) <= 0.05 and any("one reference cannot" in x for x in asked.cannot_exclude)


def test_the_instrument_is_a_row_beside_others():
    (result,) = judged(cell(n=100, fresh=80))
    plain = cell_dict(cell(n=100, fresh=80), result)
    found = measured(json_ready(plain))
    assert found.estimate == pytest.approx(result.evidence.gap.did.difference, rel=1e-4) and found.false_alarms is None
    made = cell(n=100, fresh=0, references=0)
    assert measured(json_ready(cell_dict(made, judged(made)[0]))).estimate is None
    assert INSTRUMENT.sees <= set(KINDS)
