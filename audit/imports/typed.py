"""Interpret the cells in the columns `answer` and `gold` (key) of a table, and compare them (pure).

A cell can be read as one of these kinds: a letter, an option's number (from 0 or from 1), an
option's text, a number, a truth value or a word. All rows together decide which kind is used for
all answers, and which kind for all keys.

A pair of kinds is possible if every key can be read as the second kind, and no cell shows that the
answers are not of the first kind. If two possible pairs give some row different scores, the table
is refused. The error message lists the arguments with which the user chooses a pair.

A comparison has three results: right, wrong or unparsed. An answer is unparsed if it is neither
clearly the key nor clearly another answer.

If the rows list no options, the number of options is taken from the keys. This requires at least
`ROWS_AN_OPTION` rows for each option, so that every option is likely to be the key of some row.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import chain, filterfalse, product
from operator import itemgetter, neg
from typing import Any

from audit.benchmarks.answers import LETTERS, own_letters
from audit.benchmarks.number import values_alone
from audit.core.errors import ConfigError
from audit.core.records import FinishReason
from audit.imports.record import is_none
from audit.scoring.letter import canonical, read_letter

# A cell of one of these kinds names an option. A truth value names an option if the options are yes
# and no.
OPTION = (
    "letter",
    "from0",
    "from1",
    "text",
    "truth",
)
KINDS = (*OPTION, "number", "word")
# Each pair is (kind for the answers, kind for the keys).
PAIRS = (
    *product(OPTION, OPTION),
    ("number", "number"),
    ("word", "word"),
)
ROWS_AN_OPTION = (
    # With this many rows for each of n options, every option is almost certainly the key of some
    # row. The probability that a given option is never the key is (1 - 1/n)^(8n) < e^-8.
    8
)
CODES_MAX = (
    # Largest share of a column's words that may be letters or numbers. If the share is larger, the
    # words are taken for letters or numbers of options.
    0.1
)
# A kind is possible only if at least this share of the answers can be read as this kind. The share
# is also required relative to the kind that reads the most answers. A kind that reads nearly as
# many answers as this best kind may be the right kind.
USUAL_MIN = 0.5
# Keys form a closed list if there are at most this many distinct keys, and on average at least this
# many rows for each key.
VOCABULARY_MAX, VOCABULARY_ROWS = (
    200,
    3,
)
USUAL_OPTIONS = 10
_TOGETHER = 1 << 11  # number of distinct rows that are collected before they are read
_NO_OPTION = "-1"  # programs write this as option number if no option was chosen
# Largest number of characters of an answer that is interpreted; a longer answer is compared
# unchanged.
MAX_CELL = 2_000

_TRUE, _FALSE = ("yes", "true", "y", "t", "1"), ("no", "false", "n", "f", "0")
_TRUTH = {**dict.fromkeys(_TRUE, True), **dict.fromkeys(_FALSE, False)}
# An answer in a model's reply is read only as one of these kinds, since a number in a reply rarely
# means an option's number.
_OF_REPLIES = ("letter", "text", "truth")
_NOUN = r"(?:the )?(?:final |correct |best |right )?(?:answer|option|choice|letter)"
_SAYS = re.compile(
    rf"{_NOUN}(?: is ?[:=]? ?| ?[:=] ?| (?=\W?(?:[a-z]|\d{{1,2}})\W?$))(?=\S)",
    re.IGNORECASE | re.ASCII,
)
_BOX = re.compile(r"\\(?:boxed|text|textbf|mathrm|mathbf|fbox) ?\{([^{}]*)\}")
_SHORT = re.compile(r"[(\[{<'_#]{0,3}([A-Za-z]|\d{1,3}(?:\.0+)?)[)\]}>'_.:]{0,3}", re.ASCII)
_LETTERED = re.compile(r"\(?([A-Za-z])([).:])[ \n]?(\S.*)", re.DOTALL | re.ASCII)
# In accounting, a number in brackets is negative.
_BRACKETED = re.compile(r"\((\d{1,30}(?:\.\d{1,30})?)\)", re.ASCII)
_DIGIT, _FRAC = re.compile(r"\d"), re.compile(r"\\[dt]?frac")
_PARTS = re.compile(r"\w+")
# This matches a letter that may belong to a unit. A text with a unit is not read as a number, since
# 4 km is not 4 m.
_WORDS = re.compile(r"[^\W\d_eE]|(?<!\d)[eE]|[eE](?![+-]?\d)")
_NUMERIC = re.compile(r"[^\w]{0,3}\d", re.ASCII)
_LETTER_SET = re.compile(r"[a-j](?:[ ,;/&+|、，]{0,3}[a-j]){0,9}")  # such as "AC", and "A, C"
_LETTERS_OF = re.compile(r"[^a-j]")
_ASCII_LETTER = re.compile(r"[A-Za-z]")
_MARKED = re.compile(r"^[(\[]?[a-z][.):\]]{1,2}\s*(?=\S)")  # the letter before a text: "b. paris"
# A sentence about an option has at least this many words more than the option's text. A label of an
# option has fewer additional words.
_MORE_WORDS = 3
_INVISIBLE = dict.fromkeys((0xAD, *range(0x200B, 0x2010), 0x2060, 0xFEFF), None)
# This maps Cyrillic and Greek letters to the Latin letters that look the same. It is used only to
# recognise texts that look alike, never to read an option's letter, since the third Cyrillic letter
# does not mean option B.
_ALIKE = str.maketrans(
    "АВЕКМНОРСТУХІЈЅаеорсухіјѕΑΒΕΖΗΙΚΜΝΟΡΤΥΧο", "ABEKMHOPCTYXIJSaeopcyxijsABEZHIKMNOPTYXo"
)


def cell_of(value: Any, *, literal: bool = False) -> str | None:
    """Return a cell as text.

    Parameters
    ----------
    value : Any
        The cell as the file has it.
    literal : bool
        Whether to keep a word for an empty cell, such as N/A, as a text.

    Returns
    -------
    str or None
        The text; None if the cell is empty or holds several values.

    Examples
    --------
    >>> cell_of(18.0), cell_of("N/A"), cell_of(float("nan")), cell_of(["B"]), cell_of(True)
    ('18', None, None, 'B', 'true')
    """
    if isinstance(value, str):
        return _cell(value, literal)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if value is None or isinstance(value, list | dict):
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return _cell(str(value), literal)


def same_truths(words: Set[str]) -> bool:
    """Return whether all words belong to one pair of truth values, such as yes and no."""
    return any(words <= set(pair) for pair in zip(_TRUE, _FALSE, strict=True))


@lru_cache(maxsize=1 << 11)
def _cell(value: str, literal: bool) -> str | None:
    text = value.translate(_INVISIBLE).strip()
    return None if not text or (is_none(text) and not literal) else text


@lru_cache(maxsize=1 << 11)
def undressed(text: str) -> str:
    """Remove from a text everything that only marks it as an answer.

    Returns
    -------
    str
        The text without boxes, "Answer:", quotes and the full stop at the end.

    Examples
    --------
    >>> undressed("The answer is: Paris."), undressed(r"\\boxed{18}")
    ('Paris', '18')
    """
    flat = canonical(text.translate(_INVISIBLE)).replace("\n", " ")
    # A box may contain another box, so boxes are removed repeatedly.
    before = ""
    while before != flat:
        before, flat = flat, _BOX.sub(r"\1", flat)
    flat = _SAYS.sub("", flat, count=1) if _SAYS.match(flat) else flat
    quoted = flat[1:-1] if len(flat) > 2 and flat[0] == flat[-1] == "'" else flat
    return quoted.strip().rstrip(".,;:!").strip() or flat or text.strip()


def _word(text: str) -> str:
    return undressed(text[:MAX_CELL]).casefold()


@lru_cache(maxsize=1 << 11)
def numbers(text: str) -> frozenset[Fraction]:
    """Return the numbers that a text can mean if it consists of a single number.

    Returns
    -------
    frozenset of Fraction
        The possible numbers. There are two if a mark may separate thousands or decimals. A sentence
        gives an empty set.

    Examples
    --------
    >>> sorted(map(float, numbers("1.234"))), sorted(map(float, numbers("$18.50")))
    ([1.234, 1234.0], [18.5])
    >>> numbers("18 or 19")
    frozenset()
    """
    base = undressed(text) if len(text) < 100 else ""
    if not _DIGIT.search(base) or _WORDS.search(_FRAC.sub("", base)):
        return frozenset()
    values = values_alone(base)
    if _BRACKETED.fullmatch(base):
        return values | frozenset(map(neg, values))
    return values


@lru_cache(maxsize=1 << 11)
def readings(text: str, options: tuple[str, ...], n: int) -> dict[str, Any]:
    """Return all readings of a cell.

    Parameters
    ----------
    text : str
        The cell.
    options : tuple of str
        Texts of the row's options; () if the options are not known.
    n : int
        Number of options.

    Returns
    -------
    dict
        {kind: value}. Depending on the kind, the value is the index of an option, a set of numbers,
        a truth value or a word.

    Examples
    --------
    >>> readings("(B)", (), 4)
    {'letter': 1, 'word': '(b)'}
    >>> readings("1.0", ("2", "1"), 2)["from0"], readings("1.0", ("2", "1"), 2)["text"]
    (1, 1)
    """
    base, value = undressed(text), numbers(text)
    short = _SHORT.fullmatch(base)
    places = _code(short[1] if short else "", value)
    place = _text_place(text, base, options) if options else None
    if place is not None:
        places["text"] = place
    elif not short:
        places |= _longer(text, base, options, n)
    kinds: dict[str, Any] = {kind: place for kind, place in places.items() if 0 <= place < n}
    if value:
        kinds["number"] = value
    truth = _TRUTH.get(base.casefold())
    if truth is not None:
        kinds["truth"] = _truth(truth, options)
    kinds["word"] = _word(text)
    return kinds


def _code(short: str, value: frozenset[Fraction]) -> dict[str, int]:
    """Map each possible kind to the index of the option that a single letter or number names."""
    if short.isalpha():
        return {"letter": LETTERS.index(short.upper())}
    whole = _whole(short, value)
    return {} if whole is None else {"from0": whole, "from1": whole - 1}


def _longer(text: str, base: str, options: tuple[str, ...], n: int) -> dict[str, int]:
    """Map each possible kind to the index of the option that a longer answer names by a letter."""
    texts = () if options == tuple(LETTERS[: len(options)]) else options
    letter = _longer_letter(text, base, texts, n)
    if letter is not None:
        # If the text of an option equals its letter, as in option A with the text "A", the answer
        # names the option by letter and by text.
        same = letter < len(options) and options[letter].upper() == LETTERS[letter]
        return {"letter": letter, "text": letter} if same else {"letter": letter}
    lettered = _LETTERED.fullmatch(base)
    if lettered and not options and lettered[3][:2].istitle():
        # The letter may name an option ("B. Paris") or be an initial ("B. Obama").
        return {"initial": LETTERS.index(lettered[1].upper())}
    return {}


def _truth(truth: bool, options: tuple[str, ...]) -> bool | int:
    """Return the index of the option with a truth value, if the options are yes and no.

    With any other options, return the truth value.
    """
    facts = [_TRUTH.get(word) for word in map(_word, options)]
    return facts.index(truth) if sorted(map(str, facts)) == ["False", "True"] else truth


def _whole(digits: str, value: frozenset[Fraction]) -> int | None:
    """Return the whole number that a cell means, such as 2 for "2.0" or "#2".

    Return None if the cell may mean several numbers. For example, "1.000" may mean 1 or 1000.
    """
    if digits.isdecimal():
        return int(digits)
    (number,) = value if len(value) == 1 else (Fraction(1, 2),)
    return int(number) if number.denominator == 1 else None


def _text_place(text: str, base: str, options: tuple[str, ...]) -> int | None:
    """Return the index of the option with a given text or number.

    Return None if no option or several options match.
    """
    value, word = numbers(text), base.casefold()
    unlettered = own_letters(options)[1]
    places = []
    for place, (option, bare) in enumerate(zip(options, unlettered, strict=True)):
        if word in (_word(option), _word(bare)):
            places.append(place)
    if not places and len(value) == 1:
        places = [place for place, bare in enumerate(unlettered) if numbers(bare) == value]
    return places[0] if len(places) == 1 else None


def _longer_letter(text: str, base: str, options: tuple[str, ...], n: int) -> int | None:
    """Return the index of the option that a longer answer names by a letter ("B) Paris", "I choose
    B.").

    Return None if the text in the answer is the text of another option.
    """
    for place, option in enumerate(options):
        if len(option) == 1 and LETTERS.find(option.upper()) not in (-1, place):
            # A letter may also be an option's text: if the options are blood groups, B may be a
            # letter or a text.
            return None
    if lettered := _LETTERED.fullmatch(base):
        place = LETTERS.index(lettered[1].upper())
        if options:
            by_text = _text_place(lettered[3], undressed(lettered[3]), options)
            return place if by_text == place < n else None
        return place if lettered[2] == ")" and len(text) <= MAX_CELL else None
    if len(base) < 2:
        return None
    return read_letter(text, FinishReason.STOP, options or ("",) * n).index


def _skeleton(word: str) -> str:
    """Return the skeleton of a word, which is equal for words that look alike.

    The skeleton consists of the word's letters and digits. Accents are removed, and letters of
    other alphabets that look like a Latin letter are replaced by this letter.
    """
    return "".join(filter(str.isalnum, _without_accents(word)))


def _unlettered(word: str) -> str:
    """Return the skeleton of a word without an option's letter in front, such as in "b. paris"."""
    lettered = _LETTERED.fullmatch(word)
    return _skeleton(lettered[3] if lettered else word)


def _without_accents(word: str) -> str:
    """Return a word in lower case and without accents.

    Letters of other alphabets that look like a Latin letter are replaced by this letter.
    """
    decomposed = unicodedata.normalize("NFKD", word.translate(_ALIKE)).casefold()
    return "".join(filterfalse(unicodedata.combining, decomposed))


def is_code(word: str) -> bool:
    """Return whether a word may be a number, or the letter of an option.

    Returns
    -------
    bool
        True for one character, a short code, or a text that begins with a number.

    Examples
    --------
    >>> is_code("b"), is_code("0.8 apples"), is_code("paris")
    (True, True, False)
    """
    return len(word) == 1 or _SHORT.fullmatch(word) is not None or _NUMERIC.match(word) is not None


def _letter_set(word: str) -> frozenset[str] | None:
    """Return the set of option letters that a word lists, such as "A,C".

    Return None if the word contains anything else, or a letter twice.
    """
    letters = _ASCII_LETTER.findall(word)
    distinct = frozenset(letters)
    each_once = len(distinct) == len(letters)
    return distinct if each_once and _LETTER_SET.fullmatch(word) else None


@lru_cache(maxsize=8)
def _letter_sets(vocabulary: frozenset[str]) -> dict[str, frozenset[str]]:
    """Map each key to its set of letters, for items with several right options.

    Return {} if any key is not a list of letters in alphabetical order, or if no key has several
    letters.
    """
    if len(vocabulary) < 3:
        return {}
    sets: dict[str, frozenset[str]] = {}
    several = False
    for key in vocabulary:
        letters = _letter_set(key)
        if not letters or "".join(sorted(letters)) != _LETTERS_OF.sub("", key):
            return {}
        sets[key] = letters
        several |= len(letters) > 1
    return sets if several else {}


def _same_word(answer: str, key: str, vocabulary: frozenset[str]) -> bool | None:
    """Return whether an answer and a key are the same word; None if they may or may not be.

    `vocabulary` holds all keys if they form a closed list; otherwise it is empty.
    """
    if answer == key:
        return True
    letters = _letter_sets(vocabulary)
    if letters:
        return _same_letters(_letter_set(answer), letters.get(key))
    if is_code(answer) or is_code(key):
        # Answer and key may differ in text but mean the same, such as "0.8 apples" and "0,80", or
        # "B" and "Paris".
        return None
    may_be_one = _one_label if answer in vocabulary else _one_text
    return None if may_be_one(answer, key, vocabulary) else False


def _same_letters(answer: frozenset[str] | None, key: frozenset[str] | None) -> bool | None:
    return None if answer is None or key is None else answer == key


def _one_label(answer: str, key: str, vocabulary: frozenset[str]) -> bool:
    """Return whether an answer that equals some key may name the same option as another key.

    For example, one of the two may have the option's letter in front, or it may be a sentence that
    contains the other text.
    """
    more_words = abs(len(_PARTS.findall(answer)) - len(_PARTS.findall(key)))
    in_sentence = more_words >= _MORE_WORDS and _one_holds_the_other(answer, key)
    return in_sentence or not _labels(answer).isdisjoint(_labels(key))


def _labels(word: str) -> set[str]:
    """Return a set with a word, and with this word without a letter in front.

    Both are needed, since "E. coli" may mean option E or be a name.
    """
    plain = _without_accents(word)
    return {plain, _MARKED.sub("", plain)}


def _one_text(answer: str, key: str, vocabulary: frozenset[str]) -> bool:
    """Return whether an answer that equals no key may mean a given key, or may be a sentence about
    any key.
    """
    plain = _skeleton(answer)
    names = filter(None, map(_unlettered, vocabulary))
    if any(name in plain for name in names):
        return True
    if sorted(_PARTS.findall(answer)) == sorted(_PARTS.findall(key)):
        return True  # same words in another order, such as "A,C" and "C,A"
    return _one_holds_the_other(answer, key)


def _one_holds_the_other(answer: str, key: str) -> bool:
    """Return whether one of two texts contains the other text.

    An option's letter in front of the contained text is ignored.
    """
    first, second = _unlettered(answer), _unlettered(key)
    if not (first and second):
        return _skeleton(answer) == _skeleton(key)
    return first in _skeleton(key) or second in _skeleton(answer)


def _rounded(answer: frozenset[Fraction], key: frozenset[Fraction]) -> bool:
    """Return whether one of two numbers may be a rounded form of the other, such as 0.1429 of 1/7.

    The rounded form must have at least two decimals. Each argument is the set of numbers that a
    text can mean.
    """
    pairs = product(answer, key)
    return any(_rounds_to(first, second) or _rounds_to(second, first) for first, second in pairs)


def _rounds_to(exact: Fraction, short: Fraction) -> bool:
    """Return whether the exact number, rounded to 2 to 10 decimals, equals the short number."""
    for decimals in range(2, 11):
        if (short * 10**decimals).denominator == 1:
            fewer = (short * 10 ** (decimals - 1)).denominator == 1
            return not fewer and abs(exact - short) * 2 * 10**decimals <= 1
    return False


def _same(
    kind: str, answer: Any, key: Any, vocabulary: frozenset[str] = frozenset()
) -> bool | None:
    if kind == "number":
        if answer == key and len(key) == 1:
            return True
        return None if answer & key or _rounded(answer, key) else False
    # If the types differ, one value is a truth value and the other value is the index of an option.
    # These values cannot be compared.
    if type(answer) is not type(key):
        return None
    return _same_word(answer, key, vocabulary) if kind == "word" else answer == key


@dataclass(frozen=True)
class Typing:
    """Hold the kinds as which the answers and keys of a table are read.

    Attributes
    ----------
    pairs : tuple
        The possible pairs (kind for the answers, kind for the keys). All pairs give a row the same
        score. The pair by which the most answers can be read comes first.
    n : int
        Number of options, for rows that list no options.
    vocabulary : frozenset of str
        All keys if they form a closed list; otherwise empty.
    mixed : bool
        Whether some answers name an option by its letter in a longer text. A single letter in
        another answer may then be an option's text.
    """

    pairs: tuple[tuple[str, str], ...] = ()
    n: int = len(LETTERS)
    vocabulary: frozenset[str] = frozenset()
    mixed: bool = False

    def judge(
        self, answer: str | None, gold: str | None, options: Sequence[str]
    ) -> tuple[bool | None, int | None, int | None]:
        """Compare the answer of a row with its key.

        Parameters
        ----------
        answer, gold : str or None
            The cells; None if empty.
        options : sequence of str
            Texts of the row's options; () if the options are not known.

        Returns
        -------
        right : bool or None
            Whether the answer is right; None if it is unparsed.
        place, gold_place : int or None
            Indices of the answered option and of the right option (key); None if unknown.
        """
        texts, n = tuple(options), len(options)
        answers = {} if answer is None else readings(answer, texts, n or self.n)
        keys = {} if gold is None else readings(gold, texts, n or self.n)
        if "initial" in answers and len(keys.get("word", "")) == 1:
            # If the key is a letter, "B. Paris" means the option B, and "B." is not an initial.
            answers = answers | {"letter": answers["initial"]}
        if answer == _NO_OPTION and self._numbers_options():
            return None, None, None
        if self.mixed and _two_options(answers):
            return None, None, None
        right = self._right(answers, keys, same_text=answer == gold)
        if not n:
            return right, None, None
        place = _place(answers, map(itemgetter(0), self.pairs))
        return right, place, _place(keys, map(itemgetter(1), self.pairs))

    def _right(
        self, answers: dict[str, Any], keys: dict[str, Any], *, same_text: bool
    ) -> bool | None:
        """Return whether an answer equals its key by every possible pair of kinds.

        Return None if the pairs disagree, or if no pair can read both the answer and the key.
        """
        results = set()
        for first, second in self.pairs:
            if first in answers and second in keys:
                same = same_text and first == second
                results.add(same or _same(first, answers[first], keys[second], self.vocabulary))
        return results.pop() if len(results) == 1 else None

    def _numbers_options(self) -> bool:
        """Return whether answers or keys are read as numbers of options by any pair of kinds."""
        return not {"from0", "from1"}.isdisjoint(chain.from_iterable(self.pairs))


def _two_options(kinds: dict[str, Any]) -> bool:
    """Return whether an answer names one option by letter and a different option by text."""
    return "letter" in kinds and "text" in kinds and kinds["letter"] != kinds["text"]


def _place(values: dict[str, Any], kinds: Iterable[str]) -> int | None:
    """Return the index of the option that a cell names, if several kinds agree on the option.

    `values` maps each kind as which the cell can be read to the value. Return None if the given
    kinds name several options or no option.
    """
    places = set()
    for kind in kinds:
        if kind in OPTION and kind in values and not isinstance(values[kind], bool):
            places.add(values[kind])
    return places.pop() if len(places) == 1 else None


@dataclass
class _Column:
    """Count the cells of one column by the kinds as which they can be read.

    `reads` maps each kind to the number of cells that can be read as this kind. `only` counts the
    cells that can be an option's number from 0 but not from 1 (from0), and the reverse (from1).
    """

    cells: int = 0
    reads: Counter[str] = field(default_factory=Counter)
    only: Counter[str] = field(default_factory=Counter)
    # Counts of letters and option numbers: {kind: {index of the option: number of cells}}.
    places: defaultdict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    odd: dict[str, str] = field(default_factory=dict)  # {kind: first cell that is not of this kind}
    codes: int = 0  # number of cells that may be numbers or letters of options
    values: int = 0  # number of truth values in rows whose options are not yes and no
    bits: int = 0  # number of cells that are 0 or 1
    longer: int = 0  # number of cells that name an option by its letter within a longer text
    low: Fraction | None = None
    high: Fraction | None = None

    def add(self, text: str, kinds: dict[str, Any], times: int) -> None:
        """Count a cell that occurs in several rows.

        Parameters
        ----------
        text : str
            The cell.
        kinds : dict
            Maps each kind as which the cell can be read to the value, as the function `readings`
            returns it.
        times : int
            Number of rows that contain the cell.
        """
        self.cells += times
        for kind in KINDS:
            if kind in kinds:
                self.reads[kind] += times
            else:
                self.odd.setdefault(kind, text)
        if ("from0" in kinds) != ("from1" in kinds):
            self.only["from0" if "from0" in kinds else "from1"] += times
        for kind in ("letter", "from0", "from1"):
            if kind in kinds:
                self.places[kind][kinds[kind]] += times
        self.codes += times * ("letter" in kinds or is_code(kinds["word"]))
        self.values += times * isinstance(kinds.get("truth"), bool)
        self.bits += times * ("truth" in kinds and "number" in kinds)
        self.longer += times * ("letter" in kinds and not _SHORT.fullmatch(kinds["word"]))
        if len(value := kinds.get("number", ())) == 1:
            (number,) = value
            self.low = number if self.low is None else min(self.low, number)
            self.high = number if self.high is None else max(self.high, number)

    def most(self) -> int:
        """Return the largest number of cells that can be read as one kind.

        The kind `word` is left out, since every cell can be read as a word.
        """
        return max(self.reads[kind] for kind in KINDS if kind != "word")

    def numbered(self) -> int:
        """Return the number of cells that may be an option's number, counted from 0 or from 1."""
        return self.reads["from0"] + self.only["from1"]

    def whole(self, value: int) -> int:
        """Return the number of cells that equal a given small whole number."""
        return self.places["from0"][value] or self.places["from1"][value - 1]

    def range(self) -> str:
        """Describe in a few words the values that the column holds."""
        if self.low is not None and self.high is not None and 2 * self.reads["number"] > self.cells:
            return f"{float(self.low):g} to {float(self.high):g}"
        if letters := self.places["letter"]:
            return f"{LETTERS[min(letters)]} to {LETTERS[max(letters)]}"
        return f"such as {self.odd.get('number', '')[:40]!r}"


class Columns:
    """Collect the cells of the columns `answer` and `gold`, and decide how they are read."""

    def __init__(self) -> None:
        self.answers, self.keys = _Column(), _Column()
        # This counts rows by two bit masks over PAIRS: the pairs of kinds by which a row is right,
        # and the pairs by which the row is wrong.
        self.marks: Counter[tuple[int, int]] = Counter()
        self.words: set[str] = set()
        self.counted = True  # whether every row lists its options
        self.listed = False  # whether some rows list the texts of their options
        self._rows: Counter[tuple[str | None, str | None, tuple[str, ...]]] = Counter()

    def add(self, answer: str | None, gold: str | None, options: Sequence[str]) -> None:
        """Add the cells of a row.

        Parameters
        ----------
        answer, gold : str or None
            The cells; None if empty.
        options : sequence of str
            Texts of the row's options; () if the options are not known.
        """
        self._rows[answer, gold, tuple(options)] += 1
        if len(self._rows) >= _TOGETHER:
            self._take()

    def _take(self) -> None:
        for (answer, gold, texts), times in self._rows.items():
            n = len(texts)
            self.counted &= n > 0
            self.listed |= texts != tuple(LETTERS[:n])
            if answer is not None:
                self.answers.add(answer, readings(answer, texts, n or len(LETTERS)), times)
            if gold is not None:
                keys = readings(gold, texts, n or len(LETTERS))
                self.keys.add(gold, keys, times)
                if len(self.words) <= VOCABULARY_MAX:
                    self.words.add(keys["word"])
            if answer is not None and gold is not None:
                self.marks[_marks(answer, gold, texts, n or len(LETTERS))] += times
        self._rows.clear()

    def typing(self, answer_as: str = "", gold_as: str = "", *, free: bool = False) -> Typing:
        """Decide how both columns are read.

        Parameters
        ----------
        answer_as, gold_as : str
            The kinds that the user chose; "" if the user chose no kind.
        free : bool
            Whether the answers are a model's replies. Any share of the replies may then be
            unreadable.

        Returns
        -------
        Typing
            The possible pairs of kinds. All pairs give a row the same score.

        Raises
        ------
        ConfigError
            If no pair of kinds is possible, or if two possible pairs give some row different
            scores.
        """
        self._take()
        if not self.answers.cells or not self.keys.cells:
            return Typing()
        n = len(LETTERS) if self.counted else self._options()
        fits = []
        for pair in _candidates(answer_as, gold_as, free):
            if self._fits(pair, n, bool(answer_as), bool(gold_as), free):
                fits.append(pair)
        if not (free or answer_as or any(self._usual(pair[0]) for pair in fits)):
            fits = []
        fits = self._preferred(fits)
        if self._contradict(fits) or not (fits or free):
            raise ConfigError(self._refusal(fits))
        fits.sort(key=lambda pair: -self.answers.reads[pair[0]])
        vocabulary = frozenset(self.words if self._closed() else ())
        mixed = self.answers.longer > 0 and not answer_as
        return Typing(tuple(fits), n, vocabulary, mixed)

    def _usual(self, kind: str) -> bool:
        """Return whether the required share of the answers (`USUAL_MIN`) can be read as a kind."""
        return self.answers.reads[kind] >= USUAL_MIN * self.answers.cells

    def _closed(self) -> bool:
        """Return whether the keys form a closed list.

        A closed list has few distinct keys, and several rows for each key.
        """
        return len(self.words) <= min(VOCABULARY_MAX, self.keys.cells // VOCABULARY_ROWS)

    def _options(self) -> int:
        """Return the number of options if the keys show it; otherwise 26."""
        for kind in ("letter", "from0", "from1"):
            places = self.keys.places[kind].keys()
            n = len(places)
            whole = self.keys.reads[kind] == self.keys.cells and places == set(range(n))
            # Keys that count from 1 could also count from 0, if 0 never occurs. Therefore one more
            # option is possible.
            spare = kind == "from1"
            if n and whole and self.keys.cells >= ROWS_AN_OPTION * (n + spare):
                return n
        return len(LETTERS)

    def _fits(
        self, pair: tuple[str, str], n: int, answer_chosen: bool, gold_chosen: bool, free: bool
    ) -> bool:
        """Return whether a pair of kinds is possible.

        `answer_chosen` and `gold_chosen` state whether the user chose the kind of the answers and
        of the keys. `free` states whether the answers are a model's replies.
        """
        answer, gold = pair
        if self.keys.reads[gold] < self.keys.cells or not any(self._scored(pair)):
            return False
        if not gold_chosen and not self._based(self.keys, gold, n):
            return False
        if answer_chosen:
            return True
        if self.answers.reads[answer] < (0 if free else USUAL_MIN) * self.answers.most():
            return False
        if pair == ("truth", "truth") and self.keys.values:
            return gold_chosen or self._truths()
        return self._answers_fit(pair, n)

    def _answers_fit(self, pair: tuple[str, str], n: int) -> bool:
        """Return whether the answers are compatible with a pair of kinds."""
        answer = pair[0]
        if answer == "number" and self.counted:
            return self._values()
        if answer == "word":
            return self._wordy() and not self.listed
        if not self.counted and "letter" in pair and not self._lettered(pair):
            return False
        return self._based(self.answers, answer, n)

    def _truths(self) -> bool:
        """Return whether both columns hold truth values, either both as words or both as 0 and 1.

        If one column has 0 and 1 and the other has words, the numbers may be class labels: in RTE's
        published labels, 0 stands for True. Numbers such as 2 are not truth values.
        """
        answers_are_bits = self.answers.bits == self.answers.cells
        keys_are_bits = self.keys.bits == self.keys.cells
        numbers_are_bits = self.answers.reads["number"] <= self.answers.bits
        return answers_are_bits == keys_are_bits and numbers_are_bits

    def _values(self) -> bool:
        """Return whether the numbers in the cells are the options' contents and not option numbers.

        The rows list options. The numbers are contents if some keys and most answers cannot be
        option numbers, whether options are counted from 0 or from 1.
        """
        most = USUAL_MIN * self.answers.reads["number"]
        return self.answers.numbered() < most and self.keys.numbered() < self.keys.cells

    def _lettered(self, pair: tuple[str, str]) -> bool:
        """Return whether the letters in the cells name options.

        This is so if all letters are among the first letters of the alphabet, or if some letter
        occurs in both columns. (Y and N, for yes and no, do not name options.)
        """
        answers, keys = self.answers.places[pair[0]], self.keys.places[pair[1]]
        last = 0
        for kind, letters in zip(pair, (answers, keys), strict=True):
            if kind == "letter":
                last = max(last, max(letters, default=0))
        if last < USUAL_OPTIONS:
            return True
        return pair == ("letter", "letter") and not answers.keys().isdisjoint(keys)

    def _based(self, column: _Column, kind: str, n: int) -> bool:
        """Return whether a column can be of the kind from0 or from1.

        The function returns False if some cell excludes this kind.

        Options are counted from 0 for the kind from0, and from 1 for the kind from1.
        """
        if kind == "from0":
            return not (column.only["from1"] if self.counted else column.whole(n))
        return kind != "from1" or not column.only["from0"]

    def _wordy(self) -> bool:
        """Return whether both columns hold words.

        Only a few cells may be letters or numbers of options.
        """
        if self._closed() and _letter_sets(frozenset(self.words)):
            return True
        if self.keys.cells in (self.keys.reads["number"], self.keys.reads["truth"]):
            return False
        answers = self.answers.codes / self.answers.cells
        keys = self.keys.codes / self.keys.cells
        return keys <= CODES_MAX and answers <= keys + CODES_MAX

    def _preferred(self, fits: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return the possible pairs of kinds, without pairs that are less plausible than another
        pair.
        """
        named = [pair for pair in fits if pair[0] in OPTION]
        if self.counted and named:
            return named
        fits = [pair for pair in fits if pair[0] != "word"] or fits
        same = self.answers.low == self.keys.low and self.answers.high == self.keys.high
        # If both columns have the same smallest and largest number, answers and keys are of the
        # same kind.
        if same and ("number", "number") in fits:
            fits = [pair for pair in fits if pair[0] == pair[1]]
        return fits

    def _scored(self, pair: tuple[str, str]) -> tuple[int, int]:
        """Return the number of rows that are right by a pair of kinds, and the number that are
        wrong.
        """
        bit = 1 << PAIRS.index(pair)
        right = wrong = 0
        for (right_by, wrong_by), times in self.marks.items():
            if right_by & bit:
                right += times
            if wrong_by & bit:
                wrong += times
        return right, wrong

    def _contradict(self, pairs: list[tuple[str, str]]) -> bool:
        """Return whether any row is right by one of these pairs and wrong by another pair."""
        bits = 0
        for pair in pairs:
            bits |= 1 << PAIRS.index(pair)
        return any(right & bits and wrong & bits for right, wrong in self.marks)

    def _refusal(self, pairs: list[tuple[str, str]]) -> str:
        ranges = f"The answers are {self.answers.range()} and the keys (gold) {self.keys.range()}"
        if pairs:
            ways = []
            for answer, key in pairs:
                score = self._score((answer, key))
                ways.append(f"--answer-as {answer} --gold-as {key} (score {score})")
            expected = f"Expected one of: {'; '.join(ways)}."
            return f"{ranges}: they can be read in {len(ways)} ways. {expected}"
        return (
            f"{ranges}{self._odd_key()}: no reading fits both columns. Expected answers in the form of the keys, "
            f"or the texts of the options. Example: --map options=choices, or --answer-as letter --gold-as from1 "
            f"(each is one of {', '.join(KINDS)})."
        )

    def _odd_key(self) -> str:
        """Return a clause for the error message about a key that is unlike most keys.

        The clause is "" unless most keys are of one kind and some key is not of this kind.
        """
        for kind in ("letter", "number", "truth"):
            usual = self.keys.reads[kind] > self.keys.cells / 2
            if usual and kind in self.keys.odd:
                return f"; the key {self.keys.odd[kind][:40]!r} is not like the others"
        return ""

    def _score(self, pair: tuple[str, str]) -> str:
        right, wrong = self._scored(pair)
        return f"{right / (right + wrong):.3f}" if right or wrong else "none"


def _candidates(answer_as: str, gold_as: str, free: bool) -> list[tuple[str, str]]:
    """Return the pairs of kinds that the user's choice allows.

    For replies, only pairs are returned by which an answer names an option.
    """
    pairs = []
    for answer, gold in PAIRS:
        chosen = answer_as in ("", answer) and gold_as in ("", gold)
        if chosen and (not free or answer in _OF_REPLIES):
            pairs.append((answer, gold))
    return pairs


@lru_cache(maxsize=1 << 11)
def _marks(answer: str, gold: str, texts: tuple[str, ...], n: int) -> tuple[int, int]:
    """Return two bit masks: the pairs of kinds by which an answer is right, and the pairs by which
    it is wrong.

    The bits are in the order of PAIRS.
    """
    answers, keys = readings(answer, texts, n), readings(gold, texts, n)
    right = wrong = 0
    for place, (first, second) in enumerate(PAIRS):
        if first in answers and second in keys:
            same = _same(first, answers[first], keys[second])
            right |= (same is True) << place
            wrong |= (same is False) << place
    return right, wrong
