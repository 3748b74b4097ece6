"""Build the requests of a validity audit, and read the replies.

The reference scorer of a benchmark defines the request for each edit, and how an answer is read
from a reply. An answer is compared by its canonical response: the position of the chosen option in
the published order, `option_order[answer]`.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from audit.config.audits import Audit, Roles, Work
from audit.core.records import (
    NO_OPTION,
    Answer,
    FinishReason,
    Generation,
    Item,
    Part,
    Presentation,
    Reading,
    Setting,
)
from audit.scoring.reference import JUDGED, ReferenceScorer, find_scorer
from audit.scoring.refusal import NOT_JUDGED
from audit.scoring.score import Score
from audit.scoring.scored import Needs, unread
from audit.shards.schema import row_schema
from audit.shards.working_copy import local_file
from audit.validity.config import design_of
from audit.validity.edits.file import EditFile, read_edits
from audit.validity.edits.plan import text_of
from audit.validity.edits.record import ARMS, ORIGINAL, PLAIN_LABELS, PROMPT, Edit, context_of

NOT_ASKED = "the item has no such edit, so nothing was sent"
READINGS = {
    Needs.TEXT: Reading.TEXT,
    Needs.LETTERS: Reading.LETTER_LOGPROB,
    Needs.CONTINUATIONS: Reading.OPTION_TEXT,
    Needs.MASKED_LM: Reading.OPTION_TEXT,
}


def present(work: Work, item: Item, part: Part, _: Sequence[Generation]) -> list[Presentation]:
    """Return one request for each level of an item.

    Level 0 is the original, and level j is the j-th edit of the family.

    Parameters
    ----------
    work : Work
        The run context. `work.state` is the path of the file of edits. Every process reads this
        file once.
    item : Item
        The item.
    part : Part
        The arm (a family of edits, or `original`) and the levels to present.

    Returns
    -------
    list of Presentation
        One presentation for each level. If the item has no edit at a level, the presentation holds
        an error instead of a request.
    """
    file = _opened(str(work.state))
    scorer = find_scorer(file.about["scorer"])
    return [_present(file, scorer, item, part.arm, level) for level in part.levels]


def read(
    work: Work, question: Item, setting: Setting, _: Presentation, reply: Generation
) -> tuple[Score, Mapping[str, Any]]:
    """Read the answer in a reply with the reference scorer.

    Parameters
    ----------
    work : Work
        The run context, as in `present`.
    question : Item
        The item.
    setting : Setting
        Arm and level.
    _ : Presentation
        The request. It is not used, because the edits define the request.
    reply : Generation
        The reply.

    Returns
    -------
    score : Score
        The score. Its `answer` is the position of the chosen option as shown. An unparsed reply has
        no answer, and never counts as wrong.
    columns : mapping
        The row's columns that only the validity audit writes.
    """
    file = _opened(str(work.state))
    scorer = find_scorer(file.about["scorer"])
    edited = _edited(file, question.id, setting.arm, setting.level)
    if edited is None or reply.error is not None:
        return Score(Answer(None, "none"), None, FinishReason.ERROR), {}
    item = edited[0]
    # A judge reads the replies after the run. A reply that imitates a judge must not count as its
    # vote.
    scored = unread(NOT_JUDGED) if scorer.name == JUDGED else scorer.read(item, reply)
    why = {"unread_why": scored.why, "label_mass": scored.detail.get("mass")}
    if scored.response is None:
        return Score(Answer(None, "none"), None, reply.finish_reason), why
    right = fits(scored.response, item.key)
    form = "text" if scorer.needs == Needs.TEXT else "logprob"
    return Score(Answer(item.shown.index(scored.response), form), right, reply.finish_reason), why


def fits(response: int, key: int) -> bool:
    """Return whether a response is right under a key.

    Parameters
    ----------
    response : int
        The canonical response.
    key : int
        The canonical key. A key below -1 excludes one response, and all other responses fit
        (`plan.any_but`).

    Returns
    -------
    bool
        True if the response is right.
    """
    return response == key if key >= 0 else response != -2 - key


def _present(
    file: EditFile, scorer: ReferenceScorer, question: Item, arm: str, level: int
) -> Presentation:
    """Return the request of one item at one level of an arm."""
    original = file.items[question.id]
    edited = _edited(file, question.id, arm, level)
    columns: dict[str, Any] = {
        "context": context_of(original, scorer.benchmark),
        "key_before": original.key,
        "scorer": scorer.name,
        "unread_why": "",
        "label_mass": None,
        "reading": READINGS[scorer.needs],
        "options_shown": scorer.lettered,
    }
    if edited is None:
        empty = {
            "edit": None,
            "contract": None,
            "asked": False,
            "edited": "",
            "key_after": original.key,
        }
        columns |= {**empty, "option_order": original.shown}
        return Presentation("", original.options, original.gold, columns, NOT_ASKED)
    item, edit = edited
    columns |= {
        "edit": edit.name if edit else None,
        "contract": edit.contract.value if edit else None,
        "asked": True,
        "edited": text_of(item),
        "option_order": item.shown,
        "key_after": item.key,
    }
    ask = scorer.ask(item, edit.label_style if edit else PLAIN_LABELS)
    gold = max(item.gold, NO_OPTION)  # A key below NO_OPTION excludes one response.
    prompt = file.about["template"].replace(PROMPT, ask.prompt)
    return Presentation(
        prompt, item.options, gold, columns, scoring=ask, system=file.about["system"]
    )


def _edited(file: EditFile, id_: str, arm: str, level: int) -> tuple[Item, Edit | None] | None:
    """Return the edited item and its edit, or None if the item has no such edit.

    For the original, the edit is None.
    """
    if level == 0:
        return file.items[id_], None
    edit = file.edits.get((id_, arm, level))
    return None if edit is None else (edit.item, edit)


@lru_cache(maxsize=2)
def _opened(path: str) -> EditFile:
    """Return the edits of a run, which each process reads once."""
    return read_edits(local_file(path))


SCHEMA = row_schema(
    "validity",
    1,
    audit_columns=(
        (
            "edit",
            pa.string(),
            "name of the edit; null for the original, or if the item has no such edit",
        ),
        (
            "contract",
            pa.string(),
            "what the edit should do to the response: invariant or directional; null for the original",
        ),
        (
            "context",
            pa.string(),
            "the benchmark's condition (BBQ: ambig, disambig; ...) by which cells are split",
        ),
        ("asked", pa.bool_(), "false: the item has no such edit, so nothing was sent or scored"),
        (
            "edited",
            pa.string(),
            "the text of the item as asked, without the scorer's prompt; untrusted text",
        ),
        (
            "option_order",
            pa.list_(pa.int16()),
            "published position of each option, in the order shown",
        ),
        ("key_before", pa.int16(), "canonical key of the original"),
        (
            "key_after",
            pa.int16(),
            "canonical key under the edit; -2 - k: every response except k fits",
        ),
        ("scorer", pa.string(), "the reference scorer that asked and read"),
        (
            "unread_why",
            pa.string(),
            "why no answer was read: tied, not finite, no mass, ...; empty if one was read",
        ),
        (
            "label_mass",
            pa.float64(),
            "probability mass on the scored labels, if the scorer reports it",
        ),
    ),
    level_doc="which edit of the family; 0 for the original",
)


VALIDITY = Audit(
    name="validity",
    schema=SCHEMA,
    roles=Roles(baseline=(ORIGINAL, 0), arms=ARMS),
    design=design_of,
    present=present,
    read=read,
)
