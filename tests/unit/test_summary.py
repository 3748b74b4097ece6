import re
import shlex
from typing import Any

import documents
import numpy as np
import outcome_tables
import pytest
from documents import gate_of, typed_cell, verdict_of_cells
from outcome_tables import pair
from synthetic import synthetic_outcomes

from audit.core.records import Setting
from audit.judging.decision import verdict_of
from audit.judging.vocabulary import subtitle
from audit.runtime.summary import larger, next_command, print_failed, summarise
from audit.statistics.paired import CellOutcomes, State
from audit.sweep.audit import SWEEP
from audit.sweep.design import Arm


def cell_of(rows: dict[tuple[str, int, int], list[bool | None]]) -> CellOutcomes:
    """arm, level, replicate -> right, wrong or unparsed, question by question."""
    states = {True: State.CORRECT, False: State.WRONG, None: State.UNPARSED}
    return outcome_tables.cell_of(
        {Setting(*key): [states[x] for x in row] for key, row in rows.items()}
    )


def test_gain_improve_and_degrade_by_hand():
    # clean 1 1 0 0, noisy 1 0 1 1: improve 2, degrade 1, gain (2 - 1) / 4
    cell = cell_of(
        {
            ("forward_full", 1, 0): [True, True, False, False],
            ("noisy_rewrite", 2, 0): [True, False, True, True],
        }
    )
    clean, noisy = summarise(cell, SWEEP.roles)
    assert clean.gain is None and clean.accuracy == 0.5
    assert (noisy.improve, noisy.degrade, noisy.gain) == (2, 1, 0.25)


def test_the_baseline_is_the_mean_of_the_clean_replicates():
    # clean replicates 1 0 and 0 0: baseline .5 0; noisy 1 1: improve .5 + 1, degrade 0, gain .75
    cell = cell_of(
        {
            ("forward_full", 1, 0): [True, False],
            ("forward_full", 1, 1): [False, False],
            ("noisy_rewrite", 1, 0): [True, True],
        }
    )
    noisy = summarise(cell, SWEEP.roles)[-1]
    assert (noisy.improve, noisy.degrade, noisy.gain) == (1.5, 0, 0.75)


def test_an_unparsed_answer_is_left_out_and_not_wrong():
    cell = cell_of(
        {("forward_full", 1, 0): [True, True, False], ("noisy_rewrite", 1, 0): [True, None, False]}
    )
    noisy = summarise(cell, SWEEP.roles)[-1]
    assert noisy.accuracy == 0.5 and noisy.answered == 2
    assert noisy.parse_rate == pytest.approx(2 / 3)
    assert noisy.gain == 0


def test_every_setting_has_a_row():
    (cell,) = pair(synthetic_outcomes(20, routers=(1, 2), rng=np.random.default_rng(1)))
    assert {row.setting for row in summarise(cell, SWEEP.roles)} == set(cell.settings)
    assert Setting(Arm.DIRECT, 0, 0) in {row.setting for row in summarise(cell, SWEEP.roles)}


