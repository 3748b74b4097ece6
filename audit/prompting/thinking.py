"""A model's visible reply without its thinking. Pure, and linear in the length of the text."""

import re
from typing import NamedTuple

_TAG = re.compile(r"<(/?)(?:think|thinking|thought|thoughts|reasoning|seed:think)>|\[(/?)THINK\]", re.IGNORECASE)
_FINAL_CHANNEL = re.compile(r"<\|channel\|>\s{0,4}final\b[^<]{0,40}<\|message\|>")
_ANY_CHANNEL = re.compile(r"<\|channel\|>\s{0,4}(?:analysis|commentary|thought)")
_END_TOKEN = re.compile(r"<\|(?:end|return|start|call|im_end|eot_id|endoftext)\|>")


class Visible(NamedTuple):
    """`text` is what the model says; `closed` is False when it was still thinking when the text ended."""

    text: str
    closed: bool


def strip_thinking(text: str) -> Visible:
    """Remove thinking: `<think>..</think>` and its kin, and the channels of harmony (`<|channel|>analysis`).

    A closing tag without an opening one ends a block that the chat template opened: all before it goes. An opening
    tag without a closing one was cut off: all after it goes, and `closed` is False. Tags do not nest: an opening tag
    inside thinking is thinking.

    >>> strip_thinking("<think>A or B? A is wrong.</think>B")
    Visible(text='B', closed=True)
    >>> strip_thinking("<think>The answer is A, but")
    Visible(text='', closed=False)
    """
    if "<" not in text and "[" not in text and not text.startswith("analysis"):
        return Visible(text.strip(), True)  # most messages: nothing that marks thinking
    text, closed = _strip_channels(text)
    kept: list[str] = []
    start, thinking = 0, False
    for tag in _TAG.finditer(text):
        closes = bool(tag.group(1) or tag.group(2))
        if closes:
            if not thinking:
                kept.clear()
            thinking, start = False, tag.end()
        elif not thinking:
            kept.append(text[start : tag.start()])
            thinking = True
    if not thinking:
        kept.append(text[start:])
    return Visible("".join(kept).strip(), closed and not thinking)


def _strip_channels(text: str) -> tuple[str, bool]:
    finals = [match.end() for match in _FINAL_CHANNEL.finditer(text)]
    if finals:
        return _END_TOKEN.split(text[finals[-1] :], maxsplit=1)[0], True
    analysis = _ANY_CHANNEL.search(text)
    if analysis is not None:
        return text[: analysis.start()], False
    # Decoded without special tokens, "<|channel|>analysis<|message|>..<|channel|>final<|message|>B" reads like this.
    if text.startswith("analysis") and "assistantfinal" in text:
        return text.rpartition("assistantfinal")[2], True
    return text, True
