r"""Read which option a generated text gives as its answer (reading `letter`).

In the form `strict`, the reply is only a letter: `B`, `(B)`, `**B**`, `Answer: B`, `\boxed{B}`. In
the form `lenient`, the reply states exactly one option in a less strict way. It may declare a
letter ("so the answer is B."), or begin or end with a line that is only a letter. It may also name
one option, give a letter with its option's text, or quote exactly one option. Every other reply is
unparsed.

If two ways to read a reply disagree, the reply is unparsed. It is not guessed, because a wrongly
read letter could not be detected later. Unparsed replies, in contrast, are counted and imputed by
the statistics.

The functions raise no exception for any text. Their time is linear in the length of the text,
because every repetition in a pattern is bounded, and white space is collapsed before a pattern is
matched.
"""

import re
from collections.abc import Iterable, Sequence
from string import ascii_uppercase

from audit.core.prompting import strip_thinking
from audit.core.records import Answer, FinishReason

UNPARSED = Answer(index=None, form="none")
AMBIGUOUS = -1  # result for a reply that names several options or contradicts itself

MAX_STRICT_CHARS = 60
# If a reply is longer, only its end is read, since the answer is usually declared there.
MAX_LENIENT_CHARS = 50_000
# To limit the time, a longer reply is not searched for quoted options.
MAX_QUOTE_SEARCH_CHARS = 10_000
# A shorter option ("4", "no") occurs in any prose by chance, so it is not searched.
MIN_QUOTE_CHARS = 4

