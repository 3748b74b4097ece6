"""The file of a human review: jsonl, first a line about the sample, then one variant a line with an empty `finding`."""

from __future__ import annotations

import json
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import numpy as np

from audit.errors import DataError, LibraryError
from audit.shards.files import write_file
from audit.variants.gates.review import FINDINGS, apply_review, draw_review
from audit.variants.record import Library, Variant

ASK = (
    "For each line set finding to ok (the key is still the one right answer), broken (it is not) or unsure; then: "
    "python -m audit.variants review LIBRARY --read THIS_FILE --reviewer NAME"
)


def write_review(library: Library, path: Path, *, n: int, seed: int) -> None:
    """Draw n accepted variants and write them for a person to read."""
    drawn = draw_review(library, n, np.random.default_rng(seed))
    head = {"library": library.sha256, "n": n, "seed": seed, "ask": ASK}
    lines = [head, *map(_line, drawn)]
    write_file(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode())


def _line(variant: Variant) -> dict[str, Any]:
    options = [f"{a}. {text}" for a, text in zip(ascii_uppercase, variant.options, strict=False)]
    return {
        "id": variant.id,
        "context": variant.context,
        "original": variant.original,
        "variant": variant.text,
        "options": options,
        "key": options[variant.gold] if options else variant.target,
        "rules": list(variant.rules),
        "finding": "",
    }


def read_review(library: Library, path: Path, *, reviewer: str) -> Library:
    """The library with the findings of a review file.

    The sample is drawn again from the library and the seed that the file names, so that a file with other variants, or
    with fewer, is refused. Raises LibraryError for a review of another library, DataError for missing findings.
    """
    try:
        head, *lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        made_for, n, seed = str(head["library"]), int(head["n"]), int(head["seed"])
        findings = {str(line["id"]): str(line["finding"]).strip().lower() for line in lines}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is not a review file ({error!r}). Expected one that `review --out` wrote.") from error
    if made_for != library.sha256:
        raise LibraryError(f"{path} is a review of library {made_for[:12]}, not of {library.sha256[:12]}.")
    if empty := [id_ for id_, finding in findings.items() if not finding]:
        raise DataError(
            f"{len(empty)} of {len(findings)} variants in {path} have no finding yet (first: {empty[0]}). Expected "
            f"{', '.join(FINDINGS)} for each: a sample that is read in part is no longer random."
        )
    drawn = [v.id for v in draw_review(library, n, np.random.default_rng(seed))]
    return apply_review(library, drawn, findings, seed=seed, reviewer=reviewer)
