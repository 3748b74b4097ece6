"""Generated text -> the function that it writes, and whether it passes the problem's tests (reading `code`).

A reply is read by its last fenced block that defines the function; where none does, by its first fenced block; without
a fence, as a whole where it defines the function, and as the continuation of the prompt where its first line is
indented. All else is prose: unparsed. So is a reply that was cut off before its fence was closed, or without one.
"""

import re

from audit.errors import DataError
from audit.prompting.thinking import strip_thinking
from audit.records import Question
from audit.scoring.sandbox import Outcome, run_tests


def read_code(text: str, entry_point: str, *, truncated: bool = False) -> str | None:
    """The code that a reply holds, None where it holds none.

    >>> read_code("Here:\\n```python\\ndef f(x):\\n    return x\\n```\\nIt returns x.", "f")
    'def f(x):\\n    return x\\n'
    """
    visible = strip_thinking(text)
    defines = re.compile(rf"^(?:async )?def {re.escape(entry_point)}\b", re.MULTILINE)
    blocks, opened = _blocks(visible.text)
    if blocks:
        return next((block for block in reversed(blocks) if defines.search(block)), blocks[0])
    if truncated or opened or not visible.closed:
        return None
    if defines.search(visible.text):
        return visible.text
    body = text.lstrip("\r\n")
    return body if visible.text and body[:1] in (" ", "\t") else None


def run_code(text: str, question: Question | None, *, truncated: bool = False) -> Outcome | None:
    """What became of a reply's code, None where it holds none. Raises DataError for a question that is no problem."""
    if question is None or question.code is None:
        raise DataError(
            "A question without tests cannot be scored by running code. Expected a problem of HumanEval's form."
        )
    code = read_code(text, question.code.entry_point, truncated=truncated)
    if code is None:
        return None
    return run_tests(f"{question.text}\n{code}", question.code.tests, question.code.entry_point)


def _blocks(text: str) -> tuple[list[str], bool]:
    """The fenced blocks, and whether a last one is not closed. Linear: every fence is found once."""
    found, start, mark = [], None, ""
    for line in re.finditer(r"[^\n]*(?:\n|$)", text):
        stripped = line[0].strip()
        if start is None and (fence := re.match(r"(```+|~~~+)", stripped)):
            start, mark = line.end(), fence[1]
        elif start is not None and stripped == mark:
            found.append(text[start : line.start()])
            start = None
    return found, start is not None