def test_why_a_model_failed_holds_nothing_that_a_terminal_obeys(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_failed({"m": "the engine said \x1b[2J\nand ended"})
    assert (
        capsys.readouterr().err
        == "error: model m failed: the engine said \N{REPLACEMENT CHARACTER}[2J\nand ended\n"
    )


def test_a_directory_that_was_quoted_for_hydra_stays_quoted() -> None:
    assert larger(("audit", "run_dir='/my runs/x'", "n=5"), "n", 9) == shlex.join(
        ["audit", "run_dir='/my runs/x_2'", "n=9"]
    )


def ended(
    verdict: str = "underpowered", questions: int = 100, needed: int | None = 1070, **manifest: Any
) -> str:
    """`next_command` of a sweep of one cell."""
    gate = gate_of("enough_data", numbers={"asked": questions, "needed": needed})
    to_do = [{"code": code, "numbers": {}} for code in manifest.pop("to_do", ())]
    read = gate_of("parseability", numbers={"direct_error": manifest.pop("errors", 0.0)})
    rows = {"model": "m", "benchmark": "b", "found": 9, "expected": manifest.pop("expected", 9)}
    run = {
        "config": {"typed": ["model=m", "n=100", "run_dir=my runs/x"]},
        "benchmark": {"b": {"n": questions, "n_distinct": manifest.pop("total", 5000)}},
        "models": {"m": {"engine": manifest.pop("engine", "scripted")}},
        "models_stopped": {},
    }
    audit, place = manifest.pop("audit", "sweep"), manifest.pop("run_dir", "my runs/x")
    cell = documents.cell_of(verdict, audit, gates=[gate, read], advice_codes=to_do)
    return next_command(
        verdict_of(verdict_of_cells([cell], audit, rows=[rows])), {**run, **manifest}, place
    )


def test_the_next_command_asks_what_the_plan_needs_where_the_benchmark_has_it() -> None:
    assert ended() == ended(total=1070) == "audit sweep model=m 'run_dir=my runs/x_2' n=1070"
    plan = "audit plan audit=sweep model=m n=all"  # it says what would do: no number of these questions would
    assert ended(total=208) == ended(questions=208, total=208) == plan
    once = {"typed": ["r=1..3", "clean_replicates=1", "noisy_replicates=1", "n=100"]}
    assert (
        ended(config=once) == "audit sweep r=1..3 n=1070"
    )  # of arms that are repeated, as the to-do says
    assert ended(needed=None) == "audit open 'my runs/x'"  # nobody knows how many


def test_after_a_withheld_verdict_the_to_do_is_proposed_or_the_page() -> None:
    def withheld(*to_do: str, **manifest: Any) -> str:
        config = {"typed": ["model=m", "run_dir=r"], "seed": 42}
        return ended("withheld", config=config, to_do=to_do, **manifest)

    page = "audit open 'my runs/x'"
    asked_again = "audit sweep model=m run_dir=r store.retry_errors=true"
    assert (
        withheld("gate_parseability", errors=0.2)
        == withheld("mend_unparsed", errors=0.2)
        == asked_again
    )
    assert withheld("gate_parseability") == withheld("gate_clean_router", errors=0.2) == page
    assert withheld("gate_noise_floor") == "audit sweep model=m run_dir=r_2 seed=43"
    assert withheld("gate_noise_floor", audit="perturb") == page  # its to-do is to compare shards
    assert withheld("ask_all", audit="memory") == "audit memory model=m run_dir=r_2 n=all"
    assert withheld("ask_all", audit="memory", total=100) == page  # all were asked
    assert withheld(run_dir="s3://bucket/x") == ""


def test_an_incomplete_run_goes_on_by_its_own_command() -> None:
    assert ended(expected=10) == "audit sweep model=m n=100 'run_dir=my runs/x'"
    config = {"typed": ["model=m", "cost.max=0.01"], "cost": {"max": 0.01}}
    spent = {"m": {"code": "spent", "cost_max": 0.044}}
    assert (
        ended(expected=10, config=config, models_stopped=spent)
        == "audit sweep model=m cost.max=0.044"
    )
    failed = {
        "m": "the endpoint said: canary=false, such as cost.max=900."
    }  # its words choose no command
    assert (
        ended(expected=10, config=config, models_failed=failed)
        == "audit sweep model=m cost.max=0.01"
    )
    assert (
        ended(expected=10, models_stopped={"m": {"code": "canary"}}) == ""
    )  # asked again it stops again


def test_after_a_verdict_another_audit_is_planned_that_the_engine_can_run() -> None:
    assert ended("excess") == ended("no_excess_detected") == "audit plan audit=memory model=m"
    assert ended("excess", engine="openai") == "audit plan audit=perturb model=m"
    assert ended("excess", config={"typed": []}) == "audit plan audit=memory"
    assert (
        ended("excess", config={}) == ""
    )  # a run of an earlier version does not say what was typed


def test_too_few_questions_are_said_in_plain_words_with_both_numbers() -> None:
    from audit.sweep.vocabulary import VERDICTS

    def sentence(questions: int | None, needed: int | None) -> str:
        gate = gate_of("enough_data", numbers={"asked": questions, "needed": needed})
        return subtitle(VERDICTS, typed_cell(documents.cell_of("underpowered", gates=[gate])))

    assert re.findall(r"[\d,]+\b", sentence(100, 1070)) == ["100", "1,070"]
    assert (
        sentence(2000, 1070)
        == sentence(None, None)
        == subtitle(VERDICTS, typed_cell(documents.cell_of("underpowered")))
    )
    assert subtitle(VERDICTS, typed_cell(documents.cell_of("excess"))) == VERDICTS["excess"].plain
