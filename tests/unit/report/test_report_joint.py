"""One page over several audits of a model: side by side, escaped, and as bad as its worst for the
gate."""

import itertools
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from commands_here import import_logs, report
from documents import LIMITS, cell_of, verdict_of_cells
from governed import make_run
from long_tests import long

from audit.config.audits import part_of
from audit.core.errors import ConfigError
from audit.judging.decision import rule, verdict_of
from audit.judging.instrument import KINDS, Measured
from audit.judging.ladder import SPEAKING, Grade
from audit.judging.result import because, json_ready
from audit.judging.together import JointVerdict
from audit.memory.evidence import Indicator, Name
from audit.perturb.vocabulary import VERDICTS as PERTURB
from audit.report.joint import content, in_order, matrices, page
from audit.sweep.vocabulary import VERDICTS as SWEEP
from audit.validity.edits.record import Archetype
from audit.validity.vocabulary import VERDICTS as VALIDITY
from audit.validity.vocabulary import ValidityStatus


def cell(verdict: str, audit: str = "sweep", **fields: Any) -> dict[str, Any]:
    return cell_of(verdict, audit, **{"headline": "<b>h</b>", "cannot_exclude": ["x"], **fields})


def models(revision: str) -> dict[str, Any]:
    return {"models": [{"model": "m", "benchmark": "b", "revision": revision, "outcomes": 4}]}


def gain(low: float, high: float) -> dict[str, Any]:
    mean = dict.fromkeys(("mean_gain", "mean_ci_low", "mean_ci_high"))
    return {"gain": 0.02, "ci_low": low, "ci_high": high, **mean}


def sweep(verdict: str, n: int = 4, **fields: Any) -> dict[str, Any]:
    fields = {"effect": gain(0.005, 0.05), **fields}
    rows = [{"model": "m", "benchmark": "b", "found": n, "expected": 4}]
    plain = cell(verdict, **fields)
    return verdict_of_cells([plain], rows=rows, runs=[models("1")])


def perturb(verdict: str, revision: str = "1", **fields: Any) -> dict[str, Any]:
    drop = {"estimate": 0.12, "low": 0.05, "high": 0.2}
    calibration = {
        "rates": {"clean_beyond": 0.01, "clean_unknown": 0.03},
        "design": {},
        "sentence": "",
    }
    evidence = {"drop": {"drop": drop, "cs": LIMITS, "original": None}}
    fields = {"evidence": evidence, "references": ["r"], "calibration": calibration, **fields}
    rows = [{"model": "m", "benchmark": "b", "found": 9, "expected": None}]
    return verdict_of_cells(
        [cell(verdict, "perturb", **fields)], "perturb", rows=rows, runs=[models(revision)]
    )


def memory(verdict: str, **fields: Any) -> dict[str, Any]:
    gap = {"did": {"difference": 0.01, "low": -0.05, "high": 0.07}, "predicted": None}
    fields = {"evidence": {"gap": gap}, "indicators": [], "n_questions": 208, **fields}
    rows = [{"model": "m", "benchmark": "b", "found": 9, "expected": 9}]
    return verdict_of_cells(
        [cell(verdict, "memory", **fields)], "memory", rows=rows, runs=[models("1")]
    )


def joined(verdicts: Mapping[str, Any], suite: Mapping[str, Any] | None = None) -> JointVerdict:
    return content({name: verdict_of(verdict) for name, verdict in verdicts.items()}, suite)


@pytest.mark.parametrize(
    ("verdict", "state"),
    [
        ("excess", "seen"),
        ("gain_uncontrolled", "seen, cause unknown"),
        ("no_excess_detected", "not seen"),
    ],
)
def test_a_score_that_falls_under_noise_is_no_gain_that_was_seen(verdict: str, state: str) -> None:
    (combined,) = joined({"sweep": sweep(verdict), "perturb": perturb("no_drop_detected")}).joint
    assert combined.instruments[0].kinds == {"noise": state}


