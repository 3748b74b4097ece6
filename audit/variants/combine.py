"""Two libraries of one benchmark: what differs, and both as one; a library and what a finished run says of it.

A variant that every reference model of a run fails, though all have its original right, is suspect: the models do not
share a memory of one wording, so more likely the variant asks something else.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

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


MIN_MODELS = 3  # with accuracy .8 on a harder wording, three sound models miss a sound variant together once in 125

Readings = Mapping[str, Mapping[str, bool | None]]


@dataclass(frozen=True, slots=True)
class PanelFinding:
    """Of `models` reference models with a readable answer to both: how many have the original right, how many the
    variant. suspect: all the former, none of the latter, and at least MIN_MODELS of them."""

    models: int
    original_right: int
    variant_right: int

    @property
    def suspect(self) -> bool:
        return self.models >= MIN_MODELS and self.original_right == self.models and self.variant_right == 0


def panel_findings(original: Readings, variants: Readings, question_of: Mapping[str, str]) -> dict[str, PanelFinding]:
    """The finding on each variant.

    original: {model: {question_id: correct}}; variants: {model: {variant_id: correct}}, of the same models; an
    unreadable answer is None and counts for nothing. question_of: {variant_id: question_id}, the variants to look at.
    """
    found = {}
    for variant_id, question_id in question_of.items():
        pairs = [(original[m].get(question_id), variants[m].get(variant_id)) for m in sorted(original)]
        read = [(first, second) for first, second in pairs if first is not None and second is not None]
        found[variant_id] = PanelFinding(len(read), sum(a for a, _ in read), sum(b for _, b in read))
    return found


def apply_panel(library: Library, findings: Mapping[str, PanelFinding], models: tuple[str, ...]) -> Library:
    """The library with the panel's findings; suspect variants are no longer accepted. `models` go into the header."""
    variants = []
    for variant in library.variants:
        finding = findings.get(variant.id)
        if finding is not None and finding.models >= MIN_MODELS:
            state = State.SUSPECT if finding.suspect and variant.accepted else variant.state
            variant = replace(variant, panel="suspect" if finding.suspect else "passed", state=state)
        variants.append(variant)
    return Library(replace(library.header, panel=tuple(sorted(models)), parents=(library.sha256,)), tuple(variants))


_COLUMNS = ("model", "benchmark", "question_id", "variant", "asked", "variant_id", "correct", "parsed", "error")


def judge_by_run(library: Library, run_dir: Path) -> Library:
    """The library with the panel's findings: its models are those of the run that were not judged.

    An original that was asked several times counts as right where every answer was. LibraryError for a run of another
    library, ConfigError for one that is not finished or has fewer than MIN_MODELS references.
    """
    models = _references(library, run_dir)
    original: dict[str, dict[str, bool | None]] = {model: {} for model in models}
    variants: dict[str, dict[str, bool | None]] = {model: {} for model in models}
    question_of: dict[str, str] = {}
    for batch in iter_columns(run_dir, find_audit("perturb").schema, _COLUMNS):
        for row in batch.to_pylist():
            model, question_id = row["model"], row["question_id"]
            if model not in original or row["benchmark"] != library.header.benchmark or not row["asked"]:
                continue
            right = row["correct"] if row["parsed"] and row["error"] is None else None
            if row["variant"]:
                variants[model][row["variant_id"]] = right
                question_of[row["variant_id"]] = question_id
            else:
                before = original[model].get(question_id, True)
                original[model][question_id] = None if None in (before, right) else before and right
    return apply_panel(library, panel_findings(original, variants, question_of), models)


def _references(library: Library, run_dir: Path) -> tuple[str, ...]:
    """The models of the run that were not judged."""
    manifest = Manifest.load(run_dir)
    if manifest.audit != "perturb" or manifest.status != "finished":
        whose = manifest.audit or "unknown"
        raise ConfigError(f"{run_dir} is {manifest.status}, of audit {whose}. Expected a finished run of perturb.")
    if manifest.config.get("variants") != library.sha256:
        raise LibraryError(
            f"{run_dir} asked library {str(manifest.config.get('variants'))[:12]}, not {library.sha256[:12]}."
        )
    models = tuple(sorted(set(manifest.models) - set(manifest.analysis["judged"])))
    if len(models) < MIN_MODELS:
        raise ConfigError(
            f"{run_dir} has {len(models)} reference models. Expected {MIN_MODELS} or more ('references=[a,b,c]'): "
            "fewer miss a sound variant together too often."
        )
    return models
