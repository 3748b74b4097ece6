"""Compare and merge two libraries of one benchmark, and judge a library by a finished run.

A variant is suspect if every reference model answers the variant wrong and its original right.
Probably the variant has another meaning, since it is unlikely that all these models have memorised
the original.
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

_ByWords = dict[tuple[str, str], Variant]  # maps (question, normal form of words) to a candidate

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
    """Hold the differences between two libraries.

    Attributes
    ----------
    only_first, only_second : tuple of Variant
        The accepted variants of the first (second) library whose words do not occur in the second
        (first) library.
    changed : tuple of (Variant, Variant)
        Pairs of candidates, one from each library, with equal words and different states.
    header : dict
        Maps each header field that differs to its values in the first and the second library.
    """

    only_first: tuple[Variant, ...]
    only_second: tuple[Variant, ...]
    changed: tuple[tuple[Variant, Variant], ...]
    header: dict[str, tuple[object, object]]


def diff(first: Library, second: Library) -> Difference:
    """Compare the candidates of two libraries by question and words.

    The numbers of the candidates are not compared.

    Parameters
    ----------
    first, second : Library
        The libraries.

    Returns
    -------
    Difference
        The differences.
    """
    first_words, second_words = _by_words(first), _by_words(second)
    changed = []
    for key, variant in first_words.items():
        other = second_words.get(key)
        if other is not None and other.state != variant.state:
            changed.append((variant, other))
    left, right = asdict(first.header), asdict(second.header)
    return Difference(
        only_first=_accepted_without(first_words, second_words),
        only_second=_accepted_without(second_words, first_words),
        changed=tuple(changed),
        header={key: (left[key], right[key]) for key in left if left[key] != right[key]},
    )


def _accepted_without(variants: _ByWords, others: _ByWords) -> tuple[Variant, ...]:
    """Return the accepted variants of a library that the other library lacks.

    Two variants are the same if their questions and words are the same.
    """
    return tuple(v for key, v in variants.items() if v.accepted and key not in others)


def merge(first: Library, second: Library, name: str) -> Library:
    """Join the candidates of two libraries. The candidates of the second library get the higher
    numbers.

    Parameters
    ----------
    first, second : Library
        Libraries of one benchmark. A candidate of the second library is a duplicate if the first
        library has its words.
    name : str
        The name of the result.

    Returns
    -------
    Library
        The merged library. A review of either library is dropped, because a review is valid only
        for the library whose variants the person read.

    Raises
    ------
    LibraryError
        If the questions, the window, the changes, the embedder or the NLI differ.
    """
    left, right = asdict(first.header), asdict(second.header)
    differences = []
    for key in _SAME:
        if left[key] != right[key]:
            differences.append(f"{key}: {left[key]} and {right[key]}")
    if differences:
        raise LibraryError(
            f"The libraries were not judged alike ({'; '.join(differences)}). "
            "Expected equal settings. Build a library again."
        )
    words: dict[tuple[str, str], str] = {}
    last: dict[str, int] = {}
    for variant in first.variants:
        # Variants are sorted, so the last number of each question remains.
        last[variant.question_id] = variant.number
        if variant.text:
            words[variant.question_id, same_words(variant.text)] = variant.id
    added = []
    for variant in second.variants:
        id_ = variant.question_id
        shift, state, same_as = last.get(id_, 0), variant.state, variant.same_as
        if same_as not in (None, ORIGINAL):
            same_as = f"{id_}#{int(same_as.rpartition('#')[2]) + shift}"
        repeated = words.get((id_, same_words(variant.text)))
        if repeated:
            state, same_as = State.DUPLICATE if variant.accepted else state, repeated
        added.append(replace(variant, number=variant.number + shift, same_as=same_as, state=state))
    joined: dict[str, Any] = {}
    for key in ("strategy", "licence", "prompts_sha256"):
        joined[key] = _joined([left[key], right[key]])
    for key in ("paraphraser", "judge"):
        joined[key] = _both([getattr(first.header, key), getattr(second.header, key)])
    sources = tuple(sorted({*first.header.sources, *second.header.sources}))
    parents = (first.sha256, second.sha256)
    header = replace(
        first.header, name=name, sources=sources, review=None, parents=parents, **joined
    )
    return Library(header, (*first.variants, *added))


def _joined(texts: Iterable[str]) -> str:
    """Join the different texts that are not empty."""
    return "; ".join(dict.fromkeys(filter(None, texts)))


def _both(models: Sequence[ModelRef | None]) -> ModelRef | None:
    names, revisions = [], []
    for model in dict.fromkeys(filter(None, models)):
        names.append(model.name)
        revisions.append(model.revision)
    return ModelRef("; ".join(names), "; ".join(revisions)) if names else None


def _by_words(library: Library) -> _ByWords:
    """Map each question and wording to one candidate, if possible an accepted candidate."""
    chosen: dict[tuple[str, str], Variant] = {}
    for variant in library.variants:
        known = chosen.setdefault((variant.question_id, same_words(variant.text)), variant)
        if variant.accepted and not known.accepted:
            chosen[variant.question_id, same_words(variant.text)] = variant
    return chosen


# If accuracy on a harder wording is .8, three models all miss a sound variant once in 125 cases.
MIN_MODELS = 3

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
    """Mark the variants of a library that the reference models of a run show to be suspect.

    Parameters
    ----------
    library : Library
        The library.
    run_dir : Path
        A finished run of the perturbation audit.

    Returns
    -------
    Library
        The library, in which suspect variants are no longer accepted.

    Raises
    ------
    LibraryError
        If the run used another library.
    ConfigError
        If the run is not finished, or has fewer than MIN_MODELS references.

    Notes
    -----
    A variant is tested if at least MIN_MODELS models have parsed answers to the variant and to its
    original. The variant is suspect if all of these models answer the original right each time, and
    none of these models answers the variant right.
    """
    models = _references(library, run_dir)
    right = _right(library, run_dir, models)
    variants = []
    for variant in library.variants:
        parsed = []
        for model in models:
            original = right.get((model, variant.question_id))
            reworded = right.get((model, variant.id))
            if original is not None and reworded is not None:
                parsed.append((original, reworded))
        if len(parsed) >= MIN_MODELS:
            suspect = all(original and not reworded for original, reworded in parsed)
            state = State.SUSPECT if suspect and variant.accepted else variant.state
            variant = replace(variant, panel="suspect" if suspect else "passed", state=state)
        variants.append(variant)
    return Library(
        replace(library.header, panel=models, parents=(library.sha256,)), tuple(variants)
    )


def _right(
    library: Library, run_dir: Path, models: Sequence[str]
) -> dict[tuple[str, str], bool | None]:
    """Map each pair of a model and an id (of a variant or question) to whether all answers are
    right.

    The value is None if any of the answers is unparsed.
    """
    right: dict[tuple[str, str], bool | None] = {}
    for batch in iter_columns(run_dir, find_audit("perturb").schema, _COLUMNS):
        for row in batch.to_pylist():
            if row["model"] not in models or row["benchmark"] != library.header.benchmark:
                continue
            if not row["asked"]:
                continue
            key = row["model"], row["variant_id"] if row["variant"] else row["question_id"]
            correct = row["correct"] if row["parsed"] and row["error"] is None else None
            before = right.get(key, True)
            right[key] = None if None in (before, correct) else before and correct
    return right


def _references(library: Library, run_dir: Path) -> tuple[str, ...]:
    """Return the reference models of the run. A run gives no verdict on its reference models."""
    manifest = Manifest.load(run_dir)
    if manifest.audit != "perturb" or manifest.status != "finished":
        audit = manifest.audit or "unknown"
        raise ConfigError(
            f"{run_dir} is a run of audit {audit} with status {manifest.status}. "
            "Expected a finished run of perturb."
        )
    if manifest.config.get("variants") != library.sha256:
        used = str(manifest.config.get("variants"))[:12]
        raise LibraryError(
            f"{run_dir} used library {used}. Expected a run of library {library.sha256[:12]}."
        )
    models = tuple(sorted(set(manifest.models) - set(manifest.analysis["judged"])))
    if len(models) < MIN_MODELS:
        raise ConfigError(
            f"{run_dir} has {len(models)} reference models. Expected {MIN_MODELS} or more. "
            "Example: 'references=[a,b,c]'"
        )
    return models
