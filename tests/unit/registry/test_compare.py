"""Two runs of the same questions: what changed, with known answers; and what is refused as not
comparable."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands_here import compare as main
from commands_here import import_logs
from governed import Capsys, rewrite
from registered_runs import EditedRun, make_run

import audit
from audit.commands.demo import shipped
from audit.core.errors import DataError
from audit.core.number_text import percent
from audit.registry.comparison import compare_runs, page, remaining_share
from audit.shards.panel import write_panel
from audit.statistics.mcnemar import mcnemar_exact
from audit.statistics.versions import Lasting, paired_difference, tango_interval


def changes(capsys: Capsys, before: Path, after: Path) -> list[dict[str, Any]]:
    """What `audit compare` says of two runs as JSON."""
    capsys.readouterr()
    assert main([str(before), str(after), "--json"]) == 0
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return rows


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two versions of a model on the same forty questions; the second is better."""
    folder = tmp_path_factory.mktemp("versions")
    first = make_run(folder / "v1", n=40, clean_accuracy=0.4)
    return first, make_run(folder / "v2", n=40, clean_accuracy=0.85, seed=4, revision="rev2")


def test_a_paired_difference_is_mcnemars_with_tangos_interval() -> None:
    x = np.array([0] * 9 + [1] * 3 + [1] * 20 + [0] * 8 + [np.nan])
    y = np.array([1] * 9 + [0] * 3 + [1] * 20 + [0] * 8 + [1.0])
    change = paired_difference(x, y, np.arange(41), rng=np.random.default_rng(0))
    assert (change.n, change.improve, change.degrade, change.difference) == (40, 9, 3, 6 / 40)
    assert (
        change.pvalue == mcnemar_exact(9, 3, two_sided=True) == pytest.approx(0.1459961)
    )  # 2 P(X >= 9 of 12)
    assert change.midp == pytest.approx(0.1459961 - 220 / 4096)  # less P(X = 9), C(12, 9) = 220
    assert change.low < 0 < change.difference < change.high
    with pytest.raises(DataError, match="in both runs is 0"):
        paired_difference(
            np.array([np.nan]), np.array([1.0]), np.array([0]), rng=np.random.default_rng(0)
        )


@pytest.mark.parametrize(
    ("n", "up", "down"), [(100, 0.2, 0.0), (100, 0.1, 0.1), (208, 0.15, 0.05), (50, 0.02, 0.02)]
)
def test_tangos_interval_covers(n: int, up: float, down: float) -> None:
    """Also where nothing goes down, where one that takes the changed questions as given covers half
    the time."""
    draws, counts = np.unique(
        np.random.default_rng(1).multinomial(n, [up, down, 1 - up - down], size=1500),
        axis=0,
        return_counts=True,
    )
    limits = [tango_interval(int(b), int(c), n) for b, c, _ in draws]
    covered = np.average([low <= up - down <= high for low, high in limits], weights=counts)
    assert covered > 0.93


def test_clustered_questions_are_compared_by_cluster() -> None:
    """Ten questions in two clusters that move together: as questions p is 2^-9, as clusters it
    cannot be below 1/2."""
    x, y, cluster = np.zeros(10), np.ones(10), np.repeat([0, 1], 5)
    change = paired_difference(x, y, cluster, rng=np.random.default_rng(0))
    assert change.units == 2 and change.pvalue > 0.4
    # Both rose, or neither changed: two show no spread, and that none of two falls is likely (.025
    # at a share of .84).
    assert (change.low, change.high) == pytest.approx((1 - (1 - 0.025 ** (1 / 2)), 1))
    still = paired_difference(x, x, cluster, rng=np.random.default_rng(0))
    assert (still.low, still.high) == pytest.approx((0.025 ** (1 / 2) - 1, 1 - 0.025 ** (1 / 2)))


