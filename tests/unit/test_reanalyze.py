import json

import numpy as np
import pytest
from commands_here import reanalyze

from audit.core.errors import DataError
from audit.papers.song2026 import (
    EXAMPLE,
    TABLE1_COLUMNS,
    TABLE3_COLUMNS,
    analyse,
    read_settings,
    shipped,
)
from audit.papers.song2026_reanalysis import expected_without_effect, heterogeneity, trend
from audit.sweep.paper import setting_row

HEADER = "model,routers,clean_accuracy,noisy_accuracy,gain,improve,degrade"


TABLE2 = shipped("table2_model_router")


@pytest.fixture(scope="module")
def paper():
    return analyse(
        TABLE2, printed=(shipped("table1_model_summary"), shipped("table3_router_summary"))
    )


def test_the_papers_panel(paper):
    result, contradictions = paper
    assert result.violations == 62
    assert result.rejected == (14, 3, 4)
    assert contradictions == []
    assert len(result.exact_values) == 8 and all(r.noisy_accuracy == 0 for r in result.exact_values)
    assert {m for m, c in result.chance.items() if not c.above} == {
        "Llama-3.1-8B",
        "Llama-3.2-3B",
        "Qwen3.5-35B",
    }
    assert {t.row.model for t in result.settings if t.holm < 0.05} <= {
        "Llama-3.1-8B",
        "Qwen3.5-35B",
    }
    assert "62 of 108" in result.sentence


def test_exactly_the_two_cells_that_do_not_follow_are_found(paper):
    result, _ = paper
    assert result.compared_cells == 12 * 5 + 9 * 6
    mismatches = [
        (m.table, m.key, m.column, m.printed, round(m.recomputed, 4)) for m in result.mismatches
    ]
    assert mismatches == [
        ("Table 1", "Qwen3.5-35B", "mean_positive_excess", 0.178, 0.18),
        ("Table 1", "Qwen3.5-35B", "mean_gain", 0.04, 0.0411),
    ]


def test_the_headline_hangs_on_four_options_which_the_paper_does_not_print():
    result, _ = analyse(TABLE2, simulations=20, chance_assumed=True)
    assert "If 4," in result.sentence and "if 10," in result.sentence
    ten, _ = analyse(TABLE2, simulations=20, chance=0.1)
    assert all(c.above for c in ten.chance.values())


def test_what_no_effect_would_show(paper):
    e = paper[0].no_effect
    # Independent simulation of such panels gave 46 % of settings, 88 % of models, 26 % in seven or
    # more.
    assert e.setting_rate == pytest.approx(0.46, abs=0.02)
    assert e.model_rate == pytest.approx(0.88, abs=0.03)
    assert e.broad_rate == pytest.approx(0.26, abs=0.03)
    assert e.violations_low < 62 < e.violations_high


