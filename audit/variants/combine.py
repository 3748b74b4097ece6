"""Compare and merge two libraries of one benchmark, and judge a library by a finished run.

A variant that every reference model of a run fails, though all have its original right, is suspect:
the models do not share a memory of one wording, so more likely the variant asks something else.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from audit.config.audits import find_audit
from audit.core.errors import ConfigError, LibraryError
from audit.shards.manifest import Manifest
from audit.shards.read import iter_columns
from audit.variants.record import Library, ModelRef, State, Variant
from audit.variants.rules import ORIGINAL, same_words

# If these fields agree, the variants of two libraries passed the same gates.
_SAME = (
    "benchmark",
    "questions_sha256",
    "window",
    "changes",
    "context",
    "options",
    "embedder",
    "nli",
    "nli_cut",
    "unjudged",
)


@dataclass(frozen=True, slots=True)
class Difference:
    """Hold the differences of two libraries.

    Attributes
    ----------
    only_first, only_second : tuple of Variant
        Accepted variants that the other has not accepted, by question and words.
    changed : tuple of (Variant, Variant)
        Candidates of equal words in another state.
    header : dict
        Fields with both values.
    """

    only_first: tuple[Variant, ...]
    only_second: tuple[Variant, ...]
    changed: tuple[tuple[Variant, Variant], ...]
    header: dict[str, tuple[object, object]]


def diff(first: Library, second: Library) -> Difference:
    """Compare two libraries by question and words; the numbers of candidates do not matter.

    Parameters
    ----------
    first, second : Library
        Libraries.

    Returns
    -------
    Difference
        Differences.
    """
    first_words, second_words = _by_words(first), _by_words(second)
    both = [(first_words[key], second_words[key]) for key in first_words if key in second_words]
    left, right = asdict(first.header), asdict(second.header)
    return Difference(
        only_first=tuple(
            v for key, v in first_words.items() if v.accepted and key not in second_words
        ),
        only_second=tuple(
            v for key, v in second_words.items() if v.accepted and key not in first_words
        ),
        changed=tuple((a, b) for a, b in both if a.state != b.state),
        header={key: (left[key], right[key]) for key in left if left[key] != right[key]},
    )


def merge(first: Library, second: Library, name: str) -> Library:
    """Return the candidates of both libraries, the second's numbered after the first's.

    Parameters
    ----------
    first, second : Library
        Libraries of one benchmark; words that the first has are duplicates in the second.
    name : str
        Name of the result.

    Returns
    -------
    Library
        The merged library. A review holds for the library that was read, so the merged one has
        none.

    Raises
    ------
    LibraryError
        If the questions, the window, what may change, embedder or NLI differ.
    """
    left, right = asdict(first.header), asdict(second.header)
    odd = [key for key in _SAME if left[key] != right[key]]
    if odd:
        differences = "; ".join(f"{key}: {left[key]} and {right[key]}" for key in odd)
        raise LibraryError(
            f"The libraries were not judged alike ({differences}). Build one of them again."
        )
    words = {(v.question_id, same_words(v.text)): v.id for v in first.variants if v.text}
    # The last number of each question, as variants are sorted.
    last = {v.question_id: v.number for v in first.variants}
    added = []
    for variant in second.variants:
        id_ = variant.question_id
        shift, state, same_as = last.get(id_, 0), variant.state, variant.same_as
        if same_as not in (None, ORIGINAL):
            same_as = f"{id_}#{int(same_as.rpartition('#')[2]) + shift}"
        if repeated := words.get((id_, same_words(variant.text))):
            state, same_as = State.DUPLICATE if variant.accepted else state, repeated
        added.append(replace(variant, number=variant.number + shift, same_as=same_as, state=state))
    both = {key: [getattr(library.header, key) for library in (first, second)] for key in left}
    joined: dict[str, Any] = {
        key: _joined(both[key]) for key in ("strategy", "licence", "prompts_sha256")
    }
    joined |= {key: _both(both[key]) for key in ("paraphraser", "judge")}
    sources = tuple(sorted({*first.header.sources, *second.header.sources}))
    parents = (first.sha256, second.sha256)
    header = replace(
        first.header, name=name, sources=sources, review=None, parents=parents, **joined
    )
    return Library(header, (*first.variants, *added))


def _joined(texts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(filter(None, texts)))


def _both(models: Sequence[ModelRef | None]) -> ModelRef | None:
    known = dict.fromkeys(filter(None, models))
    if not known:
        return None
    return ModelRef("; ".join(m.name for m in known), "; ".join(m.revision for m in known))


def _by_words(library: Library) -> dict[tuple[str, str], Variant]:
    """Return one candidate for each question and words, an accepted one if there is one."""
    chosen: dict[tuple[str, str], Variant] = {}
    for variant in library.variants:
        known = chosen.setdefault((variant.question_id, same_words(variant.text)), variant)
        if variant.accepted and not known.accepted:
            chosen[variant.question_id, same_words(variant.text)] = variant
    return chosen


MIN_MODELS = 3  # with accuracy .8 on a harder wording, three sound models miss a sound variant together once in 125

_COLUMNS = (
    "model",
    "benchmark",
    "question_id",
    "variant",
    "asked",
    "variant_id",
    "correct",
    "parsed",
    "error",
)


def judge_by_run(library: Library, run_dir: Path) -> Library:
    """Return the library with the findings of a run's reference models.

    Parameters
    ----------
    library : Library
        The library.
    run_dir : Path
        Finished run of the perturbation audit.

    Returns
    -------
    Library
        The library; suspect variants are no longer accepted.

    Raises
    ------
    LibraryError
        If the run used another library.
    ConfigError
        If the run is not finished or has fewer than MIN_MODELS references.

    Notes
    -----
    A variant is suspect if MIN_MODELS models or more have a readable answer to it and to its
    original, all of these have the original right (each time that it was asked), and none the
    variant.
    """
    models = _references(library, run_dir)
    right = _right(library, run_dir, models)
    variants = []
    for variant in library.variants:
        pairs = [(right.get((m, variant.question_id)), right.get((m, variant.id))) for m in models]
        read = [pair for pair in pairs if None not in pair]
        if len(read) >= MIN_MODELS:
            suspect = all(original and not reworded for original, reworded in read)
            state = State.SUSPECT if suspect and variant.accepted else variant.state
            variant = replace(variant, panel="suspect" if suspect else "passed", state=state)
        variants.append(variant)
    return Library(
        replace(library.header, panel=models, parents=(library.sha256,)), tuple(variants)
    )


def _right(
    library: Library, run_dir: Path, models: Sequence[str]
) -> dict[tuple[str, str], bool | None]:
    """Return whether answers are right, by model and id of a variant or question; None if one is
    unreadable."""
    right: dict[tuple[str, str], bool | None] = {}
    for batch in iter_columns(run_dir, find_audit("perturb").schema, _COLUMNS):
        for row in batch.to_pylist():
            if (
                row["model"] not in models
                or row["benchmark"] != library.header.benchmark
                or not row["asked"]
            ):
                continue
            key = row["model"], row["variant_id"] if row["variant"] else row["question_id"]
            now = row["correct"] if row["parsed"] and row["error"] is None else None
            before = right.get(key, True)
            right[key] = None if None in (before, now) else before and now
    return right


def _references(library: Library, run_dir: Path) -> tuple[str, ...]:
    """Return the models of the run that were not judged."""
    manifest = Manifest.load(run_dir)
    if manifest.audit != "perturb" or manifest.status != "finished":
        whose = manifest.audit or "unknown"
        raise ConfigError(
            f"{run_dir} is {manifest.status}, of audit {whose}. Expected a finished run of perturb."
        )
    if manifest.config.get("variants") != library.sha256:
        used = str(manifest.config.get("variants"))[:12]
        raise LibraryError(f"{run_dir} asked library {used}, not {library.sha256[:12]}.")
    models = tuple(sorted(set(manifest.models) - set(manifest.analysis["judged"])))
    if len(models) < MIN_MODELS:
        problem = f"{run_dir} has {len(models)} reference models"
        raise ConfigError(
            f"{problem}. Expected {MIN_MODELS} or more, such as 'references=[a,b,c]'."
        )
    return models