def test_the_table_has_a_row_an_instrument_and_the_sentences() -> None:
    joint = joined(
        {"sweep": sweep("no_excess_detected"), "perturb": perturb("drop_beyond_reference")}
    )
    (combined,) = joint.joint
    first, second = combined.instruments
    assert first.measured.estimate == 0.02 and first.measured.false_alarms is None
    assert second.measured == Measured("drop under rewording", 0.12, 0.05, 0.2, 0.01)
    assert first.sensitivity == "not measured" and combined.together[0].startswith(
        "Seen: memory of the published"
    )
    text = page(joint)
    assert "<b>h</b>" not in text and "&lt;b&gt;h&lt;/b&gt;" in text
    assert "Drop beyond reference" in text and "No excess detected" in text
    assert "12.0 points [5.0, 20.0]" in text
    assert 'href="sweep/report.html"' in text


def test_an_incomplete_run_makes_the_whole_incomplete() -> None:
    joint = joined({"sweep": sweep("excess", n=3), "perturb": perturb("no_drop_detected")})
    assert rule(joint).exit_code == 1 and 'data-decision="no decision" data-exit="1"' in page(joint)


def test_runs_that_have_nothing_in_common_are_refused() -> None:
    with pytest.raises(ConfigError, match="share no model and benchmark"):
        joined({"sweep": sweep("excess"), "perturb": perturb("withheld", model="other")})
    with pytest.raises(ConfigError, match="2 revisions"):
        joined({"sweep": sweep("excess"), "perturb": perturb("withheld", revision="2")})


def validity(*cells: tuple[str, str, str]) -> dict[str, Any]:
    """Cells of (context, archetype, status)."""
    evidence = {"primary": {"difference": 0.3, "low": 0.1, "high": 0.5}, "score": LIMITS, "csr": {}}
    rates = {"rates": {"selective": 0.004, "non_selective": 0.018}, "design": {}, "sentence": ""}
    made = [
        cell(
            status,
            "validity",
            context=context,
            evidence={**evidence, "archetype": archetype},
            calibration=rates,
        )
        for context, archetype, status in cells
    ]
    rows = [{"model": "m", "benchmark": "b", "found": 9, "expected": None}]
    return verdict_of_cells(made, "validity", rows=rows, runs=[models("1")])


ORDER, GAP = Name.ORDER, Name.GAP
MEMORY = ("noise", "wording", "answers", "text")


@pytest.mark.parametrize(
    ("archetype", "status", "sees", "speaks"),
    [
        ("diagnostic", "confirmatory_selective", "format", "against"),
        (
            "diagnostic",
            "confirmatory_non_selective",
            "format",
            "for",
        ),  # a confirmed status, and a finding
        ("invariance", "confirmatory_selective", "attribute", "for"),
        ("invariance", "confirmatory_non_selective", "attribute", "against"),
        ("diagnostic", "indeterminate", "format", "neither"),
        ("invariance", "scorer_unvalidated", "attribute", "neither"),
    ],
)
def test_validity_speaks_of_its_archetype_and_never_of_memory(
    archetype: str, status: str, sees: str, speaks: str
) -> None:
    joint = joined({"sweep": sweep("withheld"), "validity": validity(("", archetype, status))})
    (combined,) = joint.joint
    _, instrument = combined.instruments
    assert instrument.sees == (sees,) and instrument.measured.estimate == 0.3
    lines = {line.partition(":")[0].partition(",")[0]: line for line in combined.together}
    assert (
        KINDS[sees]
        in lines[{"for": "Seen", "against": "Not seen", "neither": "Could not tell"}[speaks]]
    )
    memory = [kind for kind in MEMORY if kind != "noise"]  # which the sweep looks for
    assert all(KINDS[kind] in lines["Not looked for"] for kind in memory)


def test_two_contexts_are_two_rows_and_no_panel_by_themselves() -> None:
    both = validity(
        ("ambig", "invariance", "confirmatory_non_selective"),
        ("disambig", "diagnostic", "confirmatory_selective"),
    )
    joint = joined({"sweep": sweep("no_excess_detected"), "validity": both})
    names = [instrument.name for instrument in joint.joint[0].instruments]
    assert names[1:] == [
        "the construct-validity audit (ambig)",
        "the construct-validity audit (disambig)",
    ]
    text = page(joint)
    assert text.count("<article") == 1 + 3
    assert VALIDITY[ValidityStatus.SELECTIVE].of(Archetype.DIAGNOSTIC).name in text
    assert VALIDITY[ValidityStatus.NON_SELECTIVE].of(Archetype.INVARIANCE).name in text
    alone = {**both, "cells": [{**c, "model": "other"} for c in both["cells"]]}
    with pytest.raises(ConfigError, match="share no model and benchmark"):
        joined({"sweep": sweep("excess"), "validity": alone})