def test_no_effect_simulation_agrees_with_the_exact_probability():
    # One setting, 20 items, every p = .5 (clean .5, discordance .5): the number improved minus
    # degraded is symmetric, P(gain > 0) = (1 - P(tie)) / 2 with P(tie) = sum over m of Binomial(20,
    # .5)(m) * Binomial(m, .5)(m / 2).
    from scipy import stats

    rows = [setting_row("m", 1, 10, 5, 5, 20)]
    even = np.arange(0, 21, 2)
    tie = np.sum(stats.binom.pmf(even, 20, 0.5) * stats.binom.pmf(even // 2, even, 0.5))
    e = expected_without_effect(rows, rng=np.random.default_rng(0), simulations=20_000)
    assert e.setting_rate == pytest.approx((1 - tie) / 2, abs=0.012)
    never = [setting_row("m", 1, 10, 0, 0, 20)]
    assert (
        expected_without_effect(never, rng=np.random.default_rng(0), simulations=50).setting_rate
        == 0
    )


def test_the_reversal_at_eight_routers_is_made_by_the_eight_cells_of_exactly_zero(paper):
    # Net improve is the sum of improve - degrade over the models; leaving a cell out removes 39
    # (Qwen3.5-122B at r=3 to 7) or 16 (Qwen3.5-35B at r=6 to 8) degradations: at r=3 -16 + 39 = 23,
    # at r=6 -21 + 39 + 16 = 34.
    printed, without, no_qwen = paper[0].panels
    assert (printed.settings, without.settings, no_qwen.settings) == (108, 100, 90)
    assert [r.net_improve for r in printed.routers] == [-38, -25, -16, -37, 2, -21, -24, 40, 64]
    assert [r.net_improve for r in without.routers] == [-38, -25, 23, 2, 41, 34, 31, 56, 64]
    assert all(r.net_improve > 0 for r in no_qwen.routers if r.routers >= 5)
    assert printed.heterogeneity.pvalue < 0.05 < without.heterogeneity.pvalue
    assert without.trend.pvalue < printed.trend.pvalue < 0.05


def test_heterogeneity_is_cochrans_q_by_hand():
    # Two models, one setting each, n = 100: 10 and 20 discordant questions, net 2 and 10.
    # se^2 = (b + c - (b - c)^2 / n) / n^2: (10 - .04) / 10^4 and (20 - 1) / 10^4. With two models
    # Q = (g1 - g2)^2 / (se1^2 + se2^2) = .08^2 / .002896 = 2.2099.
    rows = [setting_row("a", 1, 50, 6, 4, 100), setting_row("b", 1, 50, 15, 5, 100)]
    result = heterogeneity(rows)
    assert result.statistic == pytest.approx(0.08**2 / 0.002896)
    # The moment estimate: (Q - 1) / (w1 + w2 - (w1^2 + w2^2) / (w1 + w2)), by hand 2 w1 w2 / (w1 +
    # w2) below.
    w = [1 / 0.000996, 1 / 0.0019]
    assert result.spread == pytest.approx(
        ((result.statistic - 1) / (2 * w[0] * w[1] / sum(w))) ** 0.5
    )


def test_trend_tries_all_signs_of_the_models():
    # Five models whose improvements rise by 1, 2, 3, 4, 5 a router: one of 2^5 signs is as extreme.
    # Degrade is level.
    rows = [setting_row(f"m{k}", r, 50, 5 + k * r, 5, 100) for k in range(1, 6) for r in (1, 2, 3)]
    result = trend(rows)
    assert (result.improve, result.p_improve) == (pytest.approx(3), pytest.approx(1 / 32))
    assert (result.degrade, result.p_degrade, result.pvalue) == (pytest.approx(0), 1, 1)


def test_h2_and_h3_hold_their_level_on_panels_without_an_effect():
    # Clean and noisy of each model differ by chance alone, and settings are independent here: H2's
    # error bound then makes it conservative, and H3 is exact.
    rng = np.random.default_rng(5)
    rejected = np.zeros(2)
    for _ in range(200):
        rows = [
            setting_row(f"m{k}", r, 50, *rng.binomial(20, 0.5, 2), 100)
            for k in range(8)
            for r in range(1, 6)
        ]
        rejected += heterogeneity(rows).pvalue <= 0.05, trend(rows).p_improve <= 0.05
    # 3 standard errors above .05 at 200 draws: .05 + 3 (.05 x .95 / 200)^.5 = .096
    assert (rejected / 200 < 0.096).all()


@pytest.mark.long  # the whole paper again
@pytest.mark.usefixtures("no_figures")
def test_the_paper_may_be_named(tmp_path):
    assert reanalyze(["song2026", "--out", str(tmp_path / "named")]) == 0
    assert reanalyze(["--out", str(tmp_path / "default")]) == 0
    for name in ("reanalysis.json", "net_improve.csv"):
        assert (tmp_path / "named" / name).read_bytes() == (
            tmp_path / "default" / name
        ).read_bytes()


def test_command_writes_files_and_the_same_bytes_again(tmp_path, capsys):
    assert reanalyze(["--out", str(tmp_path / "a")]) == 0
    printed = capsys.readouterr().out
    assert "printed 0.178, recomputed 0.1800" in printed
    assert reanalyze(["--out", str(tmp_path / "b")]) == 0
    drawn = {
        "2_violation_pattern",
        "3_noisy_against_clean",
        "4_transitions",
        "4_without_exact_cells",
        "5_violation_breadth",
    }
    names = {
        "reanalysis.json",
        "settings.csv",
        "table1.csv",
        "table3.csv",
        "mismatches.csv",
        "net_improve.csv",
    }
    names |= {f"figure{number}.svg" for number in drawn}
    assert {p.name for p in (tmp_path / "a").iterdir()} == names
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    data = json.loads((tmp_path / "a" / "reanalysis.json").read_text())
    assert (data["violations"], data["p_below_alpha_holm"], len(data["mismatches"])) == (62, 3, 2)
    assert len((tmp_path / "a" / "settings.csv").read_text().splitlines()) == 109


@pytest.mark.usefixtures("no_figures")
def test_own_table_without_printed_summaries(tmp_path):
    table = tmp_path / "mine.csv"
    table.write_text(f"{HEADER}\nm,1,0.50,0.60,0.10,15,5\nm,2,0.50,0.45,-0.05,5,10\n")
    assert reanalyze([str(table), "--out", str(tmp_path / "out")]) == 0
    data = json.loads((tmp_path / "out" / "reanalysis.json").read_text())
    assert data["settings"] == 2 and data["compared_cells"] == 0 and data["contradictions"] == []
    assert (tmp_path / "out" / "mismatches.csv").read_text().startswith("table,key,column")


def test_contradicting_numbers_are_reported_not_refused():
    text = f"{HEADER}\nm,1,0.50,0.60,0.20,15,5\nm,2,0.51,0.60,0.10,15,5\n"
    _, contradictions = read_settings(text, 100)
    assert [c.split(":")[0] for c in contradictions] == [
        "table, line 2 (m, routers=1)",
        "table, line 3 (m, routers=2)",
        "table, line 3 (m, routers=2)",
    ]


def test_rounded_accuracies_stand_for_counts():
    rows, contradictions = read_settings(f"{HEADER}\nm,1,0.333,0.667,0.333,1,0\n", 3)
    assert (rows[0].clean_accuracy, rows[0].gain, contradictions) == (1 / 3, 1 / 3, [])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            "m,1,0.26,1.43,0.17,21,4",
            r"line 2 \(m, routers=1\): noisy_accuracy is 1.43. Expected a share",
        ),
        ("m,1,26,43,17,21,4", "not per cent"),
        (
            "m,1,0.26,0.43,0.17,30,27",
            "degrade states 27 items, but only 26 of 100 items were answered right",
        ),
        (
            "m,1,0.26,0.43,0.17,75,4",
            "improve states 75 items, but only 74 of 100 items were answered wrongly",
        ),
        ("m,1,0.26,0.43,0.17,-1,4", "whole number"),
        ("m,1,0.26,0.43,0.17,2.5,4", "whole number"),
        ("m,one,0.26,0.43,0.17,21,4", "routers is 'one'"),
        ("m,1,,0.43,0.17,21,4", "clean_accuracy is ''"),
        ("m,1,nan,0.43,0.17,21,4", "Expected a number"),
        ("m,1,0.265,0.43,0.17,21,4", "no number of right answers out of 100 gives this"),
        ("m,1,0.26", "fewer cells"),
        (f"{EXAMPLE}\n{EXAMPLE}", "line 3.*occurs twice"),
    ],
)
def test_bad_rows_are_named(row, message):
    with pytest.raises(DataError, match=message):
        read_settings(f"{HEADER}\n{row}\n", 100)


