"""Golden values of song2026's Table 2, by libraries that the program does not use for them.

p-values in exact rational arithmetic (fractions of binomial coefficients), corrections by
statsmodels. Run `python tests/golden/statistics/make_panel.py` to rewrite panel.json; a test runs it and compares.
"""

import csv
import json
from fractions import Fraction
from math import comb
from pathlib import Path

from statsmodels.stats.multitest import multipletests

ROOT = Path(__file__).resolve().parents[3]


def one_sided(improve: int, degrade: int) -> Fraction:
    """P(X >= improve), X ~ Binomial(m, 1/2), in exact rational arithmetic."""
    m = improve + degrade
    return Fraction(sum(comb(m, k) for k in range(improve, m + 1)), 2**m)


def panel() -> dict:
    with (ROOT / "audit/data/song2026/table2_model_router.csv").open() as handle:
        rows = list(csv.DictReader(handle))
    p = [float(one_sided(int(r["improve"]), int(r["degrade"]))) for r in rows]
    holm, bh = multipletests(p, method="holm")[1], multipletests(p, method="fdr_bh")[1]
    return {
        "violations": sum(int(r["improve"]) > int(r["degrade"]) for r in rows),
        "p_below_05": sum(x < 0.05 for x in p),
        "holm_below_05": int(sum(holm < 0.05)),
        "bh_below_05": int(sum(bh < 0.05)),
        "pvalues": {f"{r['model']} r={r['routers']}": round(x, 12) for r, x in zip(rows, p, strict=True)},
    }


if __name__ == "__main__":
    path = Path(__file__).with_name("panel.json")
    path.write_text(json.dumps(panel(), indent=1) + "\n")
    print(path)
