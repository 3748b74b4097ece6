"""Two libraries of one benchmark: what differs, and both as one; a library and what a finished run says of it.

A variant that every reference model of a run fails, though all have its original right, is suspect: the models do not
share a memory of one wording, so more likely the variant asks something else.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from audit.audits import find_audit
from audit.errors import ConfigError, LibraryError
from audit.shards.manifest import Manifest
from audit.shards.read import iter_columns
from audit.variants.record import Library, ModelRef, State, Variant
from audit.variants.rules import ORIGINAL, same_words

# What must agree for the variants of two libraries to have passed the same gates.
_SAME = (
    "benchmark", "questions_sha256", "window", "changes", "context", "options", "embedder", "nli", "nli_cut",
    "unjudged",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Difference:
    """only_first, only_second: accepted variants that the other has not accepted, by question and words. changed:
    (first, second) candidates of the same words in another state. header: fields with both values."""

    only_first: tuple[Variant, ...]
    only_second: tuple[Variant, ...]
    changed: tuple[tuple[Variant, Variant], ...]
    header: dict[str, tuple[object, object]]


def diff(first: Library, second: Library) -> Difference:
    """Compare by question and words; the numbers of candidates do not matter."""
    one, two = _by_words(first), _by_words(second)
    both = [(one[key], two[key]) for key in one if key in two]
    left, right = asdict(first.header), asdict(second.header)
    return Difference(
        only_first=tuple(v for key, v in one.items() if v.accepted and key not in two),
        only_second=tuple(v for key, v in two.items() if v.accepted and key not in one),
        changed=tuple((a, b) for a, b in both if a.state != b.state),
        header={key: (left[key], right[key]) for key in left if left[key] != right[key]},
    )


def merge(first: Library, second: Library, name: str) -> Library:
    """The candidates of both, the second's numbered after the first's; words that the first has are duplicates.

    Only libraries that judged alike are merged: LibraryError when the questions, the window, what may change, embedder
    or NLI differ. A review holds for the library that was read, so the merged one has none.
    """
    left, right = asdict(first.header), asdict(second.header)
    odd = [key for key in _SAME if left[key] != right[key]]
    if odd:
        found = "; ".join(f"{key}: {left[key]} and {right[key]}" for key in odd)
        raise LibraryError(f"The libraries were not judged alike ({found}). Build one of them again.")
    words = {(v.question_id, same_words(v.text)): v.id for v in first.variants if v.text}
    last = {v.question_id: v.number for v in first.variants}  # in order of their numbers
    added = []
    for variant in second.variants:
        id_ = variant.question_id
        shift, state, same_as = last.get(id_, 0), variant.state, variant.same_as
        if same_as not in (None, ORIGINAL):
            same_as = f"{id_}#{int(same_as.rpartition('#')[2]) + shift}"
        if repeated := words.get((id_, same_words(variant.text))):
            state, same_as = State.DUPLICATE if variant.accepted else state, repeated
        added.append(replace(variant, number=variant.number + shift, same_as=same_as, state=state))
    both = {key: [getattr(one.header, key) for one in (first, second)] for key in left}
    joined: dict[str, Any] = {key: _joined(both[key]) for key in ("strategy", "licence", "prompts_sha256")}
    joined |= {key: _both(both[key]) for key in ("paraphraser", "judge")}
    sources = tuple(sorted({*first.header.sources, *second.header.sources}))
    parents = (first.sha256, second.sha256)
    header = replace(first.header, name=name, sources=sources, review=None, parents=parents, **joined)
    return Library(header, (*first.variants, *added))


def _joined(texts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(filter(None, texts)))


def _both(models: Sequence[ModelRef | None]) -> ModelRef | None:
    known = dict.fromkeys(filter(None, models))
    names, revisions = (m.name for m in known), (m.revision for m in known)
    return ModelRef("; ".join(names), "; ".join(revisions)) if known else None


def _by_words(library: Library) -> dict[tuple[str, str], Variant]:
    """One candidate for each question and words: an accepted one where there is one."""
    found: dict[tuple[str, str], Variant] = {}
    for variant in library.variants:
        known = found.setdefault((variant.question_id, same_words(variant.text)), variant)
        if variant.accepted and not known.accepted:
            found[variant.question_id, same_words(variant.text)] = variant
    return found


MIN_MODELS = 3  # with accuracy .8 on a harder wording, three sound models miss a sound variant together once in 125

_COLUMNS = ("model", "benchmark", "question_id", "variant", "asked", "variant_id", "correct", "parsed", "error")


def judge_by_run(library: Library, run_dir: Path) -> Library:
    """The library with the panel's findings: its models are those of the run that were not judged.

    A suspect variant is no longer accepted: MIN_MODELS models or more have a readable answer to it and to its original,
    all of these have the original right (each time that it was asked), and none the variant. LibraryError for a run of
    another library, ConfigError for one that is not finished or has fewer than MIN_MODELS references.
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
    return Library(replace(library.header, panel=models, parents=(library.sha256,)), tuple(variants))


def _right(library: Library, run_dir: Path, models: Sequence[str]) -> dict[tuple[str, str], bool | None]:
    """By model, and id of a variant or of its question, whether the answers are right; None: one is unreadable."""
    right: dict[tuple[str, str], bool | None] = {}
    for batch in iter_columns(run_dir, find_audit("perturb").schema, _COLUMNS):
        for row in batch.to_pylist():
            if row["model"] not in models or row["benchmark"] != library.header.benchmark or not row["asked"]:
                continue
            asked = row["model"], row["variant_id"] if row["variant"] else row["question_id"]
            now = row["correct"] if row["parsed"] and row["error"] is None else None
            before = right.get(asked, True)
            right[asked] = None if None in (before, now) else before and now
    return right


def _references(library: Library, run_dir: Path) -> tuple[str, ...]:
    """The models of the run that were not judged."""
    manifest = Manifest.load(run_dir)
    if manifest.audit != "perturb" or manifest.status != "finished":
        whose = manifest.audit or "unknown"
        raise ConfigError(f"{run_dir} is {manifest.status}, of audit {whose}. Expected a finished run of perturb.")
    if manifest.config.get("variants") != library.sha256:
        asked = str(manifest.config.get("variants"))[:12]
        raise LibraryError(f"{run_dir} asked library {asked}, not {library.sha256[:12]}.")
    models = tuple(sorted(set(manifest.models) - set(manifest.analysis["judged"])))
    if len(models) < MIN_MODELS:
        found = f"{run_dir} has {len(models)} reference models"
        raise ConfigError(f"{found}. Expected {MIN_MODELS} or more, such as 'references=[a,b,c]'.")
    return models
