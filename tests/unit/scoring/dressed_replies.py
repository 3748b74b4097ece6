"""Make replies whose answer is known, in the ways in which models write numbers and speak about
them.

`dressed(choose)` makes one; `choose` takes one of a sequence (`random.Random(1).choice`, or a draw
of hypothesis). A spelling that the reader's documented rules read in the other way is left out: a
comma before three digits is a thousands mark where nothing else in the reply speaks against it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

T = TypeVar("T")


class Choose:
    """Draw from sequences by a function."""

    def __init__(self, choose: Callable[[Sequence[object]], object]) -> None:
        self._choose = choose

    def of(self, *options: T) -> T:
        return self._choose(options)  # type: ignore[return-value]

    def below(self, n: int) -> int:
        return int(self._choose(range(n)))  # type: ignore[call-overload]


@dataclass(frozen=True)
class Dressed:
    """text: the reply. value: the number that it answers, None where it answers none. parts: what
    it was made of."""

    text: str
    value: Fraction | None
    parts: tuple[str, ...]


GROUPS = {
    "none": "",
    "comma": ",",
    "point": ".",
    "space": " ",
    "nbsp": "\u00a0",
    "narrow": "\u202f",
    "thin": "\u2009",
    "apostrophe": "'",
    "curly": "’",
    "braces": "{,}",
    "backslash": "\\,",
    "shriek": ",\\!",
}


def _grouped(whole: int, mark: str) -> str:
    return f"{whole:,}".replace(",", mark)


def _whole(choose: Choose) -> int:
    size = choose.of(1, 1, 2, 2, 3, 4, 4, 5, 6, 7)
    return choose.below(10**size)


def _decimal(choose: Choose, latex: bool) -> tuple[str, Fraction, str]:
    """Return an integer or decimal number as written, its value and the name of its spelling."""
    whole = _whole(choose)
    digits = choose.of(0, 0, 0, 1, 2, 3, 4)
    cents = choose.below(10**digits) if digits else 0
    names = (
        list(GROUPS)
        if latex
        else [name for name in GROUPS if name not in ("braces", "backslash", "shriek")]
    )
    name = choose.of(*names)
    mark = (
        choose.of(".", ",")
        if name not in ("comma", "point", "braces", "shriek")
        else ","
        if name == "point"
        else "."
    )
    if mark == "," and digits == 3 and 0 < whole < 1000:
        digits, cents = 0, 0  # 1,234 as a decimal: left out, see above
    text = _grouped(whole, GROUPS[name]) + (f"{mark}{cents:0{digits}d}" if digits else "")
    return text, whole + Fraction(cents, 10**digits), f"{name}{mark if digits else ''}"


def written(choose: Choose, latex: bool) -> tuple[str, Fraction, str]:
    """Return a number as written, its value and what kind of spelling it is."""
    kind = choose.of(
        "decimal",
        "decimal",
        "decimal",
        "decimal",
        "fraction",
        "mixed",
        "magnitude",
        "power",
        "e",
        "word",
        "half",
    )
    if kind == "decimal":
        return _decimal(choose, latex)
    whole, bottom = 1 + choose.below(99), choose.of(2, 3, 4, 5, 8, 12)
    top = 1 + choose.below(bottom - 1) if bottom > 2 else 1
    if kind == "fraction":
        if latex:
            form = choose.of("\\frac{%d}{%d}", "\\dfrac{%d}{%d}", "\\tfrac{%d}{%d}", "%d/%d")
        else:
            form = choose.of("%d/%d", "%d / %d", "%d⁄%d")
        return form % (top, bottom), Fraction(top, bottom), kind
    if kind == "mixed":
        if bottom in (2, 4) and choose.of(True, False):
            return f"{whole}{'¼½¾'[4 * top // bottom - 1]}", whole + Fraction(top, bottom), kind
        form = choose.of("%d\\frac{%d}{%d}", "%d \\dfrac{%d}{%d}") if latex else "%d %d/%d"
        return form % (whole, top, bottom), whole + Fraction(top, bottom), kind
    if kind == "magnitude":
        word, power = choose.of(
            (" thousand", 3),
            (" million", 6),
            (" billion", 9),
            ("k", 3),
            ("K", 3),
            ("M", 6),
            (" hundred", 2),
        )
        tenth = choose.below(10)
        return (
            (f"{whole}.{tenth}" if tenth else f"{whole}") + word,
            Fraction(10 * whole + tenth, 10) * 10**power,
            kind,
        )
    if kind == "power":
        base, exponent = choose.of(2, 3, 10, 12), choose.of(2, 3, 4, 6)
        small = "⁰¹²³⁴⁵⁶"[exponent]
        form = choose.of(
            f"{base}^{{{exponent}}}", f"{base}^{exponent}", f"{base}{small}", f"{base}**{exponent}"
        )
        return form, Fraction(base**exponent), kind
    if kind == "e":
        tenth, power = choose.below(10), choose.of(-3, 2, 3, 5)
        head, value = f"{1 + whole % 9}.{tenth}", Fraction(10 * (1 + whole % 9) + tenth, 10)
        form = choose.of("e%d", "E%+d", " × 10^%d", " x 10^%d", " \\times 10^{%d}")
        return head + form % power, value * Fraction(10) ** power, kind
    if kind == "half":
        return f"{whole} and a half", whole + Fraction(1, 2), kind
    return f"{whole}", Fraction(whole), kind


UNITS = (
    "",
    "",
    "",
    " dollars",
    " apples",
    "%",
    " %",
    " percent",
    " kg",
    "kg",
    " cm",
    " cm^2",
    " m2",
    " m²",
    " km/h",
    "°",
    "°C",
    " €",
    " euros per day",
    " m³",
    " hours",
    " days a week",
    " miles per hour",
    "\\%",
    " people",
    " USD",
    " L",
    " sq ft",
)
LATEX_UNITS = (
    "",
    "",
    "\\text{ apples}",
    "\\text{ cm}^2",
    "\\%",
    "^\\circ",
    "^{\\circ}",
    "\\,\\text{kg}",
    "\\ \\mathrm{m}",
    "\\text{ m}^{2}",
    " \\text{ dollars}",
    "\\,\\mathrm{km/h}",
    "\\text{ m}^3",
)
CURRENCIES = ("", "", "", "", "$", "€", "£", "\\$", "US$")
SIGNS = ("", "", "", "", "-", "−", "–")


def quantity(choose: Choose, latex: bool) -> tuple[str, Fraction, str]:
    """Return a number with its sign, currency and unit, its value, and its kind."""
    text, value, kind = written(choose, latex)
    sign = choose.of(*SIGNS)
    currency = choose.of(*CURRENCIES) if not latex else choose.of("", "", "\\$")
    unit = choose.of(*(LATEX_UNITS if latex else UNITS)) if not currency else ""
    unit = f" {unit}" if kind in ("magnitude", "half") and unit[:1].isalpha() else unit
    value = -value if sign else value
    signed = (
        f"{sign}{currency}{text}" if choose.of(True, True, False) else f"{currency}{sign}{text}"
    )
    return signed + unit, value, f"{kind}|{sign}|{currency}|{unit}"


BEFORE = (
    "",
    "",
    "",
    "She sells 16 - 3 - 4 = 9 eggs.\n",
    "First, 3 boxes of 12 make 36.\n\n",
    "Step 1: 5 * 4 = 20\nStep 2: 20 / 2 = 10\n",
    "We have x = 3 and y = 4.\n",
    "There were 1,250 in 2019. ",
    "### Solution\n\n",
    "The first guess is \\boxed{12}. Wait, that is wrong.\n",
    "Question: Tom has 3 pens. How many?\nAnswer: ",
    "<think>Maybe it is 7, so \\boxed{7}.</think>\n",
    "<think>\nThe answer is 99.\n</think>\n\n",
    "[5 minutes later] ",
    "> 44 is what the book says.\n",
)
# Other numbers of a reply have its convention: nobody could read two in one text.
BEFORE_WITH_POINT = (
    "1. There are 7 days.\n2. Each costs $0.50.\n",
    "Let's see: 2.5 kg each. ",
    "Of $1,250.75 a part.\n",
)
BEFORE_WITH_COMMA = ("Il y en a 1.250,75 en tout.\n", "Das sind 1.000.000 Stück.\n")
COMMA_FORMS = ("comma", "braces", "shriek")
FORMS = (
    "#### {}",
    "#### {}",
    "####{}",
    "The answer is {}.",
    "The answer is {}",
    "the final answer is: {}",
    "**Answer: {}**",
    "Answer: **{}**",
    "A: {}",
    "Answer:\n{}",
    "So the answer is {}!",
    "So, in total, she makes {}.",
    "That makes {}",
    "Therefore the total is {}.",
    "x = {}",
    "It takes {}.",
    "Final Answer: `{}`",
    '{{"reasoning": "as above", "answer": "{}"}}',
    "<answer>{}</answer>",
    "The result is *{}*.",
    "Thus 3 + 4 = {}",
    "Answer - {}",
    "Answer: ({})",
    'The answer is "{}".',
    "## Answer\n\n{}",
    "- Answer: {}",
    "=> {}",
    "≈ {}",
    "about {}",
    "The answer is approximately {}.",
    "{}",
    "Total: {}",
    "the answer equals {},",
    "So there are {} left.",
)
BOXES = (
    "\\boxed{{{}}}",
    "$\\boxed{{{}}}$",
    "The answer is $\\boxed{{{}}}$.",
    "\\[\\boxed{{{}}}\\]",
    "So \\fbox{{{}}}",
    "**Final Answer:** \\boxed{{{}}}",
    "$${}$$",
    "#### ${}$",
    "The answer is ${}$.",
    "\\boxed{{x = {}}}",
    "\\boxed{{\\mathbf{{{}}}}}",
)
AFTER = (
    "",
    "",
    "",
    "\n",
    ".",
    ".[1]",
    "[2]",
    " (I used 3 steps.)",
    "\n\nNote: 2 of 5 rows were skipped.",
    "\nI am 95% sure.",
    "\nConfidence: 90%",
    "\n\nQuestion: Tom has 5 pens. How many?\nAnswer: 5",
    "\nQ: What is 2 + 2?\nA: 4",
    "\n\nProblem 2: A train goes 60 mph.\n#### 60",
    "</s>\nThe answer is 8.",
    "<|im_end|>\n<|im_start|>user\n12?",
    " because 6 * 7 = 42.",
    ", in total, so it is paid.",
    "\n\nHuman: And 7 more?\nAssistant: The answer is 7.",
    "\nLet me know if you have 2 more questions.",
    "\n\n---\n*Page 3*",
    "\n```",
    " which rounds well.",
    "\n\n### Question\nHow many are 3 and 4?\n\n### Answer\n7",
    "\nUser: 14",
    "\n(Checked 2 times.)",
    "\nThis took 3 steps.",
)
# Replies that answer no single number, with the quantity in them.
HEDGES = (
    "between 3 and {}",
    "{} or 17",
    "The answer is {} or 23.",
    "\\boxed{{{}}} or \\boxed{{0.77}}",
    "It is not {}.",
    "The answer is not {}.",
    "The answer is 31 - {}",
    "from {} to 90",
    "<think>The answer is {}.",
    "<think>\\boxed{{{}}}, let me check",
    "The answer is {}. Wait, that is wrong.",
    "more than {}",
    "The answer is {}?",
    "If the answer is {}, then what?",
    "I cannot tell. It could be {} or less, or 3.",
    "The answer is seven, of {} in all",
    "5 hours and {} minutes",
    "{} of 12",
    "version 2.{}.1",
    "at 12:{}",
    "{} + x",
    "\\sqrt{{{}}}",
    "2\\pi + {}",
    "I do not know.\n\nQuestion: 3 + 4?\nAnswer: {}",
)


def dressed(draw: Callable[[Sequence[object]], object]) -> Dressed:
    """Return one reply with its truth."""
    choose = Choose(draw)
    latex = choose.of(True, False, False)
    text, value, kind = quantity(choose, latex)
    if choose.below(12) == 0:
        form = choose.of(*HEDGES)
        return Dressed(form.format(text), None, (kind, form))
    spelling = kind.split("|")[0]
    point = (
        spelling.endswith(".") or spelling.startswith(COMMA_FORMS) or spelling in ("magnitude", "e")
    )
    comma = spelling.endswith(",") or spelling.startswith("point")
    before = choose.of(
        *BEFORE, *(() if comma else BEFORE_WITH_POINT), *(() if point else BEFORE_WITH_COMMA)
    )
    form, after = choose.of(*(BOXES if latex else FORMS)), choose.of(*AFTER)
    return Dressed(f"{before}{form.format(text)}{after}", value, (kind, before, form, after))
