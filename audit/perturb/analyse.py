"""Judge the cells of a perturbation audit, and quote the error rates of the nearest calibrated
design.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np

from audit.core.json_types import attributes
from audit.core.number_text import percent
from audit.judge.record import Case, Judge, Settings, judge_cells
from audit.judging.result import MAX_ITEMS, Calibration, json_ready, sentence, sentences
from audit.judging.run import JudgedRun
from audit.judging.shipped import log_distance, nearest_design
from audit.judging.simulated import rate_text
from audit.perturb.decide import COUNTED, cannot_exclude, decide, finding, headline, unparsed
from audit.perturb.design import PerturbThresholds
from audit.perturb.evidence import Evidence, measure, panel_pvalues
from audit.perturb.gates import all_gates
from audit.perturb.record import PerturbCell
from audit.perturb.texts import TEXTS
from audit.perturb.vocabulary import PerturbResult
from audit.statistics.wording_drop import item_means
from audit.variants.record import Library


def _measure(
    cell: PerturbCell, s: Settings[PerturbThresholds], rng: np.random.Generator
) -> Evidence | None:
    """Return the statistics of a cell; None if no item has answers to an original and a variant."""
    if np.isnan(item_means(*cell.tested.pair)[0]).all():
        return None
    return measure(cell, s.thresholds, rng=rng, n_resamples=s.n_resamples)


def _result(case: Case[PerturbCell, Evidence | None, tuple[float | None, ...]]) -> PerturbResult:
    """Return the verdict on one cell, and how much the verdict depends on unparsed answers."""
    cell, evidence, gates, limits = case.cell, case.evidence, case.gates, case.settings.thresholds
    found_p, beyond_p, plain_p = case.panel
    decision = decide(evidence, gates, limits, found_p, beyond_p)
    robustness = plain = calibration = None
    if evidence is not None and found_p is not None:
        robustness = unparsed(cell, evidence, decision, limits, (found_p, beyond_p), case.rng)
        if robustness is not None:
            decision = replace(decision, reasons=(*decision.reasons, robustness.reason))
        if plain_p is not None and decision.verdict in COUNTED:
            plain = finding(limits.alpha, found_p, plain_p)
        control = evidence.tests.control
        run = {
            "n": evidence.drop.units,
            "variants": len(cell.tested.variants),
            "references": len(evidence.tests.references),
            "checked": cell.broken.checked if cell.broken else 0,
            "accuracy": evidence.drop.original,
            "unparsed": robustness.share if robustness else 0.0,
            "replicates": cell.tested.runs_that_differ,
            "control": control is not None and control.used,
        }
        calibration = nearest(case.settings.table, run, limits.to_dict())
    return PerturbResult(
        model=cell.tested.model,
        benchmark=cell.benchmark,
        decision=decision,
        headline=sentence(headline(cell, decision, evidence, gates), TEXTS),
        cannot_exclude=sentences(cannot_exclude(cell, evidence), TEXTS),
        gates=gates,
        evidence=evidence,
        found_p=found_p,
        beyond_p=beyond_p,
        plain_p=plain_p,
        plain=plain,
        unparsed=robustness,
        calibration=calibration,
    )


JUDGE = Judge(
    name=lambda cell: (cell.tested.model, cell.benchmark),
    measure=_measure,
    over_panel=panel_pvalues,
    gates=lambda case: all_gates(case.cell, case.settings.thresholds),
    result=_result,
    shipped="calibration_perturb.json",
)
analyse = partial(judge_cells, JUDGE)


@dataclass(frozen=True, kw_only=True)
class RunVerdict(JudgedRun[PerturbCell, PerturbResult]):
    """Hold all judged cells of a run.

    Attributes
    ----------
    library : dict
        Facts about the library of variants (`library_facts`).
    control_library : dict or None
        Facts about the library of variants of the held-out items; None without held-out items.
    """

    audit = "perturb"
    schema_version = "2.2"

    library: dict[str, Any]
    control_library: dict[str, Any] | None = None

    def extra_fields(self) -> dict[str, Any]:
        """Return the fields that a perturbation audit adds to a run in verdict.json."""
        return {"library": self.library, "control_library": self.control_library}

    def extra_cell_fields(self, cell: PerturbCell, result: PerturbResult) -> dict[str, Any]:
        """Return the fields that a perturbation audit adds to a cell in verdict.json."""
        return cell_dict(cell, result)


def cell_dict(cell: PerturbCell, result: PerturbResult) -> dict[str, Any]:
    """Return every statistic of one cell as JSON types.

    Parameters
    ----------
    cell : PerturbCell
        The measured cell.
    result : PerturbResult
        The verdict and the evidence of the cell.

    Returns
    -------
    dict
        The fields of the cell in verdict.json. Of the items, only the flagged and the most
        conspicuous are listed.
    """
    evidence = result.evidence
    tested = cell.tested
    fields: dict[str, Any] = {
        "doubt": result.decision.doubt,
        **attributes(result, "found_p", "beyond_p", "unparsed", "sensitivity"),
        "without_prior": {"beyond_p": result.plain_p, "finding": result.plain},
        "chance": cell.chance,
        "n_questions": cell.n,
        "variants": len(tested.variants),
        "original_replicates": len(tested.original),
        "not_asked": int((~tested.requested_variants).sum()),
        "references": [w.model for w in cell.references],
        **attributes(cell, "broken", "requests"),
        "evidence": None,
    }
    if evidence is not None:
        statistics: dict[str, Any] = json_ready(evidence)
        items = evidence.items
        statistics["items"] = {
            **attributes(items, "method", "smallest_p", "can_flag", "affected"),
            "flagged": [cell.question_ids[i] for i in items.order if items.flagged[i]],
            "most_conspicuous": [cell.question_ids[i] for i in items.order[:MAX_ITEMS]],
        }
        fields["evidence"] = statistics
    return fields


def library_facts(library: Library) -> dict[str, Any]:
    """Return the facts about a library of variants that verdict.json states.

    Parameters
    ----------
    library : Library
        The library from which the variants were asked.

    Returns
    -------
    dict
        Name, benchmark, strategy, window, review, hash, and numbers of candidates.
    """
    about = attributes(library.header, "name", "benchmark", "strategy", "window", "review")
    return {**about, "sha256": library.sha256, "candidates": library.counts}


# Error rates are quoted only from a design within this distance of the run. A design with half the
# items and a different number of references has about this distance.
NEAR = 1.0


def nearest(
    table: Mapping[str, Any] | None,
    run: Mapping[str, Any],
    limits: Mapping[str, float] | None = None,
) -> Calibration | None:
    """Return the error rates of the calibrated design that is nearest to a run.

    Parameters
    ----------
    table : mapping or None
        The table of `audit calibrate`.
    run : mapping
        The design of the run: n, variants, references, checked (variants that a person read),
        accuracy on the originals, unparsed (share of answers), replicates, and control (whether
        held-out items were asked).
    limits : mapping, optional
        The thresholds of the run. The sentence names the thresholds that differ from the table's.

    Returns
    -------
    Calibration or None
        The nearest design. It has no rates if its distance exceeds NEAR. None without a table.

    Notes
    -----
    The distance between run and design is a weighted sum:

    - |log(ratio of the numbers of items)|
    - |log(ratio of the numbers of variants)| / 2
    - |log(ratio of (number of references + 1))|
    - |log(ratio of the numbers of checked variants)| / 4
    - |log(ratio of the numbers of replicates)| / 4
    - 2 * |difference between the accuracies|
    - 10 * (share of unparsed answers - 4 %), if this is positive. The simulations have 4 % unparsed
      answers.
    """
    n, variants, references, checked = itemgetter("n", "variants", "references", "checked")(run)

    def distance(design: Mapping[str, Any]) -> float:
        """Return the distance of a calibrated design from the run."""
        total = log_distance(n, design["n"]) + log_distance(variants, design["variants"]) / 2
        total += log_distance(1 + references, 1 + design["references"])
        total += log_distance(run["replicates"], design["replicates"]) / 4
        total += 2 * abs(run["accuracy"] - design["accuracy"])
        total += 10 * max(run["unparsed"] - 0.04, 0.0)
        return total + (log_distance(checked, design["checked"]) / 4 if checked else 0.0)

    none_near = (
        f"No calibrated design is near: {n} questions, {variants} variants, {references} references, accuracy "
        f"{percent(run['accuracy'])}, {percent(run['unparsed'])} unparsed."
    )
    near = nearest_design(
        table, distance, NEAR, sentence=rates_sentence, none_near=none_near, thresholds=limits
    )
    if near is None or not near.rates:
        return near
    text = near.sentence
    if references and not checked:
        text += (
            " No person has read variants of this run's library, so no drop can be called beyond reference. The rates "
            "are those of a run whose library was read."
        )
    if run["control"] and references:
        text += (
            " The rates are those of a run without held-out items. With held-out items, false positives are rarer, "
            "and so are findings (docs/findings/perturb_calibration.md)."
        )
    return replace(near, sentence=text)


def rates_sentence(entry: Mapping[str, Any]) -> str:
    """Return the error rates of one calibrated design as text.

    Parameters
    ----------
    entry : mapping
        An entry of the calibration table.

    Returns
    -------
    str
        A sentence with four rates: false positives, findings, clearances and false negatives.
    """
    d, r = entry["design"], entry["rates"]
    many = d["references"]
    name = "beyond" if many else "unknown"
    outcome = "a drop beyond reference" if many else "a drop of unknown cause"
    text = (
        f"Nearest calibrated design: {d['n']} items, {d['variants']} variants an item, {many} reference "
        f"{'model' if many == 1 else 'models'}, accuracy {percent(d['accuracy'])}, {d['checked']} variants read by a "
        f"person, {d['replicates']} {'run' if d['replicates'] == 1 else 'runs'} of the original. In simulations, this "
        f"procedure reports {outcome} for {rate_text(r, f'clean_{name}')} of clean models, and for "
        f"{rate_text(r, f'harder_{name}')} if the variants are 5 points harder for all models. It does so for "
        f"{rate_text(r, f'memorised_{name}')} of models that remember 15 % of the items, and for "
        f"{rate_text(r, f'memorised_half_{name}')} of models that remember half."
    )
    if many:
        text += (
            f" Strong findings, which block by default, are {rate_text(r, 'clean_strong')} of clean models, "
            f"{rate_text(r, 'memorised_strong')} of models that remember 15 %, and "
            f"{rate_text(r, 'memorised_half_strong')} of models that remember half. Rates of {outcome} in clean models "
            f"are higher in other worlds: {rate_text(r, 'uneven_beyond')} if models differ by 2 points in their loss "
            "from rewording"
        )
        if r.get("touchy_itself_beyond") is not None:
            text += (
                f", {rate_text(r, 'family_unnamed_beyond')} if all references are of one family and their names do not "
                f"show it, and {rate_text(r, 'touchy_itself_beyond')} if this model alone loses 5 points more without "
                "memory"
            )
        text += "."
    return (
        f"{text} No drop is detected in {rate_text(r, 'clean_cleared')} of clean models "
        f"({rate_text(r, 'clean_unparsed_cleared')} with 4 % of all answers unparsed at random). False negatives: no "
        f"drop is detected in {rate_text(r, 'memorised_5_cleared')} of models that lose 5 points because they remember "
        f"the wording, and in {rate_text(r, 'harder_cleared')} of models that lose 5 points to harder variants. In a "
        f"panel of twelve these rates are at most {rate_text(r, 'memorised_5_cleared_panel')} and "
        f"{rate_text(r, 'harder_cleared_panel')}."
    )
