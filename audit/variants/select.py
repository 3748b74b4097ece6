"""Select the variants of a library for the questions of a run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from audit.core.errors import LibraryError, check_counts, check_known
from audit.core.records import Item
from audit.variants.record import Library, Variant, question_sha256

SHORT = ("keep", "drop")


@dataclass(frozen=True, slots=True)
class Selection:
    """Hold the variants that a run asks, and the questions with too few variants.

    Attributes
    ----------
    variants : dict of str to tuple of Variant
        Maps each question id to its selected variants, at most n. The ids are in the order of the
        questions.
    without : tuple of str
        The questions without a variant, which are left out.
    short : tuple of str
        The questions with fewer than n variants.
    kept_short : bool
        True if the questions with fewer variants are kept.
    """

    variants: dict[str, tuple[Variant, ...]]
    without: tuple[str, ...]
    short: tuple[str, ...]
    kept_short: bool

    @property
    def sentence(self) -> str:
        """Return a sentence that states how many questions and variants the run has."""
        total = sum(map(len, self.variants.values()))
        parts = [f"{len(self.variants)} questions with {total} variants"]
        if self.without:
            parts.append(f"{len(self.without)} without a variant are left out")
        if self.short:
            fate = "kept" if self.kept_short else "left out"
            parts.append(f"{len(self.short)} with fewer than num_variants are {fate}")
        return "; ".join(parts) + "."


def check_library(library: Library, benchmark: str, questions: Iterable[Item]) -> None:
    """Check that a library was built from the questions of a run.

    Parameters
    ----------
    library : Library
        The library.
    benchmark : str
        The name of the benchmark.
    questions : iterable of Item
        The questions of the run. Questions that the library lacks are accepted here;
        `Selection.without` names them.

    Raises
    ------
    LibraryError
        If the library was built from another benchmark, or the content of a question has changed.

    Notes
    -----
    Only the content of each question is compared. So it does not matter whether the benchmark is
    read from a csv or a parquet file.
    """
    header = library.header
    about = f"Library {header.name} {library.sha256[:12]}"
    if header.benchmark != benchmark:
        raise LibraryError(
            f"{about} rewords {header.benchmark}, not {benchmark}. Expected a library of "
            f"{benchmark}, or benchmark={header.benchmark}."
        )
    hashes = {v.question_id: v.question_sha256 for v in library.variants}
    changed = []
    for question in questions:
        stored = hashes.get(question.id)
        if stored is not None and stored != question_sha256(question):
            changed.append(question.id)
    if changed:
        raise LibraryError(
            f"{about} was built from another revision of {benchmark} "
            f"({header.benchmark_revision}): {len(changed)} questions differ, such as {changed[0]}. "
            "Expected that revision, or a new library."
        )


def select_variants(
    library: Library, questions: Sequence[Item], n: int | None = None, short: str = "keep"
) -> Selection:
    """Return the first n accepted variants of each question, in ascending order of their numbers.

    Parameters
    ----------
    library : Library
        The library.
    questions : sequence of Item
        The questions of the run.
    n : int or None
        The number of variants that each question gets. None selects all variants.
    short : str
        What happens to a question with fewer than n variants. "keep" keeps the question, because
        the permutation test works with any number of wordings. "drop" leaves the question out. Then
        the design is balanced, but questions that are hard to reword are missing.

    Returns
    -------
    Selection
        The variants that the run asks, and the questions that have too few variants.

    Raises
    ------
    ConfigError
        If n is below 1, or short is neither "keep" nor "drop".
    LibraryError
        If no question has a variant.
    """
    if n is not None:
        check_counts(num_variants=n)
    check_known("value of short", short, SHORT)
    accepted = library.by_question()
    chosen: dict[str, tuple[Variant, ...]] = {}
    without, too_few = [], []
    for question in questions:
        variants = accepted.get(question.id, ())[:n]
        if not variants:
            without.append(question.id)
            continue
        if n is not None and len(variants) < n:
            too_few.append(question.id)
            if short == "drop":
                continue
        chosen[question.id] = variants
    if not chosen:
        number = "no" if n is None else f"fewer than {n}"
        raise LibraryError(
            f"Library {library.header.name} {library.sha256[:12]} has {number} accepted variants "
            f"for every one of the {len(questions)} questions, so no question remains. Expected a "
            "smaller num_variants, another library, or short=keep, which keeps questions with "
            "fewer variants."
        )
    return Selection(chosen, tuple(without), tuple(too_few), short == "keep")
