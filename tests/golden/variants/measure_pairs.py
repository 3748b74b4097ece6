"""What the distance window and the rules say of 20 hand-written questions, reworded with and
without their meaning.

`python tests/golden/variants/measure_pairs.py` prints the table of docs/do/variants.md. pairs.jsonl
was written for this: a true paraphrase, nearly the same paraphrase with the meaning changed, and
the original with the least change."""

import json
from pathlib import Path
from statistics import median

from audit.engines.embedder import Embedder, cosine_distance, load_embedder
from audit.variants.rules import rule_findings

KINDS = ("paraphrase", "changed_paraphrase", "minimal_change", "unrelated")
LOW, HIGH = 0.15, 0.45


def measure(embedder: Embedder) -> dict[str, tuple[float, float, float]]:
    """kind -> (share within the window, median distance, share with a rule finding)."""
    rows = [
        json.loads(line)
        for line in (Path(__file__).parent / "pairs.jsonl").read_text().splitlines()
    ]
    for row, other in zip(rows, [*rows[1:], rows[0]], strict=True):
        row["unrelated"] = other["original"]
    originals = embedder.embed([row["original"] for row in rows])
    figures = {}
    for kind in KINDS:
        texts = [row[kind] for row in rows]
        pairs = zip(originals, embedder.embed(texts), strict=True)
        distances = [d for a, b in pairs if (d := cosine_distance(a, b)) is not None]
        within = sum(LOW <= d <= HIGH for d in distances) / len(rows)
        flagged = sum(
            bool(rule_findings(row["original"], text))
            for row, text in zip(rows, texts, strict=True)
        )
        figures[kind] = (within, median(distances), flagged / len(rows))
    return figures


if __name__ == "__main__":
    for kind, (within, middle, flagged) in measure(load_embedder()).items():
        print(
            f"{kind:<20} within {within:.0%}  median distance {middle:.3f}  rule finding {flagged:.0%}"
        )
