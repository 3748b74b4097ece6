"""Write what a person reads of an experiment: its plan, its result, and the chart of dose and
response."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from audit.core.json_types import plain
from audit.core.number_text import percent, pvalue
from audit.perturb.record import BrokenShare
from audit.plant.config import learning_rate
from audit.plant.indicators import BY_NAME, N_SPLITS, Bench, findings
from audit.plant.measure import Reading
from audit.plant.resolve import Experiment
from audit.plant.train import PROVENANCE
from audit.report.sensitivity import STANDARD, chance_of, quote
from audit.statistics.multiplicity import holm

SCHEMA_VERSION = 2
_DIGITS = 6  # significant digits, so that a p of 1e-10 does not become 0


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
    """Return the entry of one model in sensitivity.json. NaN is null.

    Parameters
    ----------
    bench : Bench
        The items.
    label : str
        "base", or "<form>-<passes>"; the base model is form "none", passes 0.
    model, base : Reading
        Readings of the model and of the base model.
    loss : float or None
        Loss of its last pass.
    audits : sequence of str
        Audits that were run. Each gets the smallest p of its indicators after Holm's correction
        over them.
    alpha, seed, n_splits : float or int
        As in `findings`.

    Returns
    -------
    dict
        JSON content; accuracy is on the items learnt, and on the others.

    Notes
    -----
    An audit's runs can give one indicator of another audit (the originals of a rewording give the
    score gap); that does not count as the other audit.
    """
    form, _, passes = label.rpartition("-")
    key_asked = next(key for key in ("score/0", "original/0", "direct/0") if model.correct.get(key))
    value = model.array(key_asked)
    results = findings(bench, model, base, alpha=alpha, seed=seed, n_splits=n_splits)
    by_audit: dict[str, list[float]] = {}
    for finding in results:
        if finding.audit in audits:
            by_audit.setdefault(finding.audit, []).append(finding.pvalue)
    smallest = {name: float(np.min(holm(ps))) for name, ps in by_audit.items()}
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
        "audits": {name: {"pvalue": p, "noticed": p <= alpha} for name, p in smallest.items()},
    }
    return plain(row, _DIGITS)


def markdown(found: Mapping[str, Any]) -> str:
    """Return the dose-response table of sensitivity.json: one line for an indicator of a plant."""
    chance = f"chance to find, {STANDARD.n:,}/{STANDARD.held_out:,} items, {STANDARD.references} references (95 %)"
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
    for plant in found["plants"]:
        for k, finding in enumerate(plant["found"]):
            learnt, others = plant["accuracy"]
            first = [plant["form"], str(plant["passes"]), f"{learnt:.2f} / {others:.2f}"]
            area, false = finding["area"], finding["false_alarms"]
            n = chance_of(found, plant, finding["indicator"], STANDARD) if plant["passes"] else None
            cells = [
                *(first if k == 0 else ["", "", ""]),
                finding["indicator"],
                *(
                    "-" if mean is None else f"{mean:.3f}"
                    for mean in (finding["learnt"], finding["others"])
                ),
                "-"
                if area is None
                else f"{area['auc']:.2f} ({area['low']:.2f}-{area['high']:.2f})",
                f"{finding['pvalue']:.2g}",
                "yes" if finding["noticed"] else "no",
                "-" if n is None else f"{n.estimate:.2f} ({n.low:.2f}-{n.high:.2f})",
                f"{percent(false)} of splits" if finding["null"] == "splits" else pvalue(false),
            ]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def legend() -> str:
    """Return what each indicator is, and what it needs, as a list."""
    return "\n".join(
        f"- `{indicator.name}` ({f'audit.{indicator.audit}' if indicator.audit else 'in no verdict'}"
        f"{'; needs ' + indicator.needs if indicator.needs else ''}): {indicator.words}."
        for indicator in BY_NAME.values()
    )


def plan_lines(experiment: Experiment) -> list[str]:
    """Return what would be trained and asked, as lines."""
    config, halves = experiment.config, experiment.halves
    n, plants = len(halves.questions), len(experiment.forms) * (len(experiment.doses) - 1)
    questions_of = {
        "memory": n * (2 + config.option_orders + 1 + config.orders),
        "perturb": n * (1 + config.num_variants),
        "sweep": n * 3,
    }
    rows = sum(questions_of[name] for name in config.audits)
    return [
        f"model    {experiment.model.name} {experiment.weights.revision}",
        f"learnt   {len(halves.learnt)} of {n} items of {config.benchmark.name}; never shown: {len(halves.others)}",
        f"train    {config.train.method}, lr {learning_rate(config):g}, {', '.join(experiment.forms)}, "
        f"{max(experiment.doses)} passes each, kept after {', '.join(str(d) for d in experiment.doses if d)}",
        f"ask      {plants + 1} models, about {rows} questions each ({', '.join(config.audits)})",
        f"to       {experiment.path}",
    ]


def result_of(
    experiment: Experiment, readings: Mapping[str, Reading], n_splits: int = N_SPLITS
) -> tuple[dict[str, Any], str]:
    """Return the content of sensitivity.json, and the table and sentences as text.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    readings : mapping of str to Reading
        Readings by label.
    n_splits : int
        Number of random splits.

    Returns
    -------
    found : dict
        JSON content.
    text : str
        Markdown.
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
    how: dict[str, Any] = {
        "audits": config.audits,
        "alpha": config.alpha,
        "seed": config.seed,
        "n_splits": n_splits,
    }
    base = readings["base"]
    rows = [
        plant_row(bench, label, one, base, _loss(experiment, label), **how)
        for label, one in readings.items()
    ]
    found = {
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
        "plants": sorted(rows, key=lambda one: (one["passes"] > 0, one["form"], one["passes"])),
    }
    model, benchmark = experiment.model.name, config.benchmark.name
    said = [
        f"- {audit}: {quote(found, audit, model, benchmark, STANDARD)}" for audit in config.audits
    ]
    return found, "\n\n".join([markdown(found), legend(), "\n".join(said)]) + "\n"