def test_what_changed_is_said_and_every_question_listed(
    two: tuple[Path, Path], tmp_path: Path, capsys: Capsys
) -> None:
    out = tmp_path / "changed.html"
    assert main([str(two[0]), str(two[1]), "--out", str(out)]) == 0
    output = capsys.readouterr().out
    assert "m (rev1) -> m (rev2) on synthetic" in output and "Holm" in output
    (cell,) = changes(capsys, *two)
    row = next(s for s in cell["settings"] if s["setting"]["arm"] == "noisy_rewrite")["found"]
    assert row["improve"] - row["degrade"] == round(row["difference"] * 40) > 8
    assert row["pvalue"] == pytest.approx(
        mcnemar_exact(row["improve"], row["degrade"], two_sided=True), rel=1e-5
    )
    assert cell["changed"] == len(cell["questions"])
    shown = out.read_text()
    lead = shown[
        shown.index('class="head"') : shown.index("<table>")
    ]  # what changed stands before any table
    sure = sum(setting["adjusted"] <= 0.05 for setting in cell["settings"])
    assert (
        0 < sure <= len(cell["settings"]) and f">{sure} of {len(cell['settings'])} scores" in lead
    )
    assert f"{cell['changed']} questions" in lead and "noisy 1" in shown
    assert (
        shown.count("<details>") == cell["changed"] + 1
        and "script-src" in shown
        and shown.count("<script") == 1
    )


def test_a_comparison_begins_with_the_change_of_the_score_its_replicates_pooled(
    two: tuple[Path, Path], tmp_path: Path, capsys: Capsys
) -> None:
    (change,) = compare_runs(*two)
    score = change.score
    assert score is not None
    first, second = (audit.load(run).settings().to_pylist() for run in two)
    clean = [
        [s["accuracy"] for s in side if s["arm"] == "forward_full"] for side in (first, second)
    ]
    assert len(clean[0]) > 1  # the clean arm was run more than once, and stands in one row
    assert [s.setting.replicate for s in change.settings] == [0] * len(change.settings)
    assert (score.before, score.after) == pytest.approx(tuple(map(np.mean, clean)))
    assert score.difference == pytest.approx(score.after - score.before)
    assert score.low < score.difference < score.high
    capsys.readouterr()
    assert main([str(two[0]), str(two[1])]) == 0
    assert percent(score.after) in capsys.readouterr().out.splitlines()[0]


def test_a_share_whose_interval_is_wide_is_not_printed() -> None:
    narrow = Lasting(0.2, 0.1, 0.1, 0.05, 0.15, 0.001, (0.5, 0.3, 0.7), 400, 400)
    wide = replace(narrow, share=(2.077, 0.685, 33.967))
    assert remaining_share(narrow) == (0.5, 0.3, 0.7)
    assert remaining_share(wide) is remaining_share(replace(narrow, share=None)) is None
    assert remaining_share(replace(narrow, share=(-0.3, -0.5, -0.1))) is None


def test_what_lasts_of_a_change_under_damage(
    two: tuple[Path, Path], tmp_path: Path, capsys: Capsys
) -> None:
    worse, torn = (
        make_run(
            tmp_path / str(gain), n=40, clean_accuracy=0.85, gain=gain, seed=4, revision=str(gain)
        )
        for gain in (-0.4, -0.7)
    )
    for new, least, most in ((two[1], -0.2, 0.2), (worse, 0.2, 0.8)):
        (cell,) = changes(capsys, two[0], new)
        (lasting,) = cell["lasting"]
        estimate = lasting["found"]
        assert (
            lasting["condition"] == "noisy_rewrite"
            and estimate["n"] == 40
            and least < estimate["lost"] < most
        )
        assert estimate["lead"] == pytest.approx(lasting["after"][0] - lasting["before"][0])
        assert estimate["there"] == pytest.approx(lasting["after"][1] - lasting["before"][1])
        assert lasting["adjusted"] == estimate["pvalue"]  # one condition
    # Up by 45 points as published, down under noise: "-30 % lasts" says nothing.
    out = tmp_path / "page.html"
    assert main([str(two[0]), str(torn), "--out", str(out)]) == 0
    output = capsys.readouterr().out
    (change,) = compare_runs(two[0], torn)
    share = change.lasting[0].found.share
    assert share is not None and share[0] < 0
    assert f"({percent(share[0])}" not in output and percent(share[0]) not in out.read_text()


