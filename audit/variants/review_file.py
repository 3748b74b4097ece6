"""Write and read the form on which a person marks variants as sound or broken.

The form is an HTML page, or a jsonl file with a line about the sample and a line for each variant.

Broken variants alone can lower the accuracy under rewording, so the audit needs an upper limit of
their share. If 0 of 150 sampled variants are broken, at most 2 % of all accepted variants are
broken (95 % limit). A library that no person has read has no such limit.
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
        The size of the sample.
    rng : numpy.random.Generator
        The random number generator.

    Returns
    -------
    tuple of Variant
        The sampled variants, in the order of the library.

    Raises
    ------
    ConfigError
        If n is not between 1 and the number of accepted variants.
    """
    accepted = library.accepted
    if not 1 <= n <= len(accepted):
        raise ConfigError(
            f"n is {n}. Expected 1 to {len(accepted)}, the number of accepted variants."
        )
    chosen = np.sort(rng.choice(len(accepted), size=n, replace=False))
    return tuple(accepted[i] for i in chosen)


def apply_review(
    library: Library,
    drawn: Sequence[str],
    findings: Mapping[str, str],
    *,
    seed: int,
    reviewer: str,
    by: str = "person",
) -> Library:
    """Store a reader's findings in a library. Variants that the reader calls broken are no longer
    accepted.

    Parameters
    ----------
    library : Library
        The library.
    drawn : sequence of str
        The ids of the sample.
    findings : mapping of str to str
        Maps each id of the sample to "ok", "broken" or "unsure". Every id needs a finding, because
        a sample with gaps is no longer random. A variant whose finding is "unsure" counts as
        broken.
    seed : int
        The seed of the sample.
    reviewer : str
        The name of the reader.
    by : str
        Who read the sample: "person" or "model". No verdict uses the findings of a model, so a
        reading by a model gives no upper limit of the share of broken variants.

    Returns
    -------
    Library
        The reviewed library.

    Raises
    ------
    DataError
        If a finding is missing or unknown, or belongs to a variant outside the sample.
    """
    missing, foreign = sorted(set(drawn) - set(findings)), sorted(set(findings) - set(drawn))
    if missing or foreign:
        first = [*missing, *foreign][0]
        raise DataError(
            f"Findings are missing on {len(missing)} of {len(drawn)} sampled variants, and "
            f"{len(foreign)} findings are on other variants (first: {first}). "
            f"Expected a finding on each sampled variant: {', '.join(FINDINGS)}."
        )
    odd = sorted(set(findings.values()) - set(FINDINGS))
    if odd:
        raise DataError(f"Unknown finding {odd[0]!r}. Expected one of {', '.join(FINDINGS)}.")
    broken = sum(finding != "ok" for finding in findings.values())
    review = Review(len(drawn), broken, round(upper_limit(broken, len(drawn)), 6), seed, reviewer)
    stored_review = review if by == "person" else None
    variants = []
    for variant in library.variants:
        if variant.id in findings:
            good = findings[variant.id] == "ok"
            state = variant.state if good else State.REVIEWED_BROKEN
            variant = replace(variant, review="ok" if good else "broken", state=state)
        variants.append(variant)
    return Library(
        replace(library.header, review=stored_review, parents=(library.sha256,)), tuple(variants)
    )


ASK = (
    "In each line set finding to ok (the key is still the only right answer), broken (it is not) "
    "or unsure. In the first line set read_by to person, or to model if a language model read. "
    "Then: audit variants review LIBRARY --read THIS_FILE --reviewer NAME"
)


def write_review(library: Library, path: Path, *, n: int, seed: int) -> None:
    """Draw accepted variants, and write the form of their review.

    Parameters
    ----------
    library : Library
        The library.
    path : Path
        The file: a page if it ends in .html, else jsonl.
    n, seed : int
        The size and the seed of the sample.
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
    """Store the findings of a review file in its library.

    Parameters
    ----------
    library : Library
        The library.
    path : Path
        The file.
    reviewer : str
        The name of the reader.

    Returns
    -------
    Library
        The reviewed library.

    Raises
    ------
    LibraryError
        If the review file was written for another library.
    DataError
        If findings are missing, or the file is invalid.

    Notes
    -----
    The sample is drawn again with the seed in the file, and compared with the variants in the file.
    A file with different or missing variants is refused.
    """
    try:
        written = read_text(path, follow=True).splitlines()
        head, *lines = [json.loads(line) for line in written if line.strip()]
        sha256, n, seed = str(head["library"]), int(head["n"]), int(head["seed"])
        by = str(head["read_by"]).strip().lower()
        entries = {str(line["id"]): str(line["finding"]).strip().lower() for line in lines}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{path} is not a review file ({error!r}). Expected a file that `review --out` wrote."
        ) from error
    if sha256 != library.sha256:
        raise LibraryError(
            f"{path} is a review of library {sha256[:12]}. Expected {library.sha256[:12]}."
        )
    if by not in READERS or not reviewer.strip():
        raise DataError(
            f"read_by of {path} is {by!r}, and --reviewer is {reviewer!r}. Expected read_by "
            f"{' or '.join(READERS)} in the first line of the file, and --reviewer NAME."
        )
    drawn = draw_review(library, n, np.random.default_rng(seed))
    shown = {v.id: _line(v) for v in drawn}
    for line in lines:
        for key, value in shown.get(str(line["id"]), {}).items():
            if key not in ("id", "finding") and line.get(key, value) != value:
                raise DataError(
                    f"{path} has another text of {line['id']} than the library. "
                    "Write the form again."
                )
    findings = {id_: finding for id_, finding in entries.items() if finding}
    return apply_review(library, [*shown], findings, seed=seed, reviewer=reviewer, by=by)
