"""How far are the embedded rewordings from their originals? `python -m bench.variant_distances --weights FOLDER`

Cosine distance (1 - cosine) of mean-pooled (padding masked), L2-normalised embeddings of stem and rewording, both
without options. FOLDER is an unpacked all-MiniLM-L6-v2 in the transformers layout. Prints n, quantiles, the share in
the window and how many items have three rewordings in it.
"""

import argparse
import json
from collections import Counter
from importlib.resources import files

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.load import open_benchmark

WINDOW = (0.15, 0.45)
QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
BATCH = 64


def embed(folder: str, texts: list[str]) -> np.ndarray:
    """Unit vectors, shape (texts, 384)."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    parts = []
    for start in range(0, len(texts), BATCH):
        batch = tokenizer(texts[start : start + BATCH], padding=True, truncation=True, return_tensors="pt")
        with torch.inference_mode():
            states = model(**batch).last_hidden_state
        mask = batch["attention_mask"].unsqueeze(-1).float()
        means = (states * mask).sum(1) / mask.sum(1)
        parts.append(torch.nn.functional.normalize(means, dim=1).numpy())
    return np.concatenate(parts)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.variant_distances", description=__doc__)
    parser.add_argument("--weights", required=True, help="folder of an all-MiniLM-L6-v2")
    folder = parser.parse_args().weights
    torch.set_num_threads(1)
    stems = {q.id: q.text for q in open_benchmark(BenchmarkConfig()).iter_questions()}
    text = files("audit").joinpath("data", "variants", "elementary.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    vectors = dict(zip(stems, embed(folder, list(stems.values())), strict=True))
    originals = np.stack([vectors[row["question_id"]] for row in rows])
    distances = 1 - np.sum(originals * embed(folder, [row["text"] for row in rows]), axis=1)
    inside = (distances >= WINDOW[0]) & (distances <= WINDOW[1])
    per_item = Counter(row["question_id"] for row, kept in zip(rows, inside, strict=True) if kept)
    print(f"{len(rows)} rewordings of {len(stems)} items")
    print("quantiles", ", ".join(f"{q:.0%}: {np.quantile(distances, q):.3f}" for q in QUANTILES))
    full = sum(n >= 3 for n in per_item.values())
    print(f"inside {WINDOW[0]}-{WINDOW[1]}: {inside.mean():.1%}; items with three inside: {full}")


if __name__ == "__main__":
    main()
