"""The report and verdict of a suite's runs, from what lies in its directory alone: made once, and made again to check.

What verdict.json says of the suite: what was pinned, the thresholds, and both rules beside each other.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from audit.audits import audit_of, part_of
from audit.decision import decision_of
from audit.errors import ConfigError
from audit.panel import SUITE, panel_runs
from audit.report.build import ReportPaths
from audit.report.joint import joint_report
from audit.shards.files import file_sha256
from audit.suite.commands import domain_of, domain_thresholds
from audit.suite.read import suite_of
from audit.suite.schema import Suite
from audit.suite.source_rule import sentences, source_ruled, source_thresholds
from audit.verdict.vocabulary import word_of


def judge_suite(run_dir: Path, out: Path, own: Mapping[str, Path] | None = None) -> ReportPaths:
    """Judge the runs of a suite's directory into `out`. own: where each audit's own report goes; `out`/<audit>.

    Raises ConfigError where suite.json is not one that a suite was run with.
    """
    return joint_report(panel_runs(run_dir) or [], out, {}, section_of(run_dir), own)


def section_of(run_dir: Path) -> Callable[[Mapping[str, Mapping[str, Any]]], dict[str, Any]]:
    """What verdict.json says of the suite in a directory, once the verdicts by audit are given. Raises ConfigError."""
    path = run_dir / SUITE
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        suite, model = suite_of(state["suite"]), dict(state["model"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} is not the suite of these runs ({error!r}). Restore it.") from error
    dirs = {audit_of(run).name: run for run in panel_runs(run_dir) or []}
    return partial(suite_section, suite, run_dir, model, dirs)


def suite_section(
    suite: Suite,
    run_dir: Path,
    model: Mapping[str, Any],
    dirs: Mapping[str, Path],
    verdicts: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """What verdict.json says of the suite. verdicts: by audit."""
    thresholds = source_thresholds(suite)
    source = source_ruled(dirs["perturb"], thresholds) if "perturb" in dirs else []
    words = part_of("perturb", "vocabulary").VERDICTS
    ours = {
        (cell["model"], cell["benchmark"]): str(decision_of(word_of(words, cell)))
        for cell in verdicts.get("perturb", {}).get("cells", ())
    }
    return {
        "audit_suite_id": suite.audit_suite_id,
        "suite_sha256": file_sha256(run_dir / SUITE),
        "gate": suite.gate,
        "forms_required": suite.governance.forms_required,
        "domain": domain_of(suite),
        "model": dict(model),
        "audits": list(dirs),
        "thresholds": {**thresholds, "effect_of_interest": domain_thresholds(suite).effect_of_interest},
        "governance": asdict(suite.governance),
        "source": source,
        "sentences": sentences(suite, source, ours),
    }
