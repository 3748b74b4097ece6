"""Dose and response: the chance to find the plant in a field design, by passes, one line an indicator, one panel a
form."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from audit.plant.indicators import BY_NAME
from audit.report.sensitivity import STANDARD, chance_of
from audit.statistics.notice import Field


def write_figure(found: Mapping[str, Any], path: Path, field: Field = STANDARD) -> None:
    """found: what sensitivity.json holds. The indicators of some audit's verdict; nothing is written where nothing was
    planted."""
    planted = [one for one in found["plants"] if one["passes"]]
    forms = list(dict.fromkeys(one["form"] for one in planted))
    if not forms:
        return
    from matplotlib.figure import Figure

    fig = Figure(figsize=(4.5 * len(forms) + 2.5, 4))
    axes = fig.subplots(1, len(forms), sharey=True, squeeze=False)
    names = [name for name, one in BY_NAME.items() if one.audit]
    for ax, form in zip(axes[0], forms, strict=True):
        of_form = [one for one in planted if one["form"] == form]
        for k, name in enumerate(names):
            tried = [(one["passes"], chance_of(found, one, name, field)) for one in of_form]
            points = [(passes, n) for passes, n in tried if n is not None]
            if points:
                x = [passes * (1 + 0.02 * k) for passes, _ in points]  # beside each other, so that all bars are seen
                y = [n.estimate for _, n in points]
                bars = [[n.estimate - n.low for _, n in points], [n.high - n.estimate for _, n in points]]
                ax.errorbar(x, y, bars, marker="o", ms=4, lw=1, elinewidth=0.6, label=name, color=f"C{k}")
        ax.axhline(found["alpha"], color="0.6", lw=0.8, ls=":")
        doses = sorted({one["passes"] for one in of_form})
        ax.set(title=form, xlabel="passes", ylim=(-0.03, 1.03), xscale="log", xlim=(0.8 * doses[0], 1.6 * doses[-1]))
        ax.set_xticks(doses, [str(dose) for dose in doses])
        ax.minorticks_off()
    axes[0][0].set_ylabel("chance to find (95 %)")
    axes[0][-1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False, fontsize=8)
    fig.tight_layout()
    fig.savefig(path, dpi=110)
