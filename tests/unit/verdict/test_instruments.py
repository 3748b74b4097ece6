"""What instruments say together: none clears what it cannot see, and each kind is said once, by who
sees it."""

import itertools
from pathlib import Path
from typing import Any

import pytest
from documents import cell_of, typed_cell

from audit.config.audits import AUDITS, part_of
from audit.core.errors import ConfigError
from audit.judging.forms import Judged, Share, all_cleared, any_found, nearest, scope, unmet, words
from audit.judging.instrument import KINDS, TITLES, Finding, Measured, Seen, looked_for, synthesis
from audit.judging.ladder import Grade

TELLS = (Seen.SEEN, Seen.NOT_SEEN, Seen.COULD_NOT_TELL)

NOTHING = Measured("gain", None, None, None, None)


def finding_of(name: str, kinds: dict[str, Seen]) -> Finding:
    return Finding(
        name,
        name,
        tuple(kinds),
        "v",
        "V",
        "good",
        "o",
        Grade.FOUND_STRONG,
        NOTHING,
        "",
        kinds=kinds,
    )


def sentences(
    *states: Seen,
    sees: tuple[tuple[str, ...], ...] = (("noise",), ("wording",), ("answers", "text")),
) -> dict[str, str]:
    """The sentence of each state, by how it begins."""
    findings = [
        finding_of(name, dict.fromkeys(kinds, state))
        for name, state, kinds in zip("ABC", states, sees, strict=False)
    ]
    return {line.partition(":")[0].partition(",")[0]: line for line in synthesis(findings)}


@pytest.mark.parametrize("states", list(itertools.product(TELLS, repeat=2)))
def test_what_no_instrument_sees_is_never_cleared(states: tuple[Seen, Seen]) -> None:
    text = sentences(*states)
    for kind in ("answers", "text", "format", "attribute"):
        assert KINDS[kind] in text["Not looked for"]
        assert not any(
            KINDS[kind] in line for name, line in text.items() if name != "Not looked for"
        )
    assert "agree" not in " ".join(text.values())  # least of all of those that could not tell


def test_each_kind_stands_once_with_who_says_so() -> None:
    text = sentences(Seen.NOT_SEEN, Seen.SEEN, Seen.COULD_NOT_TELL)
    assert (
        f"{KINDS['noise']} (A)" in text["Not seen"] and f"{KINDS['wording']} (B)." in text["Seen"]
    )
    assert f"{KINDS['answers']} (C); {KINDS['text']} (C)" in text["Could not tell"]
    assert all(" ".join(text.values()).count(title) == 1 for title in KINDS.values())


def test_a_finding_is_not_taken_back_and_who_contradicts_it_is_named() -> None:
    assert "not by" not in sentences(Seen.NOT_SEEN, Seen.SEEN)["Seen"]
    both = sentences(Seen.NOT_SEEN, Seen.SEEN, sees=(("wording", "text"), ("wording",)))
    assert (
        f"{KINDS['wording']} (B; not by A)" in both["Seen"]
        and f"{KINDS['text']} (A)" in both["Not seen"]
    )


def test_the_matrix_says_of_each_kind_what_each_sees_and_what_holds_of_all() -> None:
    kinds = (
        {"noise": "could not tell"},
        {"wording": "seen, cause unknown", "text": "not seen"},
        {"answers": "seen", "text": "could not tell", "wording": "not seen"},
    )
    matrix = looked_for(
        [finding_of("A", {kind: Seen(state) for kind, state in states.items()}) for states in kinds]
    )
    assert list(matrix) == list(KINDS)
    assert matrix["noise"] == (Seen.COULD_NOT_TELL, Seen.BLIND, Seen.BLIND, Seen.COULD_NOT_TELL)
    assert matrix["wording"] == (Seen.BLIND, Seen.CAUSE_UNKNOWN, Seen.NOT_SEEN, Seen.CAUSE_UNKNOWN)
    assert matrix["answers"] == (Seen.BLIND, Seen.BLIND, Seen.SEEN, Seen.SEEN)
    assert matrix["text"] == (Seen.BLIND, Seen.NOT_SEEN, Seen.COULD_NOT_TELL, Seen.NOT_SEEN)
    # An audit is blind to what it cannot see; all together are not: no audit that looks for it was
    # run.
    assert matrix["format"] == (*(Seen.BLIND,) * 3, Seen.NOT_RUN) and looked_for([])["text"] == (
        Seen.NOT_RUN,
    )


@pytest.mark.parametrize("audit", AUDITS)
def test_every_instrument_sees_something_that_is_known_and_not_all(audit: str) -> None:
    instrument = part_of(audit, "vocabulary").INSTRUMENT
    assert (
        instrument.audit == audit
        and instrument.sees
        and instrument.sees < set(KINDS) == set(TITLES)
    )


@pytest.mark.parametrize("audit", AUDITS)
def test_a_report_refuses_the_arguments_of_another_audit(audit: str, tmp_path: Path) -> None:
    report = part_of(audit, "report").REPORT
    other = next(name for name in ("variants", "control_benchmark") if name not in report.takes)
    with pytest.raises(ConfigError, match=f"--{other.replace('_', '-')} .*--seed"):
        report.of_runs([tmp_path], tmp_path, {"seed": 1, other: "x"})


