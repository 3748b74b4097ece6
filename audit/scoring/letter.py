r"""Read the option that a generated text answers (reading `letter`).

`strict`: the reply is a letter and nothing else, in the usual forms: `B`, `(B)`, `**B**`, `Answer:
B`, `\boxed{B}`. `lenient`: the reply declares one letter ("... so the answer is B."), opens or
closes with one on its own line, names one option, gives one letter with its option's text, or
quotes exactly one option. Every other reply is unparsed. If two readings of a reply disagree it is
unparsed, not guessed: an unparsed reply is counted and bounded downstream, a misread one is not
seen again.

The functions never raise on any text, and run in time linear in its length: every repetition in a
pattern is bounded, and white space is collapsed before a pattern sees it.
"""

import re
from collections.abc import Iterable, Sequence
from string import ascii_uppercase

from audit.core.prompting import strip_thinking
from audit.core.records import Answer, FinishReason

UNPARSED = Answer(index=None, form="none")
AMBIGUOUS = -1  # a declaration names several options, or contradicts itself

MAX_STRICT_CHARS = 60
MAX_LENIENT_CHARS = 50_000  # only the end of a longer reply is read, as a declaration stands there
MAX_QUOTE_SEARCH_CHARS = (
    10_000  # longer replies are not searched for quoted options (bounds the time)
)
MIN_QUOTE_CHARS = 4  # a shorter option ("4", "no") turns up in any prose

# The table maps full-width forms (U+FF01-FF5E), the ideographic stop and space to ASCII, and
# removes quotation marks.
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
    re.IGNORECASE | re.ASCII,  # ASCII, as the Kelvin sign would otherwise match a K
)
# A noun and a link ("answer is", "correct option:", "答案是"), or "answer" alone. The code reads what
# follows.
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
# The pattern matches a clause before "B is correct" that does not support it.
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
    """Return the option that a reply answers.

    Parameters
    ----------
    text : str
        The reply.
    finish_reason : FinishReason
        A reply cut off at max_tokens (LENGTH) is read in the strict form only: the conclusion of
        its reasoning is not known.
    options : sequence of str
        The k options in the order shown; letters beyond the k-th are not answers.

    Returns
    -------
    Answer
        Index and form; form "none" if unparsed. One letter that is itself an option's text ("A"
        among blood groups) reads as the letter.

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
    """Return a text folded to ASCII forms, without quotation marks, tags, blank lines and repeated
    white space."""
    lines = (" ".join(line.split()) for line in _TAGS.sub("", text.translate(_FOLD)).splitlines())
    return "\n".join(line for line in lines if line)


def _strict_letter(reply: str, any_case: bool) -> str | None:
    """Return the letter if the text is nothing but a letter in its usual form."""
    if len(reply) > MAX_STRICT_CHARS:
        return None
    flat = reply.replace("\n", " ").lstrip("#>- ")
    boxed = _BOXED.search(flat)
    if boxed and re.fullmatch(
        r"(?:the )?(?:final )?(?:answer)?(?: is)?\W*", _BOXED.sub("", flat, count=1), re.I
    ):
        return boxed[1]  # None for a letter with a text, which is compared with the options
    match = _STRICT.fullmatch(flat)
    return match[1] if match and (any_case or match[1].isupper()) else None


def _lenient(reply: str, options: list[str]) -> int | None:
    """Return index, AMBIGUOUS or None; every declaration in the reply has to agree."""
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
    """Return the last "answer is B", "B is correct", or boxed B.

    A reasoner corrects itself, so the last one counts.
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
        both = ended >= 0 and _BOTH.fullmatch(reply[ended : match.start()]) is not None
        several = both or _BEFORE_SEVERAL.search(before[-20:]) is not None
        ended = match.end()
        last_at, last = match.start(), AMBIGUOUS if several else _index(match.group(1), k)
    for match in _BOXED.finditer(reply):
        if match.start() > last_at:
            last_at, last = match.start(), _in_box(match, options)
    return last


def _in_box(match: re.Match[str], options: list[str]) -> int:
    """Return the option of a box: its letter, unless another option's text follows ("B. Paris") or
    is all of it.

    If the options are known, "E. coli" is the letter E only if it is followed by that option's
    text.
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
    """Return the option right after "the answer is": its text ("A planet"), or a letter, not an
    article or a name."""
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
    """Return the option whose text ends at `end`, unless another one or a denial follows."""
    also = _ALSO.match(reply, end)
    if also and _option_at(reply, also.end(), options) is not None:
        return AMBIGUOUS
    return None if _DENIED.match(reply[end : end + 40]) else text


def _option_at(reply: str, at: int, options: list[str]) -> int | None:
    """Return the longest option at `at`, up to a boundary; None if two options have that text.

    The text is lower-cased character by character, which keeps lengths, so that the caller can step
    over it.
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
    """Return the length of an option's text without its closing stop."""
    return len(option.rstrip("."))


def _same(first: str, second: str) -> bool:
    return first.rstrip(".").lower() == second.rstrip(".").lower()


def _opening(reply: str, options: list[str]) -> int | None:
    """Return the letter of a reply that opens with "B) ...", "B: ...", "B because ...".

    It is AMBIGUOUS if another option's text follows. "B. ..." is left to `_labelled`, which
    requires the option's text: "E. coli" opens a sentence too.
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
    """Return one "option B" that ends a clause ("I choose option B."); options that are merely
    discussed do not count."""
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
    """Return one letter with an option's text ("B. Paris"); AMBIGUOUS if the text is another
    option's."""
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
    """Return the one option whose full text occurs in the reply; longer options are found first and
    cover shorter ones."""
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
        # "York's" does not answer York, nor does "York-based"; beside another option it is still in
        # doubt.
        alone = re.search(rf"(?<!\w)(?<!\w['-]){re.escape(wanted)}(?!['-]?\w)", rest)
        quoted.append(i if alone else AMBIGUOUS)
        rest = pattern.sub("\x00", rest)
    return _long_enough(_agree(quoted), options) if quoted else None


def _long_enough(index: int, options: list[str]) -> int | None:
    """Return the index, unless its option is too short to be quoted."""
    if index == AMBIGUOUS:
        return index
    option = options[index]
    return index if len(option) >= MIN_QUOTE_CHARS and re.search(r"[^\W\d_]", option) else None
