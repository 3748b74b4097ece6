"""How often do UnifiedQA's answers to BBQ (Sexual orientation) show a difference of form and
content that is none?

    PYTHONPATH=tests:. python tests/golden/statistics/bbq_swaps.py shared/data

Form: ARC's prompt in place of RACE's. Content: the row with the groups swapped (disambiguated:
answers that stayed). Null: the two are exchanged at random, in whole swaps or in whole templates.
Rates of either direction, 600 draws; 5 % is promised."""

import sys
from pathlib import Path

import numpy as np
from published_items import unifiedqa

from audit.core.records import Item
from audit.statistics.selectivity import selectivity
from audit.validity.edits.plan import Partners, _slot, cluster_of

DRAWS = 600
SIZES = (100, 200, 432)


def response(item: Item, text: str) -> int:
    plain = [option.lower().strip().rstrip(".") for option in item.published]
    return plain.index(text.lower().strip().rstrip("."))


def main(folder: Path) -> None:
    items, stored = unifiedqa(folder)
    slots = Partners(items, 1).index
    race, arc = (
        {
            item.id: response(item, stored[item.id][f"unifiedqa-t5-11b_pred_{form}"])
            for item in items
        }
        for form in ("race", "arc")
    )

    def name(item: Item) -> str:
        return (
            "unknown"
            if race[item.id] == item.facts.unknown
            else item.facts.names[race[item.id]][0].lower()
        )

    for context in ("ambig", "disambig"):
        rows = [item for item in items if item.condition == context]
        others = [next(o for o in slots[_slot(item)] if o.id != item.id) for item in rows]
        form = np.array([float(arc[item.id] != race[item.id]) for item in rows])
        moved = np.array(
            [float(name(item) != name(other)) for item, other in zip(rows, others, strict=True)]
        )
        content = moved if context == "ambig" else 1 - moved
        units = {
            kind: np.unique([label(item) for item in rows], return_inverse=True)[1]
            for kind, label in (
                ("example", lambda item: item.group),
                ("swap", cluster_of),
                ("template", lambda item: item.facts.template),
            )
        }
        for exchanged in ("swap", "template"):
            for n in SIZES:
                rng, counts = np.random.default_rng(1), dict.fromkeys(units, 0)
                for _ in range(DRAWS):
                    turned = (rng.random(len(rows)) < 0.5)[units[exchanged]]
                    sample = np.sort(rng.choice(len(rows), n, replace=False))
                    a, b = (
                        np.where(turned, form, content)[sample],
                        np.where(turned, content, form)[sample],
                    )
                    for kind, cluster in units.items():
                        d = selectivity(a, b, np.full(n, np.nan), cluster[sample])
                        counts[kind] += min(d.above_p, d.below_p) <= 0.025
                rates = {kind: f"{100 * count / DRAWS:.1f} %" for kind, count in counts.items()}
                print(f"{context}, {n} rows, exchanged by {exchanged}; clusters: {rates}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
