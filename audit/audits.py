"""What an audit is to the rooms that it shares with others: a frozen record of functions, and what they are given.

No shared room asks which audit it is. Every function is pure and lives in a module, as it travels to other processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.engines.config import ModelConfig, SamplingConfig
from audit.entry_points import added
from audit.errors import ConfigError, unknown_name
from audit.prompting import letters_of, seed_of
from audit.records import (
    ANSWER_ROLE,
    Ask,
    Design,
    Generation,
    GenerationRequest,
    Item,
    Part,
    Presentation,
    Protocol,
    Reading,
    Setting,
)

if TYPE_CHECKING:  # a command that is refused needs no Arrow
    from audit.scoring.score import Score
    from audit.shards.schema import RowSchema


@dataclass(frozen=True)
class Work:
    """One model's run, resolved: what an audit's functions are given beside a question.

    reask: how options are read again whose reply held no answer; None: not. preparing, answering: sampling of the calls
    before the answer, and of the answer. own: what the audit resolved for itself, small, as it travels to every stage.
    adapter: of the answers, as in `GenerationRequest`.
    """

    design: Design
    protocol: Protocol
    model: str
    reading: Reading
    preparing: SamplingConfig
    answering: SamplingConfig
    seed: int
    own: Any = None
    reask: Reading | None = None
    adapter: str = ""

    def seed_of(
        self, item: Item, arm: str, level: int | None, replicate: int, role: str = ANSWER_ROLE, index: int = 0
    ) -> int:
        """Of one call. level: None for a call that several levels share. role, index: which call of a row, from 0.

        Replicates differ in every arm. The model's revision is no part of it: the seed is known before that is.
        """
        kind = [self.design.kind] if self.design.kind else []
        asked = [item.benchmark, item.id, str(arm), level, replicate, role, index]
        return seed_of([self.seed, self.model, *asked, *kind])


def answer_request(work: Work, item: Item, setting: Setting, presentation: Presentation) -> GenerationRequest:
    """What an engine is asked for one presentation."""
    answers = () if presentation.pieces else presentation.options  # of a given text nothing is answered
    by_letter = work.reading == Reading.LETTER_LOGPROB and answers
    scoring = presentation.scoring or Ask(
        presentation.prompt,
        continuations=answers if work.reading == Reading.OPTION_TEXT else (),
        letters=letters_of(len(answers)) if by_letter else (),
        max_tokens=work.answering.max_tokens,
    )
    return GenerationRequest(
        prompt=presentation.prompt,
        affinity=item.id,
        label=f"{setting.arm}/{setting.level}",
        seed=work.seed_of(item, setting.arm, setting.level, setting.replicate),
        max_tokens=scoring.max_tokens,
        temperature=work.answering.temperature,
        top_p=work.answering.top_p,
        continuations=scoring.continuations,
        letters=scoring.letters,
        pieces=presentation.pieces,
        system=presentation.system,
        adapter=work.adapter,
    )


def answer_requests(
    work: Work, item: Item, setting: Setting, presentation: Presentation
) -> tuple[GenerationRequest, ...]:
    """As `answer_request`; one for each ballot where there are any. Equal ones of a part are one call."""
    if not presentation.ballots:
        return (answer_request(work, item, setting, presentation),)
    alone = replace(setting, level=1)
    return tuple(
        replace(
            answer_request(work, item, alone, replace(presentation, prompt=prompt)),
            seed=work.seed_of(item, alone.arm, alone.level, alone.replicate, index=k),
        )
        for k, prompt in enumerate(presentation.ballots)
    )


@dataclass(frozen=True)
class Roles:
    """baseline: (arm, level) of the settings whose mean is the baseline. arms: all, in the order in which they are
    shown."""

    baseline: tuple[str, int]
    arms: tuple[str, ...]

    def is_baseline(self, setting: Setting) -> bool:
        return (setting.arm, setting.level) == self.baseline


def itself(config: Any, model: ModelConfig) -> ModelConfig:
    """The model that answers, where no other does."""
    return model


@dataclass(frozen=True)
class Audit:
    """One audit.

    schema: its rows. design: its configuration -> the parts of every question. present: a question under one part ->
    what the model is asked at each of its levels, in their order, given the replies to `prepare`. prepare: the calls
    before the answer, given the replies that are there, until it names none; None where a row is one call.
    prepare_role: their name in metrics and columns (`<role>_messages`). answering: the model that answers in place of
    the audited one. templates: its own prompt templates, with their placeholders. read: its own reading of a reply,
    with further columns of the row; None: by `Work.reading`. told: own columns that only the reply can fill, of one
    setting.
    """

    name: str
    schema: RowSchema
    roles: Roles
    design: Callable[[Any], Design]
    present: Callable[[Work, Item, Part, Sequence[Generation]], Sequence[Presentation]]
    prepare: Callable[[Work, Item, Part, Sequence[Generation]], list[GenerationRequest]] | None = None
    prepare_role: str = ""
    answering: Callable[[Any, ModelConfig], ModelConfig] = itself
    templates: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    read: Callable[[Work, Item, Setting, Presentation, Generation], tuple[Score, Mapping[str, Any]]] | None = None
    told: Callable[[Setting, Generation], Mapping[str, Any]] | None = None


AUDITS = ("sweep", "perturb", "memory", "validity")  # ours


def every_audit() -> tuple[str, ...]:
    """Ours, then those of other installed packages."""
    return (*AUDITS, *(name for name in added("audits") if name not in AUDITS))


def audit_package(name: str) -> str:
    """The package that holds an audit's files. ConfigError for an unknown one."""
    if name in AUDITS:
        return f"audit.{name}"
    if name not in added("audits"):
        raise unknown_name("audit", name, every_audit())
    return added("audits")[name].value


def name_of(module: str) -> str:
    """The audit, or other room, that a module belongs to."""
    found = (name for name in added("audits") if module.startswith(f"{audit_package(name)}."))
    return next(found, module.split(".")[1])


def find_audit(name: str) -> Audit:
    """The audit of this name: NAME in its module `audit`, imported when asked for. ConfigError for an unknown one."""
    return getattr(part_of(name, "audit"), name.upper())


@dataclass(frozen=True)
class Hooks:
    """What the runtime, which knows no registry, calls: on_start(run directory) may refuse the run; on_failure(run
    directory, why) raises nothing."""

    on_start: Callable[[Path], None] = lambda run_dir: None
    on_failure: Callable[[Path, str], None] = lambda run_dir, why: None


def part_of(name: str, part: str) -> Any:
    """The module `part` of an audit. ConfigError for an unknown audit, or one without it."""
    if not has_part(name, part):
        have = [other for other in every_audit() if has_part(other, part)]
        raise ConfigError(f"audit={name} has no {part}. Audits that have one: {', '.join(have)}.")
    return import_module(f"{audit_package(name)}.{part}")


def has_part(name: str, part: str) -> bool:
    """Return whether an audit has a module of its own for a part. Raises ConfigError if the audit is unknown."""
    return find_spec(f"{audit_package(name)}.{part}") is not None


def audit_of(run_dir: Path) -> Audit:
    """The audit that a run directory's manifest names; the sweep where there is no manifest, or it names none."""
    from audit.shards.manifest import MANIFEST, Manifest  # here: it needs Arrow

    named = Manifest.load(run_dir).audit if (run_dir / MANIFEST).is_file() else ""
    return find_audit(named or AUDITS[0])
