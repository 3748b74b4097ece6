"""Write the plan of an experiment, its result, and a dose-response chart, for human readers."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from audit.core.json_types import plain
from audit.core.number_text import listed, percent, pvalue
from audit.perturb.record import BrokenShare
from audit.plant.config import learning_rate
from audit.plant.indicators import INDICATORS, N_SPLITS, Bench, findings
from audit.plant.measure import Reading
from audit.plant.resolve import Experiment, planted_doses
from audit.plant.train import PROVENANCE
from audit.report.sensitivity import STANDARD, chance_of, quote
from audit.statistics.multiplicity import holm

SCHEMA_VERSION = 2
_DIGITS = 6  # significant digits of numbers, so that a p of 1e-10 does not become 0


def plant_row(
    bench: Bench,
    label: str,
    model: Reading,
    base: Reading,
    loss: float | None,
    *,
    audits: Sequence[str],
    alpha: float,
    seed: int,
    n_splits: int = N_SPLITS,
) -> dict[str, Any]:
    """Return the entry of one model in sensitivity.json. NaN values become null.

    Parameters
    ----------
    bench : Bench
        The benchmark's items, with a mark on learnt items.
    label : str
        "base", or "<form>-<passes>". The entry of the base model has form "none" and passes 0.
    model, base : Reading
        Results of the model and of the base model.
    loss : float or None
        Loss of the model's last pass.
    audits : sequence of str
        Audits that were run. For each audit, the entry holds the smallest Holm-adjusted p-value of
        its indicators.
    alpha, seed, n_splits : float or int
        Arguments of `findings`.

    Returns
    -------
    dict
        The entry as JSON content. Accuracy is stated separately for the learnt items and for the
        other items.

    Notes
    -----
    The runs of one audit can also provide an indicator that belongs to another audit. For example,
    the originals of a perturbation audit give the score gap of the memory audit. Such an indicator
    is not included in the smallest p-value of the other audit.
    """
    form, _, passes = label.rpartition("-")
    published = filter(model.correct.get, ("score/0", "original/0", "direct/0"))
    value = model.array(next(published))
    results = findings(bench, model, base, alpha=alpha, seed=seed, n_splits=n_splits)
    by_audit: dict[str, list[float]] = {}
    for finding in results:
        if finding.audit in audits:
            by_audit.setdefault(finding.audit, []).append(finding.pvalue)
    noticed = {}
    for name, pvalues in by_audit.items():
        smallest = float(np.min(holm(pvalues)))
        noticed[name] = {"pvalue": smallest, "noticed": smallest <= alpha}
    row = {
        "form": form or "none",
        "passes": int(passes) if form else 0,
        "loss": loss,
        "accuracy": (
            float(np.nanmean(value[bench.learnt])),
            float(np.nanmean(value[~bench.learnt])),
        ),
        "errors": model.errors,
        "found": results,
        "audits": noticed,
    }
    return plain(row, _DIGITS)


def markdown(result: Mapping[str, Any]) -> str:
    """Return the results in sensitivity.json as a dose-response table in Markdown.

    The table has a line for each indicator and planted model.
    """
    chance = (
        f"chance to find, {STANDARD.n:,}/{STANDARD.held_out:,} items, "
        f"{STANDARD.references} references (95 %)"
    )
    head = [
        "form",
        "passes",
        "accuracy learnt / others",
        "indicator",
        "learnt",
        "others",
        "AUC (95 %)",
        "p",
        "noticed",
        chance,
        "where nothing was learnt",
    ]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for plant in result["plants"]:
        learnt, others = plant["accuracy"]
        first = [plant["form"], str(plant["passes"]), f"{learnt:.2f} / {others:.2f}"]
        for finding in plant["found"]:
            n = None
            if plant["passes"]:
                n = chance_of(result, plant, finding["indicator"], STANDARD)
            area, false = finding["area"], finding["false_alarms"]
            cells = [
                *first,
                finding["indicator"],
                _mean_cell(finding["learnt"]),
                _mean_cell(finding["others"]),
                "-" if area is None else _interval_cell(area["auc"], area["low"], area["high"]),
                f"{finding['pvalue']:.2g}",
                "yes" if finding["noticed"] else "no",
                "-" if n is None else _interval_cell(n.estimate, n.low, n.high),
                f"{percent(false)} of splits" if finding["null"] == "splits" else pvalue(false),
            ]
            lines.append("| " + " | ".join(cells) + " |")
            first = ["", "", ""]
    return "\n".join(lines)


def _mean_cell(mean: float | None) -> str:
    return "-" if mean is None else f"{mean:.3f}"


def _interval_cell(value: float, low: float, high: float) -> str:
    return f"{value:.2f} ({low:.2f}-{high:.2f})"


def legend() -> str:
    """Return a text that explains each indicator and states its requirements."""
    lines = []
    for indicator in INDICATORS:
        source = f"audit.{indicator.audit}" if indicator.audit else "in no verdict"
        needs = f"; needs {indicator.needs}" if indicator.needs else ""
        lines.append(f"- `{indicator.name}` ({source}{needs}): {indicator.words}.")
    return "\n".join(lines)


def plan_lines(experiment: Experiment) -> list[str]:
    """Return the plan as lines of text: what is trained, and which questions are asked."""
    config, halves = experiment.config, experiment.halves
    n, plants = len(halves.questions), len(experiment.forms) * (len(experiment.doses) - 1)
    questions_of = {
        "memory": n * (2 + config.option_orders + 1 + config.orders),
        "perturb": n * (1 + config.num_variants),
        "sweep": n * 3,
    }
    rows = sum(questions_of[name] for name in config.audits)
    doses = listed(planted_doses(experiment))
    return [
        f"model    {experiment.model.name} {experiment.weights.revision}",
        f"learnt   {len(halves.learnt)} of {n} items of {config.benchmark.name}; "
        f"never shown: {len(halves.others)}",
        f"train    {config.train.method}, lr {learning_rate(config):g}, "
        f"{', '.join(experiment.forms)}, {max(experiment.doses)} passes each, kept after {doses}",
        f"ask      {plants + 1} models, about {rows} questions each ({', '.join(config.audits)})",
        f"to       {experiment.path}",
    ]


def result_of(
    experiment: Experiment, readings: Mapping[str, Reading], n_splits: int = N_SPLITS
) -> tuple[dict[str, Any], str]:
    """Return the content of sensitivity.json, and the same results as text.

    Parameters
    ----------
    experiment : Experiment
        The resolved experiment: model, items, training texts and directory.
    readings : mapping of str to Reading
        Maps the label of each model to its results.
    n_splits : int
        Number of random splits.

    Returns
    -------
    result : dict
        Content of sensitivity.json.
    text : str
        Markdown with the dose-response table and an explanation in sentences.
    """
    config, halves = experiment.config, experiment.halves
    review = experiment.library.header.review if experiment.library is not None else None
    questions = halves.questions
    bench = Bench(
        ids=tuple(q.id for q in questions),
        n_options=tuple(len(q.options) for q in questions),
        learnt=np.arange(len(questions)) < len(halves.learnt),
        broken=BrokenShare(review.n, review.broken) if review is not None and review.n else None,
    )
    settings: dict[str, Any] = {
        "audits": config.audits,
        "alpha": config.alpha,
        "seed": config.seed,
        "n_splits": n_splits,
    }
    base = readings["base"]
    rows = []
    for label, reading in readings.items():
        loss = _loss(experiment, label)
        rows.append(plant_row(bench, label, reading, base, loss, **settings))
    rows.sort(key=lambda row: (row["passes"] > 0, row["form"], row["passes"]))
    result = {
        "schema": "sensitivity",
        "schema_version": SCHEMA_VERSION,
        "model": experiment.model.name,
        "model_revision": experiment.weights.revision,
        "benchmark": config.benchmark.name,
        "benchmark_revision": experiment.benchmark_revision,
        "library": experiment.library.sha256 if experiment.library is not None else None,
        "learnt_items": len(halves.learnt),
        "other_items": len(halves.others),
        "learnt_sha256": halves.learnt_sha256,
        "method": config.train.method,
        "lr": learning_rate(config),
        "batch": config.train.batch,
        "rank": config.train.rank if config.train.method == "lora" else None,
        "modules": config.train.modules if config.train.method == "lora" else None,
        "seed": config.seed,
        "audits": list(config.audits),
        "alpha": config.alpha,
        "plants": rows,
    }
    model, benchmark = experiment.model.name, config.benchmark.name
    sentences = []
    for audit in config.audits:
        sentences.append(f"- {audit}: {quote(result, audit, model, benchmark, STANDARD)}")
    return result, "\n\n".join([markdown(result), legend(), "\n".join(sentences)]) + "\n"


def _loss(experiment: Experiment, label: str) -> float | None:
    path = experiment.folder_of(label) / PROVENANCE
    if not path.is_file():
        return None
    about = json.loads(path.read_text(encoding="utf-8"))
    return float(about["loss_by_pass"][-1])


def write_figure(result: Mapping[str, Any], path: Path) -> None:
    """Draw the probability of detecting a planted model against the dose.

    Each form of training text has a panel, and each indicator has a line.

    Parameters
    ----------
    result : mapping
        Content of sensitivity.json. The chart shows the indicators on which an audit's verdict
        depends. If nothing was planted, no file is written.
    path : Path
        Path of the chart.
    """
    plants_of: dict[str, list[Any]] = {}
    for plant in result["plants"]:
        if plant["passes"]:
            plants_of.setdefault(plant["form"], []).append(plant)
    if not plants_of:
        return
    from matplotlib.figure import Figure

    fig = Figure(figsize=(4.5 * len(plants_of) + 2.5, 4))
    axes = fig.subplots(1, len(plants_of), sharey=True, squeeze=False)
    names = [indicator.name for indicator in INDICATORS if indicator.audit]
    for ax, (form, plants) in zip(axes[0], plants_of.items(), strict=True):
        for k, name in enumerate(names):
            points = []
            for plant in plants:
                n = chance_of(result, plant, name, STANDARD)
                if n is not None:
                    points.append((plant["passes"], n.estimate, n.low, n.high))
            if points:
                passes, y, low, high = np.transpose(points)
                # The shift separates the error bars of different lines.
                x = passes * (1 + 0.02 * k)
                bars = [(y - low).tolist(), (high - y).tolist()]
                ax.errorbar(
                    x, y, bars, marker="o", ms=4, lw=1, elinewidth=0.6, label=name, color=f"C{k}"
                )
        ax.axhline(result["alpha"], color="0.6", lw=0.8, ls=":")
        doses = sorted({plant["passes"] for plant in plants})
        ax.set(
            title=form,
            xlabel="passes",
            ylim=(-0.03, 1.03),
            xscale="log",
            xlim=(0.8 * doses[0], 1.6 * doses[-1]),
        )
        ax.set_xticks(doses, list(map(str, doses)))
        ax.minorticks_off()
    axes[0][0].set_ylabel("chance to find (95 %)")
    axes[0][-1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False, fontsize=8)
    fig.tight_layout()
    fig.savefig(path, dpi=110)