LIMITS = {"alpha": 0.05, "effect_of_interest": 0.05}
SEES = {"sweep": {"noise"}, "perturb": {"wording"}, "memory": {"answers", "text"}}


def table() -> dict[str, Any]:
    """Of 100 models each. Perturb finds 15 % of wordings in 85, half of them in all; memory finds
    half of the answers in 90 and 15 % of them in 10; texts are found in 79."""
    counts = {
        "clean": {"CCC": 95, "CFC": 2, "CCF": 2, "COC": 1},
        "answers_15": {"CCC": 60, "CCO": 30, "CCF": 10},
        "answers_50": {"CCF": 90, "CCO": 10},
        "wording_15": {"CFC": 85, "CCC": 10, "COC": 5},
        "wording_50": {"CFC": 100},
        "text_15": {"CCF": 79, "CCC": 21},
        "text_50": {"CCF": 79, "CCC": 21},
    }
    design = {"n": 1000, "fresh": 500, "references": 5}
    return {
        "thresholds": dict.fromkeys(SEES, LIMITS),
        "designs": [{"design": design, "counts": counts}],
    }


def judged(
    audit: str, grade: Grade = Grade.CLEARED, n: int = 1000, references: int = 5, **limits: float
) -> Judged:
    sizes = {"n_questions": n, "references": ["r"] * references, "n_fresh": 500}
    cell = typed_cell(cell_of("underpowered", audit, grade=str(grade), **sizes), audit)
    return Judged(audit, cell, frozenset(SEES[audit]), {**LIMITS, **limits})


def test_a_form_is_passed_at_the_smallest_dose_that_is_found_often_enough() -> None:
    result = scope([judged("sweep"), judged("perturb"), judged("memory")], table())
    assert result is not None
    assert [(form.form, form.dose, form.audit) for form in result.passed] == [
        ("answers", 0.5, "memory"),
        ("wording", 0.15, "perturb"),
    ]
    assert result.not_examined == ("text",) and result.found == ()  # 79 of 100 is less than .8
    wording = result.passed[1]
    assert wording.found.share == 0.85 and wording.passes.share == 0.10
    assert words([result]) == "answers (50 %), wording (15 %); not examined: text"


def test_what_no_audit_looks_at_is_not_examined() -> None:
    result = scope([judged("sweep"), judged("perturb")], table())
    assert result is not None and result.not_examined == ("answers", "text")
    # The attack's case: half of the exam learnt with its answers passes the sweep and the
    # perturbation audit.
    assert result.error is not None and result.error.passes["answers_50"].share == 1.0
    alone = scope([judged("sweep")], table())
    assert alone is not None and alone.passed == ()
    assert words([alone]).endswith(": answers, wording, text")
    assert scope([], table()) is None


def test_a_form_that_was_found_or_left_open_is_not_passed() -> None:
    result = scope(
        [judged("perturb", Grade.FOUND_STRONG), judged("memory", Grade.UNDECIDED)], table()
    )
    assert result is not None and result.passed == ()
    assert result.found == ("wording",) and result.not_examined == ("answers", "text")


@pytest.mark.parametrize(
    ("options", "quoted"),
    [
        ({"n": 900}, False),  # a tenth less than the design
        ({"n": 950}, True),
        ({"references": 4}, False),
        ({"references": 8}, True),
        ({"n": 3100}, False),  # log 3.1 = 1.13
        ({"n": 2900}, True),
        ({"alpha": 0.01}, False),
        ({"effect_of_interest": 0.10}, False),
        ({"effect_of_interest": 0.03}, True),
    ],
)
def test_no_design_that_is_larger_far_or_of_other_thresholds_is_quoted(
    options: dict[str, Any], quoted: bool
) -> None:
    assert (nearest(table(), [judged("perturb", **options)]) is not None) is quoted
    result = scope([judged("perturb", **options)], table())
    assert result is not None and (result.error is not None) is quoted
    assert ("wording" in result.not_examined) is not quoted


def test_the_rates_are_of_the_audits_that_the_suite_has() -> None:
    clean = table()["designs"][0]["counts"]["clean"]
    assert any_found(clean, ["sweep", "perturb", "memory"]) == Share(4, 100)
    assert any_found(clean, ["perturb"]) == Share(2, 100)
    assert all_cleared(clean, ["sweep", "memory"]) == Share(98, 100)
    # Clopper & Pearson: 4 of 100 is 1.1 to 9.9 %; of 0 of 100 the upper limit is 1 - .025^(1/100).
    assert Share(4, 100).limits == pytest.approx((0.0110, 0.0993), abs=1e-4)
    assert Share(0, 100).limits == pytest.approx((0, 1 - 0.025 ** (1 / 100)))


def test_a_suite_may_require_forms() -> None:
    full, part = (
        scope([judged("perturb"), judged("memory")], table()),
        scope([judged("perturb")], table()),
    )
    assert full is not None and part is not None
    assert unmet([full], {}) == "" and unmet([full], {"wording": 0.15, "answers": 0.5}) == ""
    assert "15 %" in unmet([full], {"answers": 0.15})
    assert "50 %" in unmet([full], {"text": 0.5})
    assert "50 %" in unmet([full, part], {"answers": 0.5})  # in every model and benchmark
