"""Judge the runs of a suite from its directory alone, so that anyone can recompute the verdict.

The thresholds of the source (the article that defines the format of suites) are applied too. Each
of these thresholds is reported with its false positive rate on clean models.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from audit.config.audits import audit_of
from audit.core.errors import ConfigError
from audit.core.guarded_files import read_json
from audit.core.json_types import attributes
from audit.core.number_text import percent
from audit.judging.decision import Decision
from audit.judging.document import AuditVerdict
from audit.perturb.evidence import clean_alarms
from audit.perturb.report import perturb_cells, read_run, run_library
from audit.report.build import ReportPaths
from audit.report.joint import joint_report
from audit.shards.files import file_sha256
from audit.shards.manifest import Manifest
from audit.shards.panel import SUITE, panel_runs
from audit.statistics.contamination_score import ArticleResult, FalseAlarms, Rule, article_result
from audit.statistics.wording_drop import item_means, wording_flips
from audit.suite.commands import domain_of, domain_thresholds
from audit.suite.read import suite_of
from audit.suite.schema import Suite

Verdicts = Mapping[str, AuditVerdict[Any]]  # maps the name of an audit to its verdict


def source_thresholds(suite: Suite) -> dict[str, float]:
    """Return the source's thresholds by name.

    If the benchmark's domain has separate thresholds, they replace the general thresholds.
    """
    decides = ("review_required_above_cs", "block_deployment_above_contaminated_pct")
    thresholds = {**vars(suite.scoring_config), **attributes(suite.governance, *decides)}
    for name, value in vars(domain_thresholds(suite)).items():
        if name in thresholds and value is not None:
            thresholds[name] = value
    return thresholds


def rules_of(thresholds: Mapping[str, float]) -> tuple[Rule, Rule]:
    """Return the source's two rules, which differ in one threshold.

    The first rule uses the share of flagged items that scoring allows. The second rule uses the
    share of flagged items that blocks a deployment.

    Parameters
    ----------
    thresholds : mapping
        Thresholds by name, as returned by `source_thresholds`.

    Returns
    -------
    tuple of Rule
        The rule for scoring, and the rule for governance (deployment).
    """
    # Shares are rounded. Otherwise a floating-point error could make 25 of 500 items count as more
    # than 5 %.
    allowed = round(thresholds["max_allowed_contaminated_items_pct"] / 100, 12)
    blocked = round(thresholds["block_deployment_above_contaminated_pct"] / 100, 12)
    rule = Rule(
        cs_threshold=thresholds["contamination_threshold"],
        alpha=thresholds["significance_alpha"],
        block_share=allowed,
        review_cs=thresholds["review_required_above_cs"],
    )
    return rule, replace(rule, block_share=blocked)


def ruled(
    thresholds: Mapping[str, float],
    results: Sequence[ArticleResult],
    alarms: Sequence[FalseAlarms | None],
) -> dict[str, Any]:
    """Apply the source's two rules to one model.

    Parameters
    ----------
    thresholds : mapping
        Thresholds by name, as returned by `source_thresholds`.
    results, alarms : sequence
        Results of the model, and rates of false alarms of clean models. Each sequence has one entry
        for each rule of `rules_of`.

    Returns
    -------
    dict
        The decision, and for each threshold the measured value and the false positive rate. A false
        positive rate is the share (0-1) of clean models (or of clean models' items) that exceed the
        threshold in a run of this design. It is None if clean models cannot be simulated for this
        design.
    """
    allowed, blocking = results
    clean, blocked = alarms
    pct, items, models = (
        100 * allowed.flagged_share,
        "of a clean model's items",
        "of clean models of this design",
    )
    above = 100 * blocking.flagged_share
    rows = (
        (
            "contamination_threshold",
            allowed.cs,
            allowed.over_threshold,
            "",
            clean and clean.item_over_threshold,
            items,
        ),
        (
            "significance_alpha",
            None,
            False,
            "",
            clean and clean.item_flagged,
            f"{items}, together with the threshold of CS",
        ),
        (
            "max_allowed_contaminated_items_pct",
            pct,
            allowed.blocked,
            Decision.BLOCK,
            clean and clean.model_blocked,
            models,
        ),
        (
            "review_required_above_cs",
            allowed.cs,
            allowed.review,
            Decision.REVIEW,
            clean and clean.model_review,
            models,
        ),
        (
            "block_deployment_above_contaminated_pct",
            above,
            blocking.blocked,
            Decision.BLOCK,
            blocked and blocked.model_blocked,
            models,
        ),
    )
    keys = ("name", "found", "exceeded", "asks_for", "false_alarms", "false_alarms_of")
    numbers = []
    decision = Decision.PASS
    for row in rows:
        number = {**dict(zip(keys, row, strict=True)), "limit": thresholds[row[0]]}
        numbers.append(number)
        if number["exceeded"] and number["asks_for"] == Decision.BLOCK:
            decision = Decision.BLOCK
        elif number["exceeded"] and number["asks_for"] and decision == Decision.PASS:
            decision = Decision.REVIEW
    score = {"cs": allowed.cs, "flagged": allowed.flagged, "flagged_pct": pct, "n": allowed.n}
    return {"decision": str(decision), **score, "numbers": numbers}


def sentences(
    suite: Suite, source: Sequence[Mapping[str, Any]], decisions: Mapping[tuple[str, str], str]
) -> list[str]:
    """Return sentences that state the decisions of the source's rule and of this program's rule.

    The sentences also state which of the two rules decides.

    Parameters
    ----------
    suite : Suite
        The suite.
    source : sequence of mapping
        Results under the source's rule, as returned by `source_ruled`.
    decisions : mapping
        Maps each (model, benchmark) to the decision of this program's verdict.

    Returns
    -------
    list of str
        The sentences.
    """
    domain = domain_of(suite)
    lines = []
    if suite.domains:
        applied = (
            f"thresholds of domain {domain}"
            if domain in suite.domains
            else "no domain's thresholds"
        )
        lines.append(f"{suite.dataset_config.benchmark_name}: {applied}.")
    gates = "Our verdict" if suite.gate == "ours" else "The source's rule"
    for result in source:
        decision, source_decision = (
            decisions[result["model"], result["benchmark"]],
            result["decision"],
        )
        cell = f"{result['model']} on {result['benchmark']}, rewording"
        agree = (
            f"our verdict is {decision}, and the source's rule gives the same decision"
            if decision == source_decision
            else f"our verdict is {decision}, and the source's rule gives {source_decision}"
        )
        score = (
            f"CS {result['cs']:.3f}, {result['flagged']} of {result['n']} items flagged "
            f"({result['flagged_pct']:.1f} %)"
        )
        lines.append(f"{cell}: {agree} ({score}). {gates} decides.")
        lines += [f"{cell}: {_sentence(number)}" for number in result["numbers"]]
    return lines


def _sentence(number: Mapping[str, Any]) -> str:
    """Return the sentence about one threshold, with its false positive rate."""
    text = f"{number['name']} {number['limit']:g}"
    if number["found"] is not None:
        text += f"{' ' if number['exceeded'] else ' not '}exceeded ({number['found']:.3g})"
        if number["exceeded"] and number["asks_for"]:
            text += f", which leads to {number['asks_for']}"
    rate = number["false_alarms"]
    if rate is None:
        return f"{text}; its false positive rate could not be simulated for this design."
    rates = f"{percent(rate)} {number['false_alarms_of']} (simulated for this rule)"
    return f"{text}; false positives: {rates}."


def source_ruled(run_dir: Path, thresholds: Mapping[str, float]) -> list[dict[str, Any]]:
    """Apply the source's rule to every judged model of a run.

    Parameters
    ----------
    run_dir : Path
        Directory of a perturbation run.
    thresholds : mapping
        Thresholds by name, as returned by `source_thresholds`.

    Returns
    -------
    list of dict
        Result of each model.

    Raises
    ------
    DataError
        If a model has no item with an answer to the original and to a variant.
    """
    manifest, rules = Manifest.load(run_dir), rules_of(thresholds)
    cells = perturb_cells(
        read_run(run_dir), manifest.analysis["judged"], [], run_library(run_dir, manifest).header
    )
    seed = int(manifest.analysis["seed"])
    ruled_cells = []
    for cell in cells:
        original, variants = cell.tested.pair
        compared = item_means(original, variants)[1]
        n = int(np.sum(~np.isnan(compared)))
        accuracy = float(np.nanmean(compared)) if cell.n else float("nan")
        flips = wording_flips(variants, original)
        results, alarms = [], []
        for rule in rules:
            rng = np.random.default_rng(seed)
            results.append(article_result(original, variants, rule))
            alarms.append(clean_alarms(n, accuracy, variants, flips, rng, rule))
        named = {"audit": "perturb", "model": cell.tested.model, "benchmark": cell.benchmark}
        ruled_cells.append(named | ruled(thresholds, results, alarms))
    return ruled_cells


def judge_suite(
    run_dir: Path, out: Path, report_of: Mapping[str, Path] | None = None
) -> ReportPaths:
    """Judge the runs in the directory of a suite, and write their report.

    Parameters
    ----------
    run_dir : Path
        Directory of the suite.
    out : Path
        Directory for the report.
    report_of : mapping, optional
        Maps the name of an audit to the directory for its report. By default, these directories are
        below `out`.

    Returns
    -------
    ReportPaths
        Paths of the written files.

    Raises
    ------
    ConfigError
        If suite.json does not belong to these runs.
    """
    return joint_report(panel_runs(run_dir) or [], out, {}, section_of(run_dir), report_of)


def section_of(run_dir: Path) -> Callable[[Verdicts], dict[str, Any]]:
    """Return a function that builds the suite's section of verdict.json.

    Parameters
    ----------
    run_dir : Path
        Directory of the suite.

    Returns
    -------
    callable
        Function that takes the verdicts by the name of the audit, and returns the section.

    Raises
    ------
    ConfigError
        If suite.json does not belong to these runs.
    """
    path, dirs = run_dir / SUITE, {audit_of(run).name: run for run in panel_runs(run_dir) or []}
    of_runs = []
    try:
        state = read_json(path)
        for run in dirs.values():
            if (run / SUITE).is_file():
                of_runs.append(read_json(run / SUITE))
        suite, model = suite_of(state["suite"]), dict(state["model"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{path} is not the suite.json of these runs ({error!r}). Restore the original file."
        ) from error
    # Each run stores a copy of the suite, without its model. If someone edited thresholds in
    # suite.json afterwards, suite.json differs from this copy.
    without_model = {**state["suite"]}
    without_model.pop("model_config", None)
    if of_runs.count(without_model) < len(of_runs):
        raise ConfigError(
            f"{path} differs from the suite that its runs store. Restore the original file."
        )
    return partial(suite_section, suite, run_dir, model, dirs)


def suite_section(
    suite: Suite,
    run_dir: Path,
    model: Mapping[str, Any],
    dirs: Mapping[str, Path],
    verdicts: Verdicts,
) -> dict[str, Any]:
    """Return the suite's section of verdict.json.

    Parameters
    ----------
    suite : Suite
        The suite.
    run_dir : Path
        Directory of the suite.
    model : mapping
        Name and version of the model, as returned by `check_suite`.
    dirs : mapping
        Run directory of each audit, by the name of the audit.
    verdicts : mapping
        Verdict of each audit, by the name of the audit.

    Returns
    -------
    dict
        The section, with values of JSON types only.
    """
    thresholds = source_thresholds(suite)
    source = source_ruled(dirs["perturb"], thresholds) if "perturb" in dirs else []
    decisions = {}
    if "perturb" in verdicts:
        perturb = verdicts["perturb"]
        for cell in perturb.cells:
            decisions[cell.model, cell.benchmark] = str(cell.grade.decision(perturb.block_at))
    return {
        "audit_suite_id": suite.audit_suite_id,
        "suite_sha256": file_sha256(run_dir / SUITE),
        "gate": suite.gate,
        "forms_required": suite.governance.forms_required,
        "domain": domain_of(suite),
        "model": dict(model),
        "audits": list(dirs),
        "thresholds": {
            **thresholds,
            "effect_of_interest": domain_thresholds(suite).effect_of_interest,
        },
        "governance": asdict(suite.governance),
        "source": source,
        "sentences": sentences(suite, source, decisions),
    }
