"""Select the variants that a run asks: a library against the run's questions. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from audit.core.errors import LibraryError, check_counts, check_known
from audit.core.records import Item
from audit.variants.record import Library, Variant, question_sha256

SHORT = ("keep", "drop")


@dataclass(frozen=True, slots=True)
class Selection:
    """Hold the variants of a run.

    Attributes
    ----------
    variants : dict of str to tuple of Variant
        By question id, in the questions' order, at most n each.
    without : tuple of str
        Questions that have none and are left out.
    short : tuple of str
        Questions with fewer than n.
    kept_short : bool
        True if these are kept.
    """

    variants: dict[str, tuple[Variant, ...]]
    without: tuple[str, ...]
    short: tuple[str, ...]
    kept_short: bool

    @property
    def sentence(self) -> str:
        """Return what a reader of the result must know, in a sentence."""
        parts = [
            f"{len(self.variants)} questions with {sum(map(len, self.variants.values()))} variants"
        ]
        if self.without:
            parts.append(f"{len(self.without)} without a variant are left out")
        if self.short:
            parts.append(
                f"{len(self.short)} with fewer than asked for are {'kept' if self.kept_short else 'left out'}"
            )
        return "; ".join(parts) + "."


def check_library(library: Library, benchmark: str, questions: Iterable[Item]) -> None:
    """Raise if a library is of another benchmark, or its questions are no longer those that were
    reworded.

    Parameters
    ----------
    library : Library
        The library.
    benchmark : str
        Name.
    questions : iterable of Item
        Questions of the run. Unknown ones are later in `Selection.without`.

    Raises
    ------
    LibraryError
        If the library does not fit.

    Notes
    -----
    Each question's content counts, not the file or revision that it came in: csv and parquet of one
    benchmark are equal.
    """
    header = library.header
    if header.benchmark != benchmark:
        problem = f"Library {header.name} {library.sha256[:12]} rewords {header.benchmark}, not {benchmark}"
        raise LibraryError(
            f"{problem}. Choose one of {benchmark}, or benchmark={header.benchmark}."
        )
    hashes = {v.question_id: v.question_sha256 for v in library.variants}
    if other := [q.id for q in questions if q.id in hashes and hashes[q.id] != question_sha256(q)]:
        problem = f"Library {header.name} {library.sha256[:12]} was built from another revision of {benchmark}"
        raise LibraryError(
            f"{problem} ({header.benchmark_revision}): {len(other)} questions differ, such as {other[0]}. Use that "
            "revision, or build the library again."
        )


def select_variants(
    library: Library, questions: Sequence[Item], n: int | None = None, short: str = "keep"
) -> Selection:
    """Return the first n accepted variants of each question, by number.

    Parameters
    ----------
    library : Library
        The library.
    questions : sequence of Item
        Questions of the run.
    n : int or None
        Number; None takes all.
    short : str
        A question with fewer than n: "keep" (the permutation test takes any number of wordings) or
        "drop" (a balanced design, of the questions that are easiest to reword).

    Returns
    -------
    Selection
        Variants.

    Raises
    ------
    ConfigError
        If n is below 1, or short is unknown.
    LibraryError
        If no question has a variant.
    """
    if n is not None:
        check_counts(num_variants=n)
    check_known("value of short", short, SHORT)
    accepted = library.by_question()
    having = {q.id: accepted[q.id][:n] for q in questions if q.id in accepted}
    lacking = tuple(id_ for id_, variants in having.items() if n is not None and len(variants) < n)
    dropped = set(lacking) if short == "drop" else set()
    chosen = {id_: variants for id_, variants in having.items() if id_ not in dropped}
    if not chosen:
        problem = f"Library {library.header.name} {library.sha256[:12]} has {'no' if n is None else f'fewer than {n}'}"
        raise LibraryError(
            f"{problem} accepted variants for every one of the {len(questions)} questions. Use short=keep, a smaller "
            "num_variants, or another library."
        )
    without = tuple(q.id for q in questions if q.id not in accepted)
    return Selection(chosen, without, lacking, short == "keep")