def test_what_lasts_of_imported_answers_is_held_against_held_out_items(
    tmp_path: Path, capsys: Capsys
) -> None:
    """Three trials an item: the newer model is right on all items as published, and as before on
    those held out."""
    runs = []
    for name, published in (("old", 0.4), ("new", 1.0)):
        for part, share in (("seen", published), ("held", 0.4)):
            rng = np.random.default_rng(len(runs))
            rows = [
                f"{name},{part}{i},{k},{int(rng.random() < share)}"
                for i in range(60)
                for k in (1, 2, 3)
            ]
            (tmp_path / f"{name}_{part}.csv").write_text(
                "\n".join(["model,item,epoch,correct", *rows]) + "\n"
            )
        runs.append(str(tmp_path / name))
        files = [
            str(tmp_path / f"{name}_seen.csv"),
            "--held-out",
            str(tmp_path / f"{name}_held.csv"),
        ]
        assert import_logs([*files, "--benchmark", "exam", "-o", runs[-1]]) == 0
    capsys.readouterr()
    assert main(runs) == 0
    assert "()" not in capsys.readouterr().out  # logs tell no revision
    (cell,) = changes(capsys, *map(Path, runs))
    (lasting,) = cell["lasting"]
    assert lasting["found"]["n"] == 60 + 60 and lasting["after"][0] == 1
    assert (
        lasting["found"]["lead"] > 0.5
        and lasting["found"]["pvalue"] < 1e-6
        and abs(lasting["found"]["there"]) < 0.2
    )
    assert lasting["before"][1] == pytest.approx(
        0.4, abs=0.12
    )  # of all trials, and not of the first alone


@pytest.mark.long  # two memory runs are judged
def test_a_memory_run_with_likelihoods_is_compared_and_read_by_its_answers_alone(
    tmp_path: Path,
) -> None:
    """Its rows of texts hold no answer; they refused all three of these."""
    run = audit.load(shutil.copytree(shipped(), tmp_path / "run"))
    run.report()
    changes = compare_runs(run.path, run.path, benchmarks=["exam"])
    scores = {
        c.before[0].model: s.found for c in changes for s in c.settings if s.setting.arm == "score"
    }
    score = scores["smollm2_135m_taught"]
    assert all(s.found for c in changes for s in c.settings)  # what neither run asked is left out
    assert score is not None and (score.n, round(104 * score.before), score.difference) == (
        104,
        101,
        0.0,
    )
    rows = {(row["model"], row["benchmark"], row["arm"]): row for row in run.settings().to_pylist()}
    assert rows["smollm2_135m", "held_out", "score"]["answered"] == 103
    assert run.plot().lines


def test_two_suites_are_compared_audit_by_audit(
    two: tuple[Path, Path], tmp_path: Path, capsys: Capsys
) -> None:
    for name, run in zip("ab", two, strict=True):
        folder = tmp_path / name
        runs = [Path(shutil.copytree(run, folder / audit)) for audit in ("sweep", "again")]
        write_panel(folder, runs)
    both = changes(capsys, tmp_path / "a", tmp_path / "b")
    (single,) = changes(capsys, *two)
    smallest = [min(s["adjusted"] for s in cell["settings"]) for cell in (*both, single)]
    # Holm is over twice as many. Two runs of a condition are pooled, so p is of 9,999 sign flips: a
    # standard error of (.01 / 9,999)^.5 = .001 beside .01.
    assert smallest[:2] == pytest.approx([2 * smallest[2]] * 2, rel=0.3)
    assert main([str(tmp_path / "a"), str(two[1])]) == 1
    assert "again, sweep" in capsys.readouterr().err


BENCHMARK = {"n": 12, "revision": "sha256:b", "ids_sha256": "2" * 64}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"benchmark": {"synthetic": BENCHMARK | {"revision": "sha256:c"}}},
            "benchmark's revision",
        ),
        ({"benchmark": {"synthetic": BENCHMARK}}, "questions drawn"),
        (
            {"benchmark": {"synthetic": BENCHMARK}, "config": {"n": 24, "seed": 7}},
            "24 after, seed 42 before",
        ),
        ({"prompt_hashes": {"m": "9" * 64}}, "the prompts"),
        (
            {
                "prompt_hashes": {"m": "9" * 64},
                "config": {"protocols": {"m": {"name": "p", "templates": {"router_noisy": "?"}}}},
            },
            "templates.router_noisy nothing",
        ),
        ({"config": {"model": {"m": {"worker": {"max_tokens": 9}}}}}, "calls.worker.max_tokens"),
        (
            {"models": {"m": {"revision": "rev1", "worker": "m", "reading": "number"}}},
            "how answers are read",
        ),
        ({"status": "running"}, "not finished"),
        ({"library": {"name": "l", "sha256": "5" * 64}}, "none before, 5555"),
    ],
)
def test_what_is_not_comparable_is_refused_by_name(
    built_run: Path, edited_run: EditedRun, changes: dict, says: str, capsys: Capsys
) -> None:
    assert (
        main(
            [
                str(built_run),
                str(edited_run(**{"verdict" if "library" in changes else "manifest": changes})),
            ]
        )
        == 1
    )
    assert says in capsys.readouterr().err