EVERY = {"sweep": SWEEP, "perturb": PERTURB, "memory": part_of("memory", "vocabulary").VERDICTS}
INTERVALS = (long(-0.01, 0.05), (0.005, 0.05), (-0.05, 0.0), long(-0.05, -0.01))


@pytest.mark.parametrize(("low", "high"), INTERVALS)
def test_a_red_tile_is_a_strong_finding_and_shows_no_interval_with_zero(
    low: float, high: float
) -> None:
    """Every verdict of every audit, beside an interval of its figure: red is strong, and red and
    amber show the interval only if it excludes 0; the others always do."""
    drop = {"drop": {"estimate": 0.02, "low": low, "high": high}, "cs": LIMITS, "original": None}
    gap = {"did": {"difference": 0.02, "low": low, "high": high}, "predicted": None}
    figures = {
        "sweep": {"effect": gain(low, high)},
        "perturb": {"evidence": {"drop": drop}},
        "memory": {"evidence": {"gap": gap}},
    }
    made = {"sweep": sweep, "perturb": perturb, "memory": memory}
    for audit, words in EVERY.items():
        for verdict, word in words.items():
            other = "memory" if audit == "sweep" else "sweep"
            second = made[other]("withheld")
            text = page(joined({audit: made[audit](verdict, **figures[audit]), other: second}))
            tiles = re.findall(r'<a class="t-(\w+)" data-grade="(\w+)" href="(\w+)/.*?</a>', text)
            ((tone, grade, _),) = (tile for tile in tiles if tile[2] == audit)
            assert grade == word.grade and (tone == "bad") == (grade == Grade.FOUND_STRONG)
            (tile,) = re.findall(rf'<a class="t-\w+" data-grade="\w+" href="{audit}/.*?</a>', text)
            excludes = low > 0 or high < 0
            assert ("points [" in tile) == (excludes or grade not in SPEAKING), (audit, verdict)


def test_how_often_the_audits_are_wrong_is_never_folded() -> None:
    """The perturbation audit has a rate, 1 %, and the sweep none; both stand outside of any fold."""
    text = page(
        joined({"sweep": sweep("no_excess_detected"), "perturb": perturb("no_drop_detected")})
    )
    unfolded = re.sub(r"<details.*?</details>", "", text, flags=re.DOTALL)
    section = re.search(r'<section id="sure".*?</section>', unfolded, re.DOTALL)
    assert section is not None
    assert section[0].count("1.0 %") == 1 and section[0].count('data-rates="none"') == 1
    assert "small" not in section[0]


def together(**verdicts: str) -> list[str]:
    made = {"sweep": sweep, "perturb": perturb, "memory": memory}
    (combined,) = joined({name: made[name](verdict) for name, verdict in verdicts.items()}).joint
    return list(combined.together)


def test_three_real_audits_clear_nothing_that_none_of_those_that_could_tell_sees() -> None:
    """Every verdict of every audit: only what an audit sees that found nothing is said to be
    absent."""
    names = ("sweep", "perturb", "memory")
    words = {name: part_of(name, "vocabulary").VERDICTS for name in names}
    sees = {name: part_of(name, "vocabulary").INSTRUMENT.sees for name in names}
    for verdicts in itertools.product(*words.values()):
        audits = dict(zip(names, verdicts, strict=True))
        outcome = {name: words[name][verdict].grade for name, verdict in audits.items()}
        lines = {line.partition(":")[0].partition(",")[0]: line for line in together(**audits)}
        for kind, title in KINDS.items():
            cleared = any(kind in sees[name] and outcome[name] == Grade.CLEARED for name in names)
            assert (title in lines.get("Not seen", "")) == cleared, (kind, audits)
        assert KINDS["format"] in lines["Not looked for"]
        unsettled = {Grade.CHECK_FAILED, Grade.NOT_IDENTIFIED, Grade.UNDECIDED}
        open_ = not unsettled.isdisjoint(outcome.values())
        assert ("Could not tell" in lines) == open_, audits


