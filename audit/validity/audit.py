"""Define the construct-validity audit for the pipeline.

The reference scorer determines what is asked for each edit, and how a reply is read. The canonical
response of a row is the published position of the chosen option, `option_order[answer]`.
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
    """Return the requests of an item: at level 0 as published, at level j with the family's j-th
    edit.

    Parameters
    ----------
    work : Work
        The context of the run. work.state is the path of the edits, which every process reads once.
    item : Item
        The question.
    part : Part
        Arm and levels.

    Returns
    -------
    list of Presentation
        One for each level.
    """
    file = _opened(str(work.state))
    scorer = find_scorer(file.about["scorer"])
    return [_present(file, scorer, item, part.arm, level) for level in part.levels]


def read(
    work: Work, question: Item, setting: Setting, _: Presentation, reply: Generation
) -> tuple[Score, Mapping[str, Any]]:
    """Return the answer that the scorer reads in a reply.

    Parameters
    ----------
    work : Work
        Run context, as in `present`.
    question : Item
        The question.
    setting : Setting
        Arm and level.
    _ : Presentation
        The sent request, which the edits determine.
    reply : Generation
        The reply.

    Returns
    -------
    score : Score
        `answer` is the position as shown. An unparsed reply has no answer, and is never wrong.
    columns : mapping
        The audit's own columns of the row.
    """
    file = _opened(str(work.state))
    scorer = find_scorer(file.about["scorer"])
    edited = _edited(file, question.id, setting.arm, setting.level)
    if edited is None or reply.error is not None:
        return Score(Answer(None, "none"), None, FinishReason.ERROR), {}
    item = edited[0]
    # A judge reads the replies after the run, so a reply that imitates a judge is no vote here.
    scored = unread(NOT_JUDGED) if scorer.name == JUDGED else scorer.read(item, reply)
    why = {"unread_why": scored.why, "label_mass": scored.detail.get("mass")}
    if scored.response is None:
        return Score(Answer(None, "none"), None, reply.finish_reason), why
    right = fits(scored.response, item.key)
    form = "text" if scorer.needs == Needs.TEXT else "logprob"
    return Score(Answer(item.shown.index(scored.response), form), right, reply.finish_reason), why


def fits(response: int, key: int) -> bool:
    """Return whether a response fits a key.

    A key below -1 excludes one response, and all others fit (`plan.any_but`).
    """
    return response == key if key >= 0 else response != -2 - key


def _present(
    file: EditFile, scorer: ReferenceScorer, question: Item, arm: str, level: int
) -> Presentation:
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
    gold = max(item.gold, NO_OPTION)  # A lower key excludes one response.
    prompt = file.about["template"].replace(PROMPT, ask.prompt)
    return Presentation(
        prompt, item.options, gold, columns, scoring=ask, system=file.about["system"]
    )


def _edited(file: EditFile, id_: str, arm: str, level: int) -> tuple[Item, Edit | None] | None:
    """Return the edited item and the edit, which is None for the original.

    Return None if the item has no such edit.
    """
    if level == 0:
        return file.items[id_], None
    edit = file.edits.get((id_, arm, level))
    return None if edit is None else (edit.item, edit)


@lru_cache(maxsize=2)
def _opened(path: str) -> EditFile:
    return read_edits(local_file(path))


SCHEMA = row_schema(
    "validity",
    1,
    own=(
        (
            "edit",
            pa.string(),
            "name of the edit; null for the original, or where the item has no such edit",
        ),
        (
            "contract",
            pa.string(),
            "what the edit should do to the response: invariant or directional; null: none",
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
            "the item's own text as asked, without the scorer's prompt; hostile text",
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
            "why no answer was read: tied, not finite, no mass, ...; empty where one was",
        ),
        (
            "label_mass",
            pa.float64(),
            "probability mass on the scored labels, where the scorer tells it",
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
