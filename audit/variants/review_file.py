"""Write and read the form of a review: jsonl (a line about the sample, then a variant a line), or a
page.

A drop under rewording counts only above what broken variants could make, so every library needs
this bound. 0 broken of 150 read means at most 2 %, and a library that nobody has read has no bound
at all.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from audit.core.errors import ConfigError, DataError, LibraryError
from audit.core.guarded_files import read_text
from audit.core.prompting import lettered
from audit.shards.files import write_file
from audit.statistics.chance import upper_limit
from audit.variants.record import Library, Review, State, Variant

FINDINGS = ("ok", "broken", "unsure")
READERS = ("person", "model")
_CSS = """
fieldset { margin: 0 0 1rem; }
label { display: inline-block; margin-right: 1.5em; }
input[type=radio] { appearance: auto; display: inline; width: auto; min-height: 0; height: auto; }
"""


def draw_review(library: Library, n: int, rng: np.random.Generator) -> tuple[Variant, ...]:
    """Draw accepted variants by simple random sampling without replacement.

    Parameters
    ----------
    library : Library
        The library.
    n : int
        Size of the sample.
    rng : numpy.random.Generator
        Source of the sample.

    Returns
    -------
    tuple of Variant
        Sample, in the library's order.

    Raises
    ------
    ConfigError
        If n is not between 1 and the number of accepted variants.
    """
    accepted = library.accepted
    if not 1 <= n <= len(accepted):
        raise ConfigError(f"n={n}; expected 1 to {len(accepted)}, the number of accepted variants.")
    return tuple(accepted[i] for i in np.sort(rng.choice(len(accepted), size=n, replace=False)))


def apply_review(
    library: Library,
    drawn: Sequence[str],
    findings: Mapping[str, str],
    *,
    seed: int,
    reviewer: str,
    by: str = "person",
) -> Library:
    """Return the library with a reader's findings: broken variants are no longer accepted.

    Parameters
    ----------
    library : Library
        The library.
    drawn : sequence of str
        Ids of the sample.
    findings : mapping of str to str
        {id: "ok" | "broken" | "unsure"}, one for each of them and no other, because a sample that
        is read in part is no longer random. "unsure" counts as broken in the bound; the variant
        stays out.
    seed : int
        Seed of the sample.
    reviewer : str
        Who read it.
    by : str
        "person", or "model": then there is no bound in the header, as no verdict rests on it.

    Returns
    -------
    Library
        The reviewed library.

    Raises
    ------
    DataError
        If a finding is missing, unknown, or on another variant.
    """
    missing, foreign = sorted(set(drawn) - set(findings)), sorted(set(findings) - set(drawn))
    if missing or foreign:
        lacking = f"There is no finding on {len(missing)} of {len(drawn)} sampled variants"
        problem = f"{lacking}, and {len(foreign)} on others"
        first = [*missing, *foreign][0]
        raise DataError(
            f"{problem} (first: {first}). Expected one finding for each: {', '.join(FINDINGS)}."
        )
    odd = sorted(set(findings.values()) - set(FINDINGS))
    if odd:
        raise DataError(f"Unknown finding {odd[0]!r}. Expected one of {', '.join(FINDINGS)}.")
    broken = sum(word != "ok" for word in findings.values())
    review = Review(len(drawn), broken, round(upper_limit(broken, len(drawn)), 6), seed, reviewer)
    kept = review if by == "person" else None
    variants = []
    for variant in library.variants:
        if variant.id in findings:
            good = findings[variant.id] == "ok"
            state = variant.state if good else State.REVIEWED_BROKEN
            variant = replace(variant, review="ok" if good else "broken", state=state)
        variants.append(variant)
    return Library(replace(library.header, review=kept, parents=(library.sha256,)), tuple(variants))


ASK = (
    "For each line set finding to ok (the key is still the one right answer), broken (it is not) or unsure, and in the "
    "first line read_by to person, or to model where a language model read; then: "
    "audit variants review LIBRARY --read THIS_FILE --reviewer NAME"
)


def write_review(library: Library, path: Path, *, n: int, seed: int) -> None:
    """Draw accepted variants and write them to be read.

    Parameters
    ----------
    library : Library
        The library.
    path : Path
        The file: a page if it ends in .html, else jsonl.
    n, seed : int
        Size and seed of the sample.
    """
    drawn = draw_review(library, n, np.random.default_rng(seed))
    head = {"library": library.sha256, "n": n, "seed": seed, "read_by": "", "ask": ASK}
    rows = [_line(variant) for variant in drawn]
    if path.suffix != ".html":
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in (head, *rows))
        write_file(path, text.encode())
        return
    from audit.report.page import render_page

    page = render_page(
        "variants/review.html.j2",
        rows=(),
        scripts=("variants/review.js",),
        css=_CSS,
        title=f"Read {len(rows)} rewordings",
        subtitle=f"Of {library.header.name}, {library.header.benchmark}.",
        head=json.dumps(head),
        lines=rows,
        findings=FINDINGS,
        readers=READERS,
    )
    write_file(path, page.encode())


def _line(variant: Variant) -> dict[str, Any]:
    options = lettered(variant.options)
    return {
        "id": variant.id,
        "context": variant.context,
        "original": variant.original,
        "variant": variant.text,
        "options": options,
        # An imported log may lack the key.
        "key": options[variant.gold] if options and variant.gold >= 0 else variant.target,
        "rules": list(variant.rules),
        "finding": "",
    }


def read_review(library: Library, path: Path, *, reviewer: str) -> Library:
    """Return the library with the findings of a review file.

    Parameters
    ----------
    library : Library
        The library.
    path : Path
        The file.
    reviewer : str
        Who read it.

    Returns
    -------
    Library
        The reviewed library.

    Raises
    ------
    LibraryError
        If the review is of another library.
    DataError
        If findings are missing, or the file is invalid.

    Notes
    -----
    The sample is drawn again from the library and the seed in the file, so a file with other or
    fewer variants is refused.
    """
    try:
        head, *lines = [
            json.loads(line) for line in read_text(path, follow=True).splitlines() if line.strip()
        ]
        made_for, n, seed = str(head["library"]), int(head["n"]), int(head["seed"])
        by = str(head["read_by"]).strip().lower()
        words = {str(line["id"]): str(line["finding"]).strip().lower() for line in lines}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{path} is not a review file ({error!r}). Expected one that `review --out` wrote."
        ) from error
    if made_for != library.sha256:
        raise LibraryError(
            f"{path} is a review of library {made_for[:12]}, not of {library.sha256[:12]}."
        )
    if by not in READERS or not reviewer.strip():
        problem = f"{path} says read_by={by!r}, and the reviewer is {reviewer!r}"
        raise DataError(
            f"{problem}. Expected {' or '.join(READERS)} in the first line, and --reviewer NAME."
        )
    drawn = draw_review(library, n, np.random.default_rng(seed))
    shown = {v.id: _line(v) for v in drawn}
    for line in lines:
        if any(
            line.get(k, v) != v
            for k, v in shown.get(str(line["id"]), {}).items()
            if k not in ("id", "finding")
        ):
            raise DataError(
                f"{path} shows another text of {line['id']} than the library holds. Write the form again."
            )
    findings = {id_: word for id_, word in words.items() if word}
    return apply_review(library, [*shown], findings, seed=seed, reviewer=reviewer, by=by)