def test_missing_column_empty_table_missing_file(tmp_path, capsys):
    with pytest.raises(
        DataError, match=r"lacks the column improve; found .*Expected the header: model,routers"
    ):
        read_settings("model,routers,clean_accuracy,noisy_accuracy,gain,degrade\n", 100)
    with pytest.raises(DataError, match="no rows"):
        read_settings(HEADER + "\n", 100)
    with pytest.raises(DataError, match="found nothing"):
        read_settings("", 100)
    assert reanalyze([str(tmp_path / "none.csv"), "--out", str(tmp_path)]) == 1
    assert "error: " in capsys.readouterr().err


@pytest.mark.parametrize(
    "flags", [["--n", "0"], ["--chance", "0.9"], ["--chance", "0"], ["--n", "37"]]
)
def test_bad_flags(tmp_path, capsys, flags):
    assert reanalyze(["--out", str(tmp_path), *flags]) == 1
    assert flags[0] in capsys.readouterr().err


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize("words", [[], pytest.param(["li2026"], marks=pytest.mark.long)])
def test_a_folder_that_cannot_be_made_is_refused(tmp_path, capsys, words):
    (tmp_path / "file").write_text("")
    assert reanalyze([*words, "--out", str(tmp_path / "file" / "out")]) == 1
    assert "error: Cannot write" in capsys.readouterr().err


def test_a_printed_cell_may_be_rounded_but_not_off_by_one_digit():
    table2 = f"{HEADER}\nm,1,0.50,0.60,0.10,15,5\nm,2,0.50,0.55,0.05,10,5\n"
    table1 = f"model,{','.join(TABLE1_COLUMNS)}\nm,2,1,0.1,{{}},0.075\n"
    table3 = f"routers,{','.join(TABLE3_COLUMNS)}\n1,1,1,0.1,15,5,10\n2,1,1,0.05,10,5,5\n"
    # The mean excess is .075: printed .07 or .08 are both its rounding to two digits, .076 is not
    # to three.
    for printed, wrong in (("0.07", 0), ("0.08", 0), ("0.075", 0), ("0.076", 1), ("0.074", 1)):
        result, _ = analyse(table2, printed=(table1.format(printed), table3), simulations=10)
        assert [m.column for m in result.mismatches] == ["mean_positive_excess"] * wrong, printed