def _loss(experiment: Experiment, label: str) -> float | None:
    path = experiment.folder_of(label) / PROVENANCE
    if not path.is_file():
        return None
    about = json.loads(path.read_text(encoding="utf-8"))
    return float(about["loss_by_pass"][-1])


def write_figure(found: Mapping[str, Any], path: Path) -> None:
    """Draw the chance to find a plant by dose, for each form.

    Parameters
    ----------
    found : mapping
        Content of sensitivity.json; the indicators of some audit's verdict are drawn. Nothing is
        written if nothing was planted.
    path : Path
        The file.
    """
    planted = [plant for plant in found["plants"] if plant["passes"]]
    forms = list(dict.fromkeys(plant["form"] for plant in planted))
    if not forms:
        return
    from matplotlib.figure import Figure

    fig = Figure(figsize=(4.5 * len(forms) + 2.5, 4))
    axes = fig.subplots(1, len(forms), sharey=True, squeeze=False)
    names = [name for name, plant in BY_NAME.items() if plant.audit]
    for ax, form in zip(axes[0], forms, strict=True):
        of_form = [plant for plant in planted if plant["form"] == form]
        for k, name in enumerate(names):
            tried = [
                (plant["passes"], chance_of(found, plant, name, STANDARD)) for plant in of_form
            ]
            points = [(passes, n.estimate, n.low, n.high) for passes, n in tried if n is not None]
            if points:
                passes, y, low, high = np.transpose(points)
                x = passes * (1 + 0.02 * k)  # shifts the points, so that all bars are seen
                bars = [(y - low).tolist(), (high - y).tolist()]
                ax.errorbar(
                    x, y, bars, marker="o", ms=4, lw=1, elinewidth=0.6, label=name, color=f"C{k}"
                )
        ax.axhline(found["alpha"], color="0.6", lw=0.8, ls=":")
        doses = sorted({plant["passes"] for plant in of_form})
        ax.set(
            title=form,
            xlabel="passes",
            ylim=(-0.03, 1.03),
            xscale="log",
            xlim=(0.8 * doses[0], 1.6 * doses[-1]),
        )
        ax.set_xticks(doses, [str(dose) for dose in doses])
        ax.minorticks_off()
    axes[0][0].set_ylabel("chance to find (95 %)")
    axes[0][-1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False, fontsize=8)
    fig.tight_layout()
    fig.savefig(path, dpi=110)