def test_models_of_other_names_are_paired_when_said(
    built_run: Path, capsys: Capsys, tmp_path: Path
) -> None:
    assert main([str(built_run), str(built_run), "--models", "m=m"]) == 0
    assert "0 better, 0 worse of 12  p = 1, mid-p = 1, Holm p = 1" in capsys.readouterr().out
    assert main([str(built_run), str(built_run), "--models", "m=other"]) == 1
    assert "'other'" in capsys.readouterr().err
    assert main([str(built_run), str(built_run), "--models", "m"]) == 1
    assert main([str(built_run), str(tmp_path)]) == 1


@pytest.mark.parametrize(
    ("lacking", "words", "unknown"),
    [("model", "--models m=m", "other=m"), ("benchmark", "--benchmarks synthetic", "lost")],
)
def test_what_one_run_lost_is_not_left_out_in_silence(
    built_run: Path, edited_run: EditedRun, capsys: Capsys, lacking: str, words: str, unknown: str
) -> None:
    other = edited_run()
    names = {"model": "m", "benchmark": "synthetic", lacking: "lost"}
    rewrite(
        other / "report" / "verdict.json",
        lambda verdict: (
            verdict["cells"].append(verdict["cells"][0] | names),
            verdict["rows"].append({**names, "found": 0, "expected": 0}),
        ),
    )

    def lost(manifest: dict[str, Any]) -> None:
        parts = (manifest["models"], manifest["prompt_hashes"], manifest["config"]["model"])
        for part, name in (
            ((part, "m") for part in parts)
            if lacking == "model"
            else [(manifest["benchmark"], "synthetic")]
        ):
            part["lost"] = part[name]
        manifest["stop"] = {"asked": {names["model"]: {names["benchmark"]: 0}}}

    rewrite(other / "manifest.json", lost)
    assert main([str(other), str(built_run)]) == 1 and words in capsys.readouterr().err
    assert main([str(other), str(built_run), *words.split()]) == 0
    assert main([str(other), str(built_run), words.split()[0], unknown]) == 1


def test_hostile_names_and_texts_are_escaped(two: tuple[Path, Path], tmp_path: Path) -> None:
    (change,) = compare_runs(*two)
    bad = "<script>alert(1)</script>"
    question = replace(change.questions[0], text=bad, question_id=bad, gold=bad)
    text = page([replace(change, questions=(question,))], Path(bad), two[1])
    assert text.count("<script") == 1 and text.count("&lt;script&gt;") == 4  # the page's own


def test_imported_logs_are_compared_item_by_item(tmp_path: Path, capsys: Capsys) -> None:
    """Ten trials an item are one item: 30 items rise from .3 to .6, so the change is 30 points of
    30 and not of 300."""
    for name, right, items in (("old", 3, 30), ("new", 6, 31), ("other", 6, 60)):
        rows = "".join(f"{name},{k},{right}/10\n" for k in range(30 if name != "other" else 0))
        rows += "".join(f"{name},{k},0/10\n" for k in range(30 if name != "other" else 0, items))
        (tmp_path / f"{name}.csv").write_text("model,item,correct\n" + rows)
        words = [str(tmp_path / f"{name}.csv"), "--benchmark", "exam", "-o", str(tmp_path / name)]
        assert import_logs(words) == 0
    (cell,) = changes(capsys, tmp_path / "old", tmp_path / "new")
    (setting,) = cell["settings"]
    estimate = setting["found"]
    assert (estimate["n"], estimate["units"], estimate["improve"]) == (30, 30, 30) and estimate[
        "midp"
    ] is None
    assert estimate["difference"] == pytest.approx(0.3) and estimate["before"] == pytest.approx(0.3)
    assert cell["questions"][0]["moves"] == [["score", "30 % right", "60 % right"]]
    assert main([str(tmp_path / "old"), str(tmp_path / "other")]) == 1
    assert "share 30 of 60 items" in capsys.readouterr().err


def test_two_audits_are_no_two_versions(
    two: tuple[Path, Path], tmp_path: Path, capsys: Capsys
) -> None:
    rows = "\n".join(f"a,q{k},{k % 2},exam" for k in range(30))
    (tmp_path / "log.csv").write_text(f"model,item,correct,benchmark\n{rows}\n")
    assert import_logs([str(tmp_path / "log.csv"), "-o", str(tmp_path / "run")]) == 0
    capsys.readouterr()
    assert main([str(two[0]), str(tmp_path / "run")]) == 1
    message = capsys.readouterr().err
    assert "sweep" in message and "memory" in message and "--out" in message
