"""Define an audit for the shared code: a frozen record of functions, and their arguments.

No shared code depends on which audit it runs. Every function is pure and lives in a module, as it
is sent to other processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.core.entry_points import added
from audit.core.errors import ConfigError, unknown_name
from audit.core.prompting import letters_of, seed_of
from audit.core.records import (
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
from audit.engines.config import ModelConfig, SamplingConfig

if TYPE_CHECKING:  # A refused command must not load Arrow.
    from audit.scoring.score import Score
    from audit.shards.schema import RowSchema


@dataclass(frozen=True)
class Work:
    """The context of one model's run: the arguments of an audit's functions besides the question.

    reask: reading of options if a reply held no answer; None to ask no second time. preparing,
    answering: sampling of the calls before the answer, and of the answer. own: the audit's own
    state; it is small, as it is sent to every stage. adapter: of the answers, as in
    `GenerationRequest`.
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
        self,
        item: Item,
        arm: str,
        level: int | None,
        replicate: int,
        role: str = ANSWER_ROLE,
        index: int = 0,
    ) -> int:
        """Return the seed of one call.

        Parameters
        ----------
        item : Item
            The question.
        arm : str
            The arm.
        level : int or None
            None for a call that several levels share.
        replicate : int
            Replicates differ in every arm.
        role : str
            Which kind of call.
        index : int
            Which call of a row, from 0.

        Returns
        -------
        int
            It does not depend on the model's revision, which is known only later.
        """
        kind = [self.design.kind] if self.design.kind else []
        asked = [item.benchmark, item.id, str(arm), level, replicate, role, index]
        return seed_of([self.seed, self.model, *asked, *kind])


def answer_request(
    work: Work, item: Item, setting: Setting, presentation: Presentation
) -> GenerationRequest:
    """Return the request of one presentation.

    Parameters
    ----------
    work : Work
        The run context.
    item : Item
        The question.
    setting : Setting
        Arm, level and replicate.
    presentation : Presentation
        The question as it is asked.

    Returns
    -------
    GenerationRequest
        Generates, or scores likelihoods.
    """
    # A given text is only scored and has no answers.
    answers = () if presentation.pieces else presentation.options
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
    """Return the requests of one presentation: one, or one for each ballot.

    Parameters
    ----------
    work : Work
        The run context.
    item : Item
        The question.
    setting : Setting
        Arm, level and replicate.
    presentation : Presentation
        The question as it is asked.

    Returns
    -------
    tuple of GenerationRequest
        Equal requests of a part are one call.
    """
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
    """The baseline of an audit, and its arms.

    baseline: (arm, level) of the settings whose mean is the baseline. arms: all arms, in the order
    of the tables.
    """

    baseline: tuple[str, int]
    arms: tuple[str, ...]

    def is_baseline(self, setting: Setting) -> bool:
        """Return whether a setting belongs to the baseline."""
        return (setting.arm, setting.level) == self.baseline


def itself(config: Any, model: ModelConfig) -> ModelConfig:
    """Return the audited model, which answers itself."""
    return model


@dataclass(frozen=True)
class Audit:
    """One audit.

    schema: of its rows. design: returns the parts of every question from the configuration.
    present: returns what the model is asked at each level of a part, given the replies to
    `prepare`. prepare: returns the next calls before the answer, given the replies so far, until
    there are none; None if a row is one call. prepare_role: their name in metrics and columns
    (`<role>_messages`). answering: returns the model that answers in place of the audited one.
    templates: own prompt templates, with their placeholders. read: own reading of a reply, with
    further columns of the row; None reads by `Work.reading`. reply_columns: returns own columns that
    depend on the reply.
    """

    name: str
    schema: RowSchema
    roles: Roles
    design: Callable[[Any], Design]
    present: Callable[[Work, Item, Part, Sequence[Generation]], Sequence[Presentation]]
    prepare: Callable[[Work, Item, Part, Sequence[Generation]], list[GenerationRequest]] | None = (
        None
    )
    prepare_role: str = ""
    answering: Callable[[Any, ModelConfig], ModelConfig] = itself
    templates: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    read: (
        Callable[[Work, Item, Setting, Presentation, Generation], tuple[Score, Mapping[str, Any]]]
        | None
    ) = None
    reply_columns: Callable[[Setting, Generation], Mapping[str, Any]] | None = None


AUDITS = ("sweep", "perturb", "memory", "validity")  # the audits of this program


def every_audit() -> tuple[str, ...]:
    """Return the names of all audits: ours, then those of other installed packages."""
    return (*AUDITS, *(name for name in added("audits") if name not in AUDITS))


def audit_package(name: str) -> str:
    """Return the package of an audit.

    Parameters
    ----------
    name : str
        The audit.

    Returns
    -------
    str
        Name of the package.

    Raises
    ------
    ConfigError
        If the audit is unknown.
    """
    if name in AUDITS:
        return f"audit.{name}"
    if name not in added("audits"):
        raise unknown_name("audit", name, every_audit())
    return added("audits")[name].value


def name_of(module: str) -> str:
    """Return the audit, or other part of the program, that a module belongs to."""
    found = (name for name in added("audits") if module.startswith(f"{audit_package(name)}."))
    return next(found, module.split(".")[1])


def find_audit(name: str) -> Audit:
    """Return the record of an audit: NAME in its module `audit`.

    Parameters
    ----------
    name : str
        The audit, which is imported now.

    Returns
    -------
    Audit
        The record.

    Raises
    ------
    ConfigError
        If the audit is unknown.
    """
    return getattr(part_of(name, "audit"), name.upper())


@dataclass(frozen=True)
class Hooks:
    """Functions that the runtime calls, as it does not know the registry.

    on_start(run directory) may refuse the run; on_failure(run directory, reason) never raises.
    """

    on_start: Callable[[Path], None] = lambda run_dir: None
    on_failure: Callable[[Path, str], None] = lambda run_dir, why: None


def part_of(name: str, part: str) -> Any:
    """Import a module of an audit.

    Parameters
    ----------
    name : str
        The audit.
    part : str
        The module, such as "plan".

    Returns
    -------
    module
        The imported module.

    Raises
    ------
    ConfigError
        If the audit is unknown or lacks the module.
    """
    if not has_part(name, part):
        have = [other for other in every_audit() if has_part(other, part)]
        raise ConfigError(f"audit={name} has no {part}. Audits that have one: {', '.join(have)}.")
    return import_module(f"{audit_package(name)}.{part}")


def has_part(name: str, part: str) -> bool:
    """Return whether an audit has a module of its own for a part. Raises ConfigError if the audit
    is unknown."""
    return find_spec(f"{audit_package(name)}.{part}") is not None


def audit_of(run_dir: Path) -> Audit:
    """Return the audit of a run, as its manifest names it; the sweep if it names none."""
    from audit.shards.manifest import MANIFEST, Manifest  # This import loads Arrow.

    named = Manifest.load(run_dir).audit if (run_dir / MANIFEST).is_file() else ""
    return find_audit(named or AUDITS[0])
