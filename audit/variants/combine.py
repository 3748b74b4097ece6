"""Two libraries of one benchmark: what differs, and both as one. Pure."""

from dataclasses import dataclass, replace

from audit.errors import LibraryError
from audit.variants.record import Library, ModelRef, State, Variant, header_dict
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
    left, right = header_dict(first.header), header_dict(second.header)
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
    left, right = header_dict(first.header), header_dict(second.header)
    odd = [key for key in _SAME if left[key] != right[key]]
    if odd:
        found = "; ".join(f"{key}: {left[key]} and {right[key]}" for key in odd)
        raise LibraryError(f"The libraries were not judged alike ({found}). Build one of them again.")
    words = {(v.question_id, same_words(v.text)): v.id for v in first.variants if v.text}
    last: dict[str, int] = {}
    for variant in first.variants:
        last[variant.question_id] = max(last.get(variant.question_id, 0), variant.number)
    added = []
    for variant in second.variants:
        id_ = variant.question_id
        repeated = words.get((id_, same_words(variant.text)))
        shift = last.get(id_, 0)
        variant = replace(variant, number=variant.number + shift, same_as=_renumbered(variant.same_as, shift))
        if repeated is not None:
            variant = replace(variant, same_as=repeated, state=State.DUPLICATE if variant.accepted else variant.state)
        added.append(variant)
    header = replace(
        first.header,
        name=name,
        strategy=_joined(first.header.strategy, second.header.strategy),
        licence=_joined(first.header.licence, second.header.licence),
        paraphraser=_both(first.header.paraphraser, second.header.paraphraser),
        judge=_both(first.header.judge, second.header.judge),
        prompts_sha256=_joined(first.header.prompts_sha256, second.header.prompts_sha256),
        sources=tuple(sorted({*first.header.sources, *second.header.sources})),
        review=None,
        parents=(first.sha256, second.sha256),
    )
    return Library(header, (*first.variants, *added))


def _joined(first: str, second: str) -> str:
    return "; ".join(dict.fromkeys(text for text in (first, second) if text))


def _both(first: ModelRef | None, second: ModelRef | None) -> ModelRef | None:
    models = dict.fromkeys(model for model in (first, second) if model is not None)
    if len(models) < 2:
        return next(iter(models), None)
    return ModelRef("; ".join(m.name for m in models), "; ".join(m.revision for m in models))


def _renumbered(same_as: str | None, shift: int) -> str | None:
    if same_as is None or same_as == ORIGINAL:
        return same_as
    question_id, _, number = same_as.rpartition("#")
    return f"{question_id}#{int(number) + shift}"


def _by_words(library: Library) -> dict[tuple[str, str], Variant]:
    """One candidate for each question and words: an accepted one where there is one."""
    found: dict[tuple[str, str], Variant] = {}
    for variant in library.variants:
        key = (variant.question_id, same_words(variant.text))
        if key not in found or (variant.accepted and not found[key].accepted):
            found[key] = variant
    return found
