"""Lay out questions, ask for answers, and remove thinking from replies, equally for every audit.

A template is a text with `{placeholders}`; a literal brace is written twice. All placeholders are
filled in one pass. The filled-in text is never parsed again, so a question with braces reaches the
model unchanged.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from string import Formatter, ascii_uppercase
from typing import Any, NamedTuple

from audit.core.errors import BenchmarkError, ConfigError, check_known
from audit.core.records import Item, Protocol, Reading

SHARED: dict[str, tuple[str, ...]] = {
    "option": ("letter", "text"),  # the template for the line of one option
    "question": ("stem", "options"),
    "direct_letter": ("letters", "question"),
    "direct_option_text": ("question",),
    "direct_number": ("question",),
}
"""The templates that every audit uses, with their placeholders.

A template contains each of its placeholders once, and no other.
"""

OPTIONAL = frozenset({("question", "options"), ("message", "index")})
"""Placeholders that may be left out. Without `{options}` a protocol is a cloze: only the stem is
transmitted, and the options are scored (`reading=option_text`) but never shown; `check_reading`
refuses letters with it."""


OF_READING = (Reading.NUMBER, Reading.CODE)
"""Free-form readings. A template `<name>_<reading>` outside SHARED is used and hashed only with
that reading."""


def load_protocol(
    mapping: Mapping[str, Any],
    of_audit: Mapping[str, tuple[str, ...]] = {},
    reading: Reading | None = None,
) -> Protocol:
    """Check and return a protocol of conf/protocol/*.yaml.

    Parameters
    ----------
    mapping : mapping
        The name, the version and the templates. Templates of other audits are ignored and not
        hashed.
    of_audit : mapping
        The audit's templates in addition to `SHARED`, with their placeholders.
    reading : Reading, optional
        How free-form answers are read. The protocol must then have the templates of this reading
        (`OF_READING`).

    Returns
    -------
    Protocol
        The protocol, with the hash of its templates.

    Raises
    ------
    ConfigError
        If a template is missing, is not text, or has wrong placeholders. The message names it.
    """
    for key in mapping:
        check_known("key of a protocol", str(key), ("name", "version", "description", "templates"))
    for key in ("name", "version"):
        if not isinstance(mapping.get(key), str) or not mapping[key].strip():
            raise ConfigError(
                f"The {key} of the protocol is {mapping.get(key)!r}. Expected text. Example: version: '1'."
            )
    of_others = tuple(f"_{other}" for other in OF_READING if other != reading)
    wanted = _wanted(of_audit, of_others)
    templates = mapping.get("templates")
    if not isinstance(templates, Mapping):
        raise ConfigError(
            f"Protocol {mapping['name']!r} has no templates. Expected: {', '.join(wanted)}."
        )
    for name, placeholders in wanted.items():
        if name not in templates:
            others = []
            for other in sorted(map(str, templates)):
                if other not in wanted and not other.endswith(of_others):
                    others.append(other)
            meant = f" It has these other templates: {', '.join(others)}." if others else ""
            raise ConfigError(f"Protocol {mapping['name']!r} has no template {name!r}.{meant}")
        _check(str(mapping["name"]), name, templates[name], placeholders)
    plain = {str(name): str(templates[name]) for name in wanted}
    return Protocol(
        name=mapping["name"],
        version=mapping["version"],
        templates=plain,
        sha256=templates_sha256(plain),
    )


def check_reading(protocol: Protocol, reading: Reading) -> None:
    """Raise ConfigError if the model must answer with a letter but does not see the options."""
    if reading in (Reading.LETTER, Reading.LETTER_LOGPROB) and not shows_options(protocol):
        raise ConfigError(
            f"Protocol {protocol.name!r} does not show the options. Expected reading=option_text."
        )


def shows_options(protocol: Protocol) -> bool:
    """Return whether the model sees the options. In a cloze (a text to complete) it sees no
    options."""
    return "options" in _fields(protocol.templates["question"])


def templates_sha256(templates: Mapping[str, str]) -> str:
    """Return the sha256 (hex) of all templates.

    The templates are hashed as ASCII JSON with sorted keys and without spaces.
    """
    canonical = json.dumps(
        dict(templates), sort_keys=True, ensure_ascii=True, separators=(",", ":")
    )
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def _wanted(
    of_audit: Mapping[str, tuple[str, ...]], of_others: tuple[str, ...]
) -> dict[str, tuple[str, ...]]:
    """Map each template that the reading needs to its placeholders."""
    wanted = dict(SHARED)
    for name, placeholders in {"direct_code": ("question",), **of_audit}.items():
        if not name.endswith(of_others):
            wanted[name] = placeholders
    return wanted


def fill(template: str, values: Mapping[str, str]) -> str:
    """Fill the placeholders of a template; the values are not parsed.

    Parameters
    ----------
    template : str
        Text with placeholders, such as "{question}".
    values : mapping
        Maps each placeholder to the text that replaces it.

    Returns
    -------
    str
        The filled text.
    """
    return "".join(
        [literal + ("" if field is None else values[field]) for literal, field in _parts(template)]
    )


@lru_cache(maxsize=256)
def _parts(template: str) -> tuple[tuple[str, str | None], ...]:
    """Split a template into pairs of a text and the placeholder after this text.

    The result is cached, since every prompt of a run needs it.
    """
    return tuple((literal, field) for literal, field, _, _ in Formatter().parse(template))


def _check(protocol: str, name: str, template: Any, placeholders: tuple[str, ...]) -> None:
    where = f"Template {name!r} of protocol {protocol!r}"
    expected = " and ".join(f"{{{p}}}" for p in placeholders)
    if not isinstance(template, str):
        raise ConfigError(f"{where} is missing or is not text. Expected text with {expected}.")
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        raise ConfigError(
            f"{where} has a lone brace ({error}). Write a literal brace twice ({{{{ or }}}}); placeholders: {expected}."
        ) from error
    if any(spec or conversion for _, _, spec, conversion in parts):
        raise ConfigError(
            f"{where} has a format specification or a conversion. Expected only {expected}."
        )
    fields = _fields(template)
    optional = {placeholder for placeholder in placeholders if (name, placeholder) in OPTIONAL}
    if len(set(fields)) < len(fields) or {*fields, *optional} != set(placeholders):
        has = ", ".join(f"{{{field}}}" for field in fields) or "none"
        raise ConfigError(f"{where} has the placeholders {has}. Expected {expected}, once each.")


def _fields(template: str) -> list[str]:
    return [field for _, field in _parts(template) if field is not None]


MAX_OPTIONS = len(ascii_uppercase)

_READING_SUFFIX = {
    Reading.LETTER: "letter",
    Reading.LETTER_LOGPROB: "letter",
    Reading.OPTION_TEXT: "option_text",
}


def letters_of(n_options: int) -> tuple[str, ...]:
    """Return the letters of n options.

    Parameters
    ----------
    n_options : int
        Number of options, from 2 to 26.

    Returns
    -------
    tuple of str
        ("A", "B", ...).

    Raises
    ------
    BenchmarkError
        If there are fewer than 2 or more than 26 options.
    """
    if not 2 <= n_options <= MAX_OPTIONS:
        raise BenchmarkError(
            f"A question has {n_options} options. Expected 2 to {MAX_OPTIONS}, lettered A to Z."
        )
    return tuple(ascii_uppercase[:n_options])


def lettered(options: Iterable[str]) -> list[str]:
    """Return a line for each option, which begins with the option's letter.

    Examples
    --------
    >>> lettered(["Rome", "Paris"])
    ['A. Rome', 'B. Paris']
    """
    return [f"{letter}. {text}" for letter, text in zip(ascii_uppercase, options, strict=False)]


def question_text(protocol: Protocol, item: Item) -> str:
    """Return a question as the protocol lays it out, without marking the gold option.

    Parameters
    ----------
    protocol : Protocol
        The prompt templates, which lay out the question.
    item : Item
        The question, with options in the order shown.

    Returns
    -------
    str
        The stem and the lettered options; the stem only for a cloze, a number or code.
    """
    if item.target is not None or item.code is not None:
        return fill(protocol.templates["question"], {"stem": item.text, "options": ""}).rstrip()
    letters = letters_of(len(item.options))
    option = protocol.templates["option"]
    lines = []
    for letter, text in zip(letters, item.options, strict=True):
        lines.append(fill(option, {"letter": letter, "text": text}))
    return fill(protocol.templates["question"], {"stem": item.text, "options": "\n".join(lines)})


def direct_prompt(protocol: Protocol, item: Item, reading: Reading) -> str:
    """Return the question with the instructions of the reading.

    Parameters
    ----------
    protocol : Protocol
        The prompt templates, which lay out the question.
    item : Item
        The question, with options in the order shown.
    reading : Reading
        How the answer is read.

    Returns
    -------
    str
        The prompt.
    """
    text = question_text(protocol, item)
    return answering_prompt(protocol, "direct", "question", text, len(item.options), reading)


def answering_prompt(
    protocol: Protocol, who: str, slot: str, content: str, n_options: int, reading: Reading
) -> str:
    """Return a prompt that asks for an answer.

    Parameters
    ----------
    protocol : Protocol
        The prompt templates, which lay out the question.
    who : str
        Prefix of the template, such as "direct" or "worker".
    slot : str
        Placeholder of the content.
    content : str
        The question, or the messages.
    n_options : int
        Number of options.
    reading : Reading
        Selects the template `<who>_letter`, `<who>_option_text`, ....

    Returns
    -------
    str
        The prompt.
    """
    check_reading(protocol, reading)
    if reading in OF_READING:
        return fill(protocol.templates[f"{who}_{reading}"], {slot: content})
    letters = letters_of(n_options)
    listed = f"{', '.join(letters[:-1])} or {letters[-1]}"
    return fill(
        protocol.templates[f"{who}_{_READING_SUFFIX[reading]}"], {slot: content, "letters": listed}
    )


def seed_of(key: list[str | int | None]) -> int:
    """Return a seed for a key: the first 31 bits of a sha256 over the key.

    Engines accept seeds from 0 to 2**31-1. The key is hashed as a JSON list, so ("ab", "c") and
    ("a", "bc") have different hashes.
    """
    digest = hashlib.sha256(json.dumps(key, separators=(",", ":")).encode("ascii")).digest()
    return int.from_bytes(digest[:4], "big") >> 1


_TAG = re.compile(
    r"<(/?)(?:think|thinking|thought|thoughts|reasoning|seed:think)>|\[(/?)THINK\]", re.IGNORECASE
)
_FINAL_CHANNEL = re.compile(r"<\|channel\|>\s{0,4}final\b[^<]{0,40}<\|message\|>")
_ANY_CHANNEL = re.compile(r"<\|channel\|>\s{0,4}(?:analysis|commentary|thought)")
_END_TOKEN = re.compile(r"<\|(?:end|return|start|call|im_end|eot_id|endoftext)\|>")


class Visible(NamedTuple):
    """Hold a reply without the model's thinking.

    `closed` is False if the reply ended before the model's thinking did.
    """

    text: str
    closed: bool


def strip_thinking(text: str) -> Visible:
    """Remove a model's thinking from its reply.

    Thinking is text in tags such as `<think>..</think>`, or in the channels of OpenAI's harmony
    format.

    Parameters
    ----------
    text : str
        The reply.

    Returns
    -------
    Visible
        The visible text.

    Notes
    -----
    A closing tag without an opening tag ends a block that the chat template opened, so the text
    before the tag is removed. An opening tag without a closing tag belongs to a reply that was cut
    off, so the text after the tag is removed, and `closed` is False. Tags do not nest. The run time
    is linear in the length of the text.

    Examples
    --------
    >>> strip_thinking("<think>A or B? A is wrong.</think>B")
    Visible(text='B', closed=True)
    >>> strip_thinking("<think>The answer is A, but")
    Visible(text='', closed=False)
    """
    if "<" not in text and "[" not in text and not text.startswith("analysis"):
        # Most replies contain no tag of thinking, so this shortcut saves time.
        return Visible(text.strip(), True)
    text, closed = _strip_channels(text)
    visible: list[str] = []
    start, thinking = 0, False
    for tag in _TAG.finditer(text):
        closes = bool(tag.group(1) or tag.group(2))
        if closes:
            if not thinking:
                visible.clear()
            thinking, start = False, tag.end()
        elif not thinking:
            visible.append(text[start : tag.start()])
            thinking = True
    if not thinking:
        visible.append(text[start:])
    return Visible("".join(visible).strip(), closed and not thinking)


def _strip_channels(text: str) -> tuple[str, bool]:
    finals = [match.end() for match in _FINAL_CHANNEL.finditer(text)]
    if finals:
        return _END_TOKEN.split(text[finals[-1] :], maxsplit=1)[0], True
    analysis = _ANY_CHANNEL.search(text)
    if analysis is not None:
        return text[: analysis.start()], False
    # Without its special tokens, "<|channel|>analysis<|message|>..<|channel|>final<|message|>B"
    # becomes "analysis..assistantfinalB" or a similar text.
    if text.startswith("analysis") and "assistantfinal" in text:
        return text.rpartition("assistantfinal")[2], True
    return text, True
