"""Compare a free-form reply with its key, which is a letter, a number, or an answer in LaTeX."""

import re
from collections.abc import Sequence
from string import ascii_uppercase

from audit.benchmarks.answers import bare
from audit.benchmarks.latex import boxed, one_box, same_answer
from audit.benchmarks.reply import corrects, read_key, score_number
from audit.core.prompting import strip_thinking
from audit.core.records import FinishReason
from audit.scoring.letter import read_letter


def read_against_key(
    reply: str, key: str, options: Sequence[str] = ()
) -> tuple[str | None, bool | None]:
    r"""Return the answer that a reply states, as text, and whether it equals the key.

    Parameters
    ----------
    reply : str
        Text of the model's reply.
    key : str
        The right answer. A capital letter names an option, and a number is compared by value. Any
        other key is read as LaTeX and compared with the content of the last LaTeX box in the reply.
    options : sequence of str
        The options of the question; empty if the question has no options.

    Returns
    -------
    answer : str or None
        The answer; None if the reply is unparsed.
    right : bool or None
        Whether the answer equals the key; None if the reply is unparsed.

    Examples
    --------
    >>> read_against_key("So it is \\boxed{(B)}", "B"), read_against_key("That makes $1,018.", "1018")
    (('B', True), ('1018', True))
    """
    key = boxed(key) or key
    if re.fullmatch("[A-Z]", bare(key)):
        unknown_options = [""] * len(ascii_uppercase)
        answer = read_letter(reply, FinishReason.STOP, options or unknown_options)
        letter = None if answer.index is None else ascii_uppercase[answer.index]
        return letter, None if letter is None else letter == bare(key)
    target = read_key(key)
    if target is not None:
        number, right = score_number(reply, target)
        return None if number.value is None else f"{number.value:.15g}", right
    visible = strip_thinking(reply)
    box = one_box(visible.text) if visible.closed else None
    if box is None or corrects(visible.text[box[1] :]):
        return None, None
    same = same_answer(box[0], key)
    return (None, None) if same is None else (box[0], same)
