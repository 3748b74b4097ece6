"""What an audit says by a code, with all numbers that there are: for the tests of its texts."""

import inspect
import re
from collections.abc import Mapping

from audit.judging.result import Reason, Texts, sentence


def spoken(texts: Texts, code: str, numbers: Mapping[str, object]) -> str:
    """The sentence, whose parts have 30 words at most and leave no place unfilled."""
    text = texts[code]
    if callable(text):
        parameters = inspect.signature(text).parameters.values()
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            numbers = {p.name: numbers[p.name] for p in parameters}
    message = sentence(Reason(code, dict(numbers)), texts)
    assert "{" not in message and "nan" not in message, message
    assert all(
        len(part.split()) <= 30 for part in re.split(r"[.:;]\s", re.sub(r"\(.*?\)", "", message))
    ), message
    return message