def test_memory_that_the_methods_of_the_sources_do_not_see_is_not_cleared_by_them() -> None:
    """The planted model: nothing under noise, nothing under rewording, and yet the text was
    read."""
    first = together(
        sweep="no_excess_detected", perturb="no_drop_detected", memory="memory_of_text_seen"
    )[0]
    assert (
        first.startswith("Seen: ")
        and f"{KINDS['text']} (the memory audit)" in first
        and "does not contradict this" in first
    )
    assert (
        rule(
            joined({"sweep": sweep("no_excess_detected"), "memory": memory("memory_of_text_seen")})
        ).exit_code
        == 3
    )
    both = together(sweep="no_excess_detected", perturb="no_drop_detected")
    unseen = next(line for line in both if line.startswith("Not looked for: "))
    assert KINDS["answers"] in unseen and KINDS["text"] in unseen


def test_the_score_without_memory_is_the_first_line_of_all() -> None:
    line = "Score 82 %. Without memory: 71 %, against 8 references."
    remembered = memory("gap_to_fresh_items", without_memory={"sentence": line, "estimate": None})
    whole = joined({"sweep": sweep("no_excess_detected"), "memory": remembered})
    assert whole.joint[0].together[0] == line
    assert rule(whole).together[0].endswith(line)


def test_a_sensitivity_stands_once_however_many_audits_have_it() -> None:
    sentence = "Measured sensitivity: this would have noticed."
    joint = joined(
        {
            "sweep": sweep("no_excess_detected", sensitivity=sentence),
            "perturb": perturb("no_drop_detected", sensitivity=sentence),
            "memory": memory(
                "nothing_seen_by_this_instrument", sensitivity=f"{sentence} And that."
            ),
        }
    )
    assert [instrument.sensitivity for instrument in joint.joint[0].instruments] == [
        sentence,
        sentence,
        f"{sentence} And that.",
    ]
    text = page(joint)
    assert (
        text.count(f", the perturbation audit: {sentence}</li>") == 1 and text.count(sentence) == 2
    )
    assert rule(joint).exit_code == 0


def indicator(
    name: str, adjusted: float | None, low: float, unguarded: float | None = None
) -> dict[str, Any]:
    doubt = because("abler")
    measured = Indicator(
        Name(name), adjusted, adjusted, 0.1, low, 0.2, unguarded_adjusted=unguarded, doubt=doubt
    )
    return json_ready({**asdict(measured), "test": "level"})


@pytest.mark.parametrize(
    ("verdict", "indicators", "answers", "text"),
    [  # alpha .05: seen where the adjusted p is at most that and the interval above 0
        (
            "memory_of_text_seen",
            [("item_order", 0.01, 0.1), ("gap", 0.30, -0.1)],
            "could not tell",
            "seen",
        ),
        ("memory_of_text_seen", [("item_order", 0.01, 0.1), ("gap", 0.04, 0.1)], "seen", "seen"),
        (
            "gap_to_fresh_items",
            [("item_order", 0.40, -0.1), ("gap", 0.01, 0.1)],
            "seen",
            "not seen",
        ),
        (
            "gap_to_fresh_items",
            [("item_order", None, -0.1), ("gap", 0.01, 0.1)],
            "seen",
            "could not tell",
        ),
        (
            "gap_to_fresh_items",
            [("item_order", 0.9, 0.1, 0.01), ("gap", 0.01, 0.1)],
            "seen",
            "seen, cause unknown",
        ),
        (
            "memory_cause_unknown",
            [("item_order", 0.9, 0.1, 0.01)],
            "could not tell",
            "seen, cause unknown",
        ),
        ("underpowered", [("item_order", 0.9, -0.1)], "could not tell", "could not tell"),
        ("nothing_seen_by_this_instrument", [], "not seen", "not seen"),
    ],
)
def test_what_the_memory_audit_found_is_said_of_its_own_kind(
    verdict: str, indicators: list[tuple[Any, ...]], answers: str, text: str
) -> None:
    rows = [
        indicator(ORDER if name == "item_order" else GAP, *numbers) for name, *numbers in indicators
    ]
    joint = joined(
        {"sweep": sweep("no_excess_detected"), "memory": memory(verdict, indicators=rows)}
    )
    (matrix,) = matrices(in_order(joint.joint))
    assert matrix.columns == (("Router-worker sweep", ""), ("Memory audit", ""))
    assert matrix.rows["answers"] == ("blind", answers, answers) and matrix.rows["text"] == (
        "blind",
        text,
        text,
    )
    assert matrix.rows["noise"] == ("not seen", "blind", "not seen") and matrix.rows["format"] == (
        "blind",
        "blind",
        "not run",
    )
    assert joint.joint[0].instruments[1].kinds == {"answers": answers, "text": text}


