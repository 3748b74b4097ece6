"""Which variants a run asks: a library against the run's questions. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from audit.errors import LibraryError, check_counts, check_known
from audit.records import Item
from audit.variants.record import Library, Variant, question_sha256

SHORT = ("keep", "drop")


@dataclass(frozen=True, slots=True)
class Selection:
    """variants: by question id, in the questions' order, at most n each. without: questions that have none and are left
    out. short: questions with fewer than n, kept or left out as `kept_short` says."""

    variants: dict[str, tuple[Variant, ...]]
    without: tuple[str, ...]
    short: tuple[str, ...]
    kept_short: bool

    @property
    def sentence(self) -> str:
        """What a reader of the result must know."""
        parts = [f"{len(self.variants)} questions with {sum(map(len, self.variants.values()))} variants"]
        if self.without:
            parts.append(f"{len(self.without)} without a variant are left out")
        if self.short:
            parts.append(f"{len(self.short)} with fewer than asked for are {'kept' if self.kept_short else 'left out'}")
        return "; ".join(parts) + "."


def check_library(library: Library, benchmark: str, questions: Iterable[Item]) -> None:
    """LibraryError when the library is of another benchmark, or its questions are no longer those that were reworded.

    What counts is each question's content, not the file or revision that it came in: csv and parquet of one benchmark
    are one. Questions that the library does not know are `Selection.without`.
    """
    header = library.header
    if header.benchmark != benchmark:
        found = f"Library {header.name} {library.sha256[:12]} rewords {header.benchmark}, not {benchmark}"
        raise LibraryError(f"{found}. Choose one of {benchmark}, or benchmark={header.benchmark}.")
    hashes = {v.question_id: v.question_sha256 for v in library.variants}
    if other := [q.id for q in questions if q.id in hashes and hashes[q.id] != question_sha256(q)]:
        found = f"Library {header.name} {library.sha256[:12]} was built from another revision of {benchmark}"
        raise LibraryError(
            f"{found} ({header.benchmark_revision}): {len(other)} questions differ, such as {other[0]}. Use that "
            "revision, or build the library again."
        )


def select_variants(
    library: Library, questions: Sequence[Item], n: int | None = None, short: str = "keep"
) -> Selection:
    """The first n accepted variants of each question, by number; all of them when n is None.

    short: what becomes of a question with fewer than n: "keep" (the permutation test takes any number of wordings) or
    "drop" (a balanced design, of the questions that are easiest to reword). Raises ConfigError for an n below 1 or an
    unknown word, LibraryError when no question has a variant.
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
        found = f"Library {library.header.name} {library.sha256[:12]} has {'no' if n is None else f'fewer than {n}'}"
        raise LibraryError(
            f"{found} accepted variants for every one of the {len(questions)} questions. Use short=keep, a smaller "
            "num_variants, or another library."
        )
    without = tuple(q.id for q in questions if q.id not in accepted)
    return Selection(chosen, without, lacking, short == "keep")
