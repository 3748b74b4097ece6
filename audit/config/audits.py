"""Define an audit for the shared code: a frozen record of functions, and their arguments.

Shared code works the same for every audit. Every function of an audit is pure. It is defined at the
top of a module, because it is sent to other processes.
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
    """Hold the context of one model's run: the arguments of an audit's functions.

    Attributes
    ----------
    design : Design
        The parts of every question.
    protocol : Protocol
        The prompt templates of this model.
    model : str
        The name of the audited model.
    reading : Reading
        How a reply is read.
    preparing, answering : SamplingConfig
        Sampling of the calls before the answer, and of the answer.
    seed : int
        The seed of the run.
    state : object
        Further data that the audit's functions need. It is sent to every process, so it must be
        small.
    reask : Reading or None
        How the reply of a second call is read if the first reply held no answer. With None, no
        second call is made.
    adapter : str
        The adapter of the answers, as in `GenerationRequest`.
    """

    design: Design
    protocol: Protocol
    model: str
    reading: Reading
    preparing: SamplingConfig
    answering: SamplingConfig
    seed: int
    state: Any = None
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
            The question, with options in the order shown.
        arm : str
            The condition under which the call is made, such as forward_full.
        level : int or None
            The level. None for a call that several levels share.
        replicate : int
            The number of the replicate. Replicates have different seeds in every arm.
        role : str
            The kind of call.
        index : int
            The number of the call within a row, from 0.

        Returns
        -------
        int
            The seed. It does not depend on the model's revision, which is not known yet.
        """
        kind = [self.design.kind] if self.design.kind else []
        call = [item.benchmark, item.id, str(arm), level, replicate, role, index]
        return seed_of([self.seed, self.model, *call, *kind])


def answer_request(
    work: Work, item: Item, setting: Setting, presentation: Presentation
) -> GenerationRequest:
    """Return the request of one presentation.

    Parameters
    ----------
    work : Work
        Model, prompt templates, seed and sampling of the run.
    item : Item
        The question, with options in the order shown.
    setting : Setting
        Arm, level and replicate.
    presentation : Presentation
        The prompt of the question.

    Returns
    -------
    GenerationRequest
        A request that generates a reply, or scores likelihoods.
    """
    # A presentation with pieces only scores a given text, so it has no answers.
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
    """Return the requests of one presentation: a single request, or one for each ballot.

    Parameters
    ----------
    work : Work
        Model, prompt templates, seed and sampling of the run.
    item : Item
        The question, with options in the order shown.
    setting : Setting
        Arm, level and replicate.
    presentation : Presentation
        The prompt of the question.

    Returns
    -------
    tuple of GenerationRequest
        The requests. Equal requests of a part share one call.
    """
    if not presentation.ballots:
        return (answer_request(work, item, setting, presentation),)
    alone = replace(setting, level=1)
    requests = []
    for k, prompt in enumerate(presentation.ballots):
        request = answer_request(work, item, alone, replace(presentation, prompt=prompt))
        seed = work.seed_of(item, alone.arm, alone.level, alone.replicate, index=k)
        requests.append(replace(request, seed=seed))
    return tuple(requests)


@dataclass(frozen=True)
class Roles:
    """Name the baseline of an audit, and its arms.

    Attributes
    ----------
    baseline : tuple[str, int]
        Arm and level of the baseline: the mean over the settings with this arm and level.
    arms : tuple of str
        All arms, in the order of the tables.
    """

    baseline: tuple[str, int]
    arms: tuple[str, ...]

    def is_baseline(self, setting: Setting) -> bool:
        """Return True if a setting belongs to the baseline."""
        return (setting.arm, setting.level) == self.baseline


def audited_model(config: Any, model: ModelConfig) -> ModelConfig:
    """Return the audited model: the default of `Audit.answering`."""
    return model


@dataclass(frozen=True)
class Audit:
    """Define one audit.

    Attributes
    ----------
    name : str
        The name of the audit.
    schema : RowSchema
        The columns of its rows.
    roles : Roles
        The baseline and the arms.
    design : Callable
        Returns the parts of every question from the configuration.
    present : Callable
        Returns the presentation at each level of a part. It gets the replies to the calls of
        `prepare`.
    prepare : Callable or None
        Returns the next calls before the answer, given the replies so far; an empty list if no
        further call is needed. None if a row needs a single call.
    prepare_role : str
        The name of the calls before the answer in metrics and columns (`<role>_messages`).
    answering : Callable
        Returns the model that answers in place of the audited model.
    templates : Mapping
        The prompt templates of this audit, with their placeholders.
    read : Callable or None
        Reads a reply and returns its score with further columns of the row. With None, replies are
        read by `Work.reading`.
    reply_columns : Callable or None
        Returns further columns that depend on the reply.
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
    answering: Callable[[Any, ModelConfig], ModelConfig] = audited_model
    templates: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    read: (
        Callable[[Work, Item, Setting, Presentation, Generation], tuple[Score, Mapping[str, Any]]]
        | None
    ) = None
    reply_columns: Callable[[Setting, Generation], Mapping[str, Any]] | None = None


AUDITS = ("sweep", "perturb", "memory", "validity")  # the audits of this program


def every_audit() -> tuple[str, ...]:
    """Return the names of all audits: those of this program, then those of other packages."""
    return (*AUDITS, *(name for name in added("audits") if name not in AUDITS))


def audit_package(name: str) -> str:
    """Return the package of an audit.

    Parameters
    ----------
    name : str
        The name of the audit, such as memory.

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
    """Return the name of the audit, or other part of the program, to which a module belongs."""
    for name in added("audits"):
        if module.startswith(f"{audit_package(name)}."):
            return name
    return module.split(".")[1]


def find_audit(name: str) -> Audit:
    """Import an audit and return its record, an instance of `Audit`.

    The record is a constant in the audit's module `audit`. The constant has the audit's name in
    capitals.

    Parameters
    ----------
    name : str
        The name of the audit.

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
    """Hold functions that the runtime calls. The runtime does not import the registry itself.

    Attributes
    ----------
    on_start : Callable
        Called with the run directory. It may raise an error to refuse the run.
    on_failure : Callable
        Called with the run directory and the reason. It never raises an error.
    """

    on_start: Callable[[Path], None] = lambda run_dir: None
    on_failure: Callable[[Path, str], None] = lambda run_dir, why: None


def part_of(name: str, part: str) -> Any:
    """Import a module of an audit.

    Parameters
    ----------
    name : str
        The name of the audit, such as memory.
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
        raise ConfigError(f"Audit {name} has no module {part}. Expected {' or '.join(have)}.")
    return import_module(f"{audit_package(name)}.{part}")


def has_part(name: str, part: str) -> bool:
    """Return True if an audit has a module of this name.

    Parameters
    ----------
    name : str
        The name of the audit, such as memory.
    part : str
        The module, such as "plan".

    Returns
    -------
    bool
        True if the module exists.

    Raises
    ------
    ConfigError
        If the audit is unknown.
    """
    return find_spec(f"{audit_package(name)}.{part}") is not None


def audit_of(run_dir: Path) -> Audit:
    """Return the audit that the manifest of a run names, or the sweep if no audit is named."""
    from audit.shards.manifest import MANIFEST, Manifest  # This import loads Arrow.

    name = Manifest.load(run_dir).audit if (run_dir / MANIFEST).is_file() else ""
    return find_audit(name or AUDITS[0])