# Every verdict once; all pairs, which are as many pages, are long.
PAIRS = list(itertools.product(SWEEP, PERTURB))
ONCE = list(zip(SWEEP, PERTURB, strict=True))


@pytest.mark.parametrize(
    "verdicts",
    [pair if pair in ONCE else pytest.param(pair, marks=pytest.mark.long) for pair in PAIRS],
)
def test_the_decision_of_the_page_is_the_gates(verdicts: tuple[str, str]) -> None:
    joint = joined({"sweep": sweep(verdicts[0]), "perturb": perturb(verdicts[1])})
    ruling, text = rule(joint), page(joint)
    assert f'data-decision="{ruling.decision}" data-exit="{ruling.exit_code}"' in text
    deciding = [cell for cell in ruling.cells if cell.decision == ruling.decision]
    assert (f"{len(deciding)} of 2 verdicts" in text) == (ruling.decision != "pass")
    assert text.index('id="decision"') < text.index('class="box strip"') < text.index('id="looked"')


def test_the_strip_says_that_a_run_is_incomplete_and_a_pass_what_not_examined_means() -> None:
    text = page(
        joined(
            {
                "sweep": sweep("excess", watermark="incomplete: 3 of 4"),
                "perturb": perturb("withheld"),
            }
        )
    )
    assert text.count("incomplete: 3 of 4") == 2  # in the strip, and on the verdict's own card
    clean = page(
        joined({"sweep": sweep("no_excess_detected"), "perturb": perturb("no_drop_detected")})
    )
    assert "Not examined means " in clean


def test_a_second_joint_report_leaves_no_part_of_the_first(
    tmp_path: Path, no_figures: None
) -> None:
    """Sweep with memory, then sweep with perturb into the same folder: a page of memory stayed that
    no page knew."""
    runs = {
        "sweep": make_run(
            tmp_path / "sweep", "m", 1, 20, lambda _, row: replace(row, model_revision="imported")
        )
    }
    for wording in ("seen", "held_out", "reworded"):
        rows = [
            f"{model},q{k},{(k + len(model)) % 2}" for model in ("m", "peer") for k in range(60)
        ]
        (tmp_path / f"{wording}.csv").write_text(
            "\n".join(["model,item,correct", *rows]).replace(",q", f",{wording}")
        )
    same = (tmp_path / "seen.csv").read_text()
    (tmp_path / "reworded.csv").write_text(same)
    for audit, option, log in (
        ("memory", "--held-out", "held_out"),
        ("perturb", "--reworded", "reworded"),
    ):
        runs[audit] = tmp_path / audit
        files_ = [str(tmp_path / "seen.csv"), option, str(tmp_path / f"{log}.csv")]
        words = [*files_, "--benchmark", "synthetic", "--judge", "m", "-o", str(runs[audit])]
        assert import_logs(words) == 0
    out = tmp_path / "joint"
    for second, left in (("memory", {"sweep", "memory"}), ("perturb", {"sweep", "perturb"})):
        words = [str(runs["sweep"]), str(runs[second]), "--out", str(out)]
        if second == "perturb":  # the folder has a page of other runs
            assert report(words) == 1
            words.append("--force")
        assert report(words) == 0
        assert report(words[:4]) == 0  # the same runs again
        assert {path.name for path in out.iterdir() if path.is_dir()} == left
    mine = (
        out / "perturb" / "mine"
    )  # a folder that somebody keeps a run in is no part of a report alone
    shutil.copytree(runs["sweep"], mine)
    words = [str(runs["sweep"]), str(runs["memory"]), "--out", str(out), "--force"]
    assert report(words) == 0
    assert (mine / "manifest.json").is_file()