# This table maps full-width forms (U+FF01-FF5E) and ideographic punctuation to ASCII, and removes
# quotation marks.
_FOLD: dict[int, str] = {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
_FOLD |= {ord("。"): ". ", ord("、"): ", ", ord("，"): ", ", ord("："): ": ", ord("　"): " "}
_FOLD |= dict.fromkeys(map(ord, '*`"“”„«»$'), "") | dict.fromkeys(map(ord, "‘’"), "'")

_TAGS = re.compile(r"</?(?:final_?answer|answer|choice|option|b|strong)>", re.IGNORECASE)
_NOUN = r"(?:answer|option|choice|letter)"
_IS = r"(?:is|would be|should be|must be|has to be)"
_BOXED = re.compile(
    r"\\(?:boxed|fbox) ?\{ ?(?:\\(?:text|textbf|textrm|mathrm|mathbf) ?\{ ?){0,2}\(?([A-Za-z])\)?(?: ?\}){1,3}"
    r"|\\(?:boxed|fbox) ?\{ ?(?:\\(?:text|textbf|textrm|mathrm|mathbf) ?\{ ?){0,2}"
    r"\(?(?P<lettered>[A-Z])(?:\)?[.:]|\)) ?(?P<text>[^{}\n]{1,200}?) ?\}"
)
_BRACKETED_LETTER = r"[(\[{<'_]{0,3}([A-Za-z])[)\]}>'_]{0,3}"
_STRICT = re.compile(
    rf"(?:(?:the )?(?:final |correct |best |right )?{_NOUN}(?: (?:choice|option|letter))?(?: is ?[:=]? ?| ?[:=] ?| ))?"
    rf"{_BRACKETED_LETTER}[.:!,;]?",
    re.IGNORECASE | re.ASCII,  # Without ASCII, the Kelvin sign would match K.
)
# This pattern matches the words before a declared answer: a noun with a verb or a colon ("answer
# is", "option:", "答案是"), or a phrase such as "choose". `_declared_at` reads the text that follows.
_DECLARES = re.compile(
    rf"\b{_NOUN}(?: (?:choice|option|letter|to (?:the|this|your) question))?"
    rf"(?:(?: {_IS})? ?[:=][ \n]?| - | {_IS} )"
    r"(?:clearly |therefore |thus |simply |definitely )?(?:the )?(?:option |choice |letter |answer )?"
    r"|\b(?:choose|pick|select|go with|opt for|guess|therefore,?|thus,?|hence,?|it's|it is|it must be) (?:option )?"
    r"|(?:答案|respuesta|réponse|resposta|risposta|antwort|ответ)"
    r" ?(?:correcta |correcte )?(?:应该是|应为|是|为|est|es|ist|è|é)? ?:?[ \n]?",
    re.IGNORECASE,
)
_IS_CORRECT = re.compile(
    r"(?<![\w'.-])\(?([A-Z])\)? is (?:clearly |therefore |thus |most likely )?"
    r"(?:correct|right|the (?:most |best |only )?(?:correct |right |accurate |likely )?(?:answer|option|choice|one))\b"
)
_NAMES = re.compile(r"\b(?i:option|choice|answer) \(?([A-Z])(?![\w'-])\)?")
_OPENS = re.compile(r"\(?([A-Z])(?:\)|,? because\b)")
_LABELLED = re.compile(r"(?<![\w'.-])\(?([A-Z])[).:]{1,2} ")

_LETTER_HERE = re.compile(r"[(\[{<'_]{0,2}([A-Z])(?![\w'+#→-])[)\]}>'_]{0,2}")
_SEVERAL = re.compile(
    r" ?(?:,|/|&|\bor\b|\band\b|\bto\b|或|和) ?(?:(?:or|and|option|choice) ){0,2}\(?[A-Z](?![\w'])"
    r"| ?; ?\(?[A-Z]\)?(?:[.;,]|\n|$)"
)
_BEFORE_SEVERAL = re.compile(r"\b[A-Z]\)? ?(?:,|/|&|or|and|nor) ?(?:option |choice )?\(?$")
_BEFORE_DOUBT = re.compile(
    r"\b(?:whether|if|not|neither|why|either|statement|assertion) (?:option |choice |the )?\(?$",
    re.IGNORECASE,
)
_NEGATED_CLAUSE = re.compile(
    r"(?:\bnot|n't|\bnever) (?:think|believe|sure|certain|say|claim|mean|agree|true|clear|know)\b[^.;\n]{0,30}$"
    r"|(?:\b(?:not|never|cannot|incorrect|wrong|another|no|other)|n't) $",
    re.IGNORECASE,
)
# This pattern matches a clause that contradicts a following "B is correct", such as "I doubt that".
_NOT_MEANT = re.compile(
    r"(?:(?:\b(?:not|never|cannot)|n't) (?:think|believe|sure|certain|say|claim|mean|agree|true|clear|know)"
    r"|\b(?:doubt|deny|tempting|might say|could say|people (?:think|believe|say)))\b[^.,;\n]{0,30}$",
    re.IGNORECASE,
)
_BOTH = re.compile(r",? ?(?:and|&|,) (?:option |choice )?")
_ENDS_WELL = re.compile(
    r" ?(?:[.,:;!)\]}](?=[\s)\]}'.]|$)|\n|$)| [-–—(] ?| (?:because|since|as|which|given|due)\b"
)
_GOES_ON_WELL = re.compile(r" (?:and|but|so|for|with|in|from)\b(?! [A-Z]\b)")
_ALSO = re.compile(r" ?(?:,|/|\bor\b|\band\b) ?(?:or |and )?")
_BEFORE_TEXT = re.compile(r"[.:)]{0,2} ?[-–—:(]? ?")
_TEXT_ENDS = re.compile(r" ?(?:[.,;)]|\n|$)")
_DENIED = re.compile(
    r"^[ ,)]{0,2}(?:is|are|was|would be|seems) ?(?:also )?(?:not\b|n't|wrong|false|incorrect|never)",
    re.I,
)
_BEFORE_DENIED = re.compile(
    r"(?:\b(?:not|never|neither|nor|except|than|isn't|wasn't|aren't)|n't) ?(?:the |an? )?$", re.I
)


def read_letter(text: str, finish_reason: FinishReason, options: Sequence[str]) -> Answer:
    """Read which option a reply gives as its answer.

    Parameters
    ----------
    text : str
        Text of the model's reply.
    finish_reason : FinishReason
        How the reply ended. A reply that was cut off at max_tokens (LENGTH) is read in the strict
        form only, since the conclusion of its reasoning is missing.
    options : sequence of str
        The k options in the order shown. Letters after the k-th are not answers.

    Returns
    -------
    Answer
        The index of the option and the form of the answer. The form is "none" if the reply is
        unparsed. A single letter is read as a letter even if it is also the text of an option ("A"
        among blood groups).

    Examples
    --------
    >>> read_letter("The answer is (B).", FinishReason.STOP, ["Rome", "Paris"]).index
    1
    >>> read_letter("A planet is what they show.", FinishReason.STOP, ["Rome", "Paris"]).form
    'none'
    """
    visible = strip_thinking(text)
    if finish_reason == FinishReason.ERROR or not visible.closed:
        return UNPARSED
    reply, form = canonical(visible.text), "strict"
    letter = _strict_letter(reply, any_case=True)
    index = None if letter is None else _index(letter, len(options))
    if letter is None and finish_reason != FinishReason.LENGTH:
        index, form = _lenient(reply[-MAX_LENIENT_CHARS:], list(map(canonical, options))), "lenient"
    return UNPARSED if index is None or index == AMBIGUOUS else Answer(index=index, form=form)


def canonical(text: str) -> str:
    """Normalise a text before it is read.

    Parameters
    ----------
    text : str
        Text to normalise, such as a reply or an option.

    Returns
    -------
    str
        The text in ASCII forms, without quotation marks, tags, blank lines and repeated white
        space.
    """
    lines = []
    for line in _TAGS.sub("", text.translate(_FOLD)).splitlines():
        lines.append(" ".join(line.split()))
    return "\n".join(filter(None, lines))


def _strict_letter(reply: str, any_case: bool) -> str | None:
    """Return the letter if the text is only a letter in one of its usual forms."""
    if len(reply) > MAX_STRICT_CHARS:
        return None
    flat = reply.replace("\n", " ").lstrip("#>- ")
    boxed = _BOXED.search(flat)
    if boxed and re.fullmatch(
        r"(?:the )?(?:final )?(?:answer)?(?: is)?\W*", _BOXED.sub("", flat, count=1), re.I
    ):
        # The group is None if the box holds a letter with a text. `_in_box` compares such a box
        # with the options.
        return boxed[1]
    match = _STRICT.fullmatch(flat)
    return match[1] if match and (any_case or match[1].isupper()) else None


def _lenient(reply: str, options: list[str]) -> int | None:
    """Return the index of the option that the reply states, read in the lenient form.

    Return AMBIGUOUS if the reply states several options, and None if it states no option.

    All declarations in the reply must agree.
    """
    lines = (reply[: reply.find("\n")], reply[reply.rfind("\n") + 1 :]) if "\n" in reply else ()
    letters = [_strict_letter(line, any_case=False) for line in lines]
    declared = []
    for letter in letters:
        if letter is not None:
            declared.append(_index(letter, len(options)))
    for i in (_last_declared(reply, options), _opening(reply, options)):
        if i is not None:
            declared.append(i)
    if declared:
        return _agree(declared)
    for reader in (_named, _labelled, _quoted):
        if (index := reader(reply, options)) is not None:
            return index
    return None


def _index(letter: str, k: int) -> int:
    index = ascii_uppercase.index(letter.upper())
    return index if index < k else AMBIGUOUS


def _agree(indices: Iterable[int]) -> int:
    distinct = set(indices)
    return distinct.pop() if len(distinct) == 1 else AMBIGUOUS


def _last_declared(reply: str, options: list[str]) -> int | None:
    """Return the option of the last "answer is B", "B is correct", or boxed B.

    A model may correct an earlier answer while it reasons, so the last declaration counts.
    """
    k, last_at, last = len(options), -1, None
    for match in _DECLARES.finditer(reply):
        negated = _NEGATED_CLAUSE.search(reply[max(0, match.start() - 60) : match.start()])
        if not negated and (index := _declared_at(reply, match.end(), options)) is not None:
            last_at, last = match.start(), index
    ended = -1
    for match in _IS_CORRECT.finditer(reply):
        before = reply[max(0, match.start() - 60) : match.start()]
        doubted = (
            _BEFORE_DOUBT.search(before[-20:])
            or _NOT_MEANT.search(before)
            or reply.startswith("?", match.end())
        )
        if match.start() <= last_at or doubted:
            continue
        continued = ended >= 0 and _BOTH.fullmatch(reply[ended : match.start()]) is not None
        several = continued or _BEFORE_SEVERAL.search(before[-20:]) is not None
        ended = match.end()
        last_at, last = match.start(), AMBIGUOUS if several else _index(match.group(1), k)
    for match in _BOXED.finditer(reply):
        if match.start() > last_at:
            last_at, last = match.start(), _in_box(match, options)
    return last


def _in_box(match: re.Match[str], options: list[str]) -> int:
    """Return the option in a box such as `\\boxed{B}` or `\\boxed{B. Paris}`.

    A letter followed by a text counts only if the text is that of the letter's option. The whole
    content of the box may also be the text of an option, such as "E. coli".
    """
    if match[1]:
        return _index(match[1], len(options))
    index, text = _index(match["lettered"], len(options)), match["text"]
    named = []
    whole = []
    for i, option in enumerate(options):
        if option and _same(option, text):
            named.append(i)
        if option and _same(option, f"{match['lettered']}. {text}"):
            whole.append(i)
    if whole or not any(options):
        return _agree(whole) if whole else index
    return index if named == [index] else AMBIGUOUS


def _declared_at(reply: str, at: int, options: list[str]) -> int | None:
    """Return the option that follows the words "the answer is".

    The option may be named by its text ("A planet") or by its letter.

    A letter that is an article or part of a name does not count.
    """
    match = _LETTER_HERE.match(reply, at)
    text = _option_at(reply, at, options)
    if text is not None and (match is None or _size(options[text]) > 1):
        return _text_declared(reply, at + _size(options[text]), text, options)
    if match is None:
        return None
    letter, after = match.group(1), reply[match.end() : match.end() + 80]
    index = _index(letter, len(options))
    if _SEVERAL.match(after):
        return AMBIGUOUS
    if (gap := _BEFORE_TEXT.match(reply, match.end())) is not None:
        follows = _option_at(reply, gap.end(), options)
        if follows is not None and _TEXT_ENDS.match(reply, gap.end() + _size(options[follows])):
            return index if follows == index else AMBIGUOUS
    if after.startswith("?"):
        return None
    if _ENDS_WELL.match(after) or (letter not in "AI" and _GOES_ON_WELL.match(after)):
        return AMBIGUOUS if _DENIED.match(after.lstrip(".,")) else index
    return None


def _text_declared(reply: str, end: int, text: int, options: list[str]) -> int | None:
    """Return the option whose text ends at `end`, unless another option or a denial follows."""
    also = _ALSO.match(reply, end)
    if also and _option_at(reply, also.end(), options) is not None:
        return AMBIGUOUS
    return None if _DENIED.match(reply[end : end + 40]) else text


def _option_at(reply: str, at: int, options: list[str]) -> int | None:
    """Return the longest option whose text begins at position `at` and ends at a word boundary.

    Return None if two options have the same text. Case is ignored without changing the length of
    the text, so that the caller can compute where the option ends.
    """
    best: int | None = None
    for i, option in enumerate(options):
        size = _size(option)
        if size == 0 or reply[at : at + size].lower() != option[:size].lower():
            continue
        after = reply[at + size : at + size + 1]
        if after and (after.isalnum() or after in "-_'"):
            continue
        if best is None or _size(options[best]) < size:
            best = i
    if best is not None and sum(_same(option, options[best]) for option in options) > 1:
        return None
    return best


def _size(option: str) -> int:
    """Return the number of characters of an option's text, without its final full stop."""
    return len(option.rstrip("."))


def _same(first: str, second: str) -> bool:
    return first.rstrip(".").lower() == second.rstrip(".").lower()


def _opening(reply: str, options: list[str]) -> int | None:
    """Return the option of a reply that begins with "B) ...", "B: ..." or "B because ...".

    Return AMBIGUOUS if the text of another option follows the letter. `_labelled` reads a reply
    that begins with "B. ...", since a sentence may begin with a name such as "E. coli".
    """
    match = _OPENS.match(reply)
    if match is None or len({m.group(1) for m in _LABELLED.finditer(reply)}) > 1:
        return None
    index = _index(match.group(1), len(options))
    gap = _BEFORE_TEXT.match(reply, match.end())
    follows = _option_at(reply, gap.end() if gap else match.end(), options)
    denied = _DENIED.match(reply[match.end() : match.end() + 40])
    return index if follows in (None, index) and not denied else AMBIGUOUS


def _named(reply: str, options: list[str]) -> int | None:
    """Return the option named by "option B" at the end of a clause, as in "I choose option B.".

    Options that are only discussed do not count.
    """
    accepted: set[int] = set()
    for match in _NAMES.finditer(reply):
        after = reply[match.end() : match.end() + 80]
        before = reply[max(0, match.start() - 20) : match.start()]
        if _SEVERAL.match(after) or _BEFORE_SEVERAL.search(before):
            return AMBIGUOUS
        if (
            _ENDS_WELL.match(after)
            and not after.startswith(":")
            and not _BEFORE_DENIED.search(before)
        ):
            accepted.add(_index(match.group(1), len(options)))
    return _agree(accepted) if accepted else None


def _labelled(reply: str, options: list[str]) -> int | None:
    """Return the option that is named by its letter with its text ("B. Paris").

    Return AMBIGUOUS if the text after the letter is that of another option.
    """
    labelled: set[int] = set()
    for match in _LABELLED.finditer(reply):
        follows = _option_at(reply, match.end(), options)
        if follows is None:
            continue
        end = match.end() + _size(options[follows])
        agrees = _index(match.group(1), len(options)) == follows and not _DENIED.match(
            reply[end : end + 40]
        )
        labelled.add(follows if agrees else AMBIGUOUS)
    return _agree(labelled) if labelled else None


def _quoted(reply: str, options: list[str]) -> int | None:
    """Return the only option whose full text occurs in the reply.

    Longer options are searched first, so that a shorter option inside a longer one does not count.
    """
    whole = [i for i, option in enumerate(options) if _size(option) and _same(option, reply)]
    if whole:
        return _agree(whole)
    if len(reply) > MAX_QUOTE_SEARCH_CHARS:
        return None
    rest = reply.lower()
    quoted: list[int] = []
    for i in sorted(range(len(options)), key=lambda j: -len(options[j])):
        wanted = options[i].lower().rstrip(".")
        if not wanted:
            continue
        pattern = re.compile(rf"(?<!\w){re.escape(wanted)}(?!\w)")
        match = pattern.search(rest)
        if match is None:
            continue
        denied = _BEFORE_DENIED.search(rest[max(0, match.start() - 20) : match.start()])
        if denied or _DENIED.match(rest[match.end() : match.end() + 40]):
            return AMBIGUOUS
        # "York's" and "York-based" do not give York as the answer, but the reply is then ambiguous
        # if it also quotes another option.
        alone = re.search(rf"(?<!\w)(?<!\w['-]){re.escape(wanted)}(?!['-]?\w)", rest)
        quoted.append(i if alone else AMBIGUOUS)
        rest = pattern.sub("\x00", rest)
    return _long_enough(_agree(quoted), options) if quoted else None


def _long_enough(index: int, options: list[str]) -> int | None:
    """Return the index of an option; None if the option is too short to count as quoted."""
    if index == AMBIGUOUS:
        return index
    option = options[index]
    return index if len(option) >= MIN_QUOTE_CHARS and re.search(r"[^\W\d_]", option) else None
