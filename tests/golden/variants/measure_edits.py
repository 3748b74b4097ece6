"""Do edits that keep the meaning by construction lie within the window?

`python tests/golden/variants/measure_edits.py FILE` prints the table of docs/variants.md. FILE: GSM8K's test.jsonl, or
its first lines. For each edit: how many texts it fits, how far it moves them (cosine distance, as in a build), and how
many lie within the windows. edits.yaml has the synonyms and names. Nearly all are too close, so none is a strategy.
"""

import hashlib
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import yaml

from audit.engines.embedder import DEFAULT_EMBEDDER, cosine_distance, load_embedder
from audit.variants.config import Policy, split_text
from audit.variants.rules import rule_findings

LISTS = yaml.safe_load(Path(__file__).with_name("edits.yaml").read_text())
# What a question says of something before it: asked first, it would point at nothing.
POINTS_BACK = re.compile(
    r"\b(?:he|she|they|it|him|her|them|his|hers|their|its|this|that|these|those|there|such|then|now|so|also|"
    r"instead|still|else|others?|another|both|same|rest)\b",
    re.IGNORECASE,
)
ABOUT_NAMES = re.compile(r"\b(?:letters?|alphabet\w*|vowels?|initials?|spell\w*|names?|named)\b", re.IGNORECASE)


def synonyms(text: str) -> str:
    for pattern, by in LISTS["synonyms"].items():
        text = re.sub(rf"(?<![\w-]){pattern}(?![\w-])", lambda m, by=by: cased(m[0], m.expand(by)), text, flags=re.I)
    return text


def cased(before: str, after: str) -> str:
    return after[0].upper() + after[1:] if before[0].isupper() else after


def question_first(text: str) -> str:
    """Not where the question points back, or is not the only one."""
    facts, question = split_text(text.strip(), Policy(context="last_sentence"))
    if not facts or not question.endswith("?") or text.count("?") > 1 or POINTS_BACK.search(question):
        return text
    return f"{question} {facts.strip()}"


def renamed(text: str) -> str:
    """Not where the text speaks of names or letters, or a name is part of a longer one."""
    said, chosen = set(re.findall(r"[A-Z][a-z]+", text)), {}
    for names in LISTS["names"].values():
        free = [name for name in names if name not in said]
        start = int(hashlib.sha256(text.encode()).hexdigest()[:8], 16)
        chosen |= {name: free[(start + k) % len(free)] for k, name in enumerate(n for n in names if n in said)}
    mine = "|".join(chosen)
    if not mine or ABOUT_NAMES.search(text) or re.search(rf"\b(?:{mine})\s+[A-Z]|\b[A-Z][a-z]+\. (?:{mine})\b", text):
        return text
    return re.sub(rf"\b({mine})\b", lambda m: chosen[m[1]], text)


def together(text: str) -> str:
    return synonyms(question_first(renamed(text)))


EDITS: dict[str, Callable[[str], str]] = {
    "synonyms": synonyms, "question first": question_first, "other names": renamed, "all three": together,
}  # fmt: skip


def main() -> None:
    texts = [json.loads(line)["question"].strip() for line in Path(sys.argv[1]).read_text().splitlines()]
    embedder = load_embedder("transformers", DEFAULT_EMBEDDER, None)
    originals = embedder.embed(texts)
    print(f"{len(texts)} questions\n{'edit':<15} fits median  .15-.45  .20-.50  with a rule finding")
    for name, edit in EDITS.items():
        pairs = [(k, edit(text)) for k, text in enumerate(texts) if edit(text) != text]
        found = embedder.embed([text for _, text in pairs])
        d = np.array([cosine_distance(originals[k], one) for (k, _), one in zip(pairs, found, strict=True)], float)
        general, reasoning = (int(np.sum((d >= low) & (d <= high))) for low, high in ((0.15, 0.45), (0.2, 0.5)))
        odd = sum(bool(rule_findings(texts[k], text)) for k, text in pairs)
        print(f"{name:<15} {len(d):>4} {np.median(d):>6.3f} {general:>8} {reasoning:>8} {odd:>8}", flush=True)


if __name__ == "__main__":
    main()
