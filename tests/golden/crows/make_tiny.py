"""A tiny masked language model, and what it gives on CrowS-Pairs: python
tests/golden/crows/make_tiny.py CSV FOLDER

Writes pll.json beside this file: the pseudo-log-likelihoods of the first 40 pairs, and the metric.
No BERT can be had offline; a random BERT of one layer tests the same steps (shared tokens, one mask
at a time, rounding, the metric). Its weights come from numpy's generator, so that they are the same
wherever this runs. The loop below is written after the authors' metric.py, one forward pass a mask,
and shares no code with the package."""

import csv
import difflib
import json
import string
import sys
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
WORDS = [
    "the",
    "a",
    "an",
    "and",
    "or",
    "to",
    "of",
    "in",
    "on",
    "at",
    "for",
    "with",
    "was",
    "is",
    "he",
    "she",
    "they",
]


def make(folder: Path) -> None:
    """Saves model and tokenizer in `folder`, as from_pretrained reads them."""
    import torch
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer
    from tokenizers.processors import BertProcessing
    from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

    folder.mkdir(parents=True, exist_ok=True)
    letters = [*string.ascii_lowercase, *string.digits]
    vocabulary = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *string.punctuation,
        *letters,
        *(f"##{c}" for c in letters),
    ]
    vocabulary += [word for word in WORDS if word not in vocabulary]
    ids = {token: i for i, token in enumerate(vocabulary)}
    words = Tokenizer(WordPiece(ids, unk_token="[UNK]"))
    words.normalizer, words.pre_tokenizer = BertNormalizer(lowercase=True), BertPreTokenizer()
    words.post_processor = BertProcessing(("[SEP]", ids["[SEP]"]), ("[CLS]", ids["[CLS]"]))
    special = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    PreTrainedTokenizerFast(
        tokenizer_object=words,
        model_max_length=512,
        **{f"{name}_token": token for name, token in special.items()},
    ).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=512,
        tie_word_embeddings=False,
    )
    model = BertForMaskedLM(config)
    rng = np.random.default_rng(20)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            drawn = rng.normal(0, 0.4, size=tuple(parameter.shape)).astype(np.float32)
            parameter.copy_(
                torch.from_numpy(drawn + (1.0 if name.endswith("LayerNorm.weight") else 0.0))
            )
    model.save_pretrained(folder)


def score(first: str, second: str, model: Any, tokenizer: Any) -> tuple[float, float]:
    """The authors' mask_unigram: every shared token masked alone, sums of log-softmax at the
    mask."""
    import torch

    ids = [tokenizer.encode(text, return_tensors="pt") for text in (first, second)]
    tokens = [[str(x) for x in row[0].tolist()] for row in ids]
    spans: list[list[int]] = [[], []]
    for op in difflib.SequenceMatcher(None, tokens[0], tokens[1]).get_opcodes():
        if op[0] == "equal":
            spans[0] += list(range(op[1], op[2]))
            spans[1] += list(range(op[3], op[4]))
    totals = [0.0, 0.0]
    for i in range(1, len(spans[0]) - 1):  # the first and the last are [CLS] and [SEP]
        for side in (0, 1):
            masked = ids[side].clone()
            masked[0][spans[side][i]] = tokenizer.mask_token_id
            with torch.no_grad():
                logits = model(masked).logits[0][spans[side][i]]
            totals[side] += float(
                torch.log_softmax(logits.double(), dim=0)[ids[side][0][spans[side][i]]]
            )
    return totals[0], totals[1]


def main(source: Path, folder: Path, limit: int) -> None:
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    make(folder)
    model, tokenizer = (
        AutoModelForMaskedLM.from_pretrained(folder).eval(),
        AutoTokenizer.from_pretrained(folder),
    )
    with source.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))[:limit]
    pll = [score(row["sent_more"], row["sent_less"], model, tokenizer) for row in rows]
    more = sum(round(a, 3) > round(b, 3) for a, b in pll)
    neutral = sum(round(a, 3) == round(b, 3) for a, b in pll)
    metrics = {
        "n": len(rows),
        "more": more,
        "neutral": neutral,
        "pll": [[round(a, 4), round(b, 4)] for a, b in pll],
    }
    (HERE / "pll.json").write_text(
        json.dumps(metrics, separators=(",", ":")) + "\n", encoding="utf-8"
    )
    print({key: metrics[key] for key in ("n", "more", "neutral")})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), 40)
