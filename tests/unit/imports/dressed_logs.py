"""Right logs, whose outcomes are known, written in many ways: formats of answers, columns,
separators, encodings, kinds of files, orders, repeats.

Left out is what no reader could tell: a column in which one cell stands for two options, option
texts that are numbers or letters and that the log does not list, and one cell that has another
meaning in each of the two columns.

`logs()` is a Hypothesis strategy. As a program it draws for a given time, and prints the first that
are read wrong:

    PYTHONPATH=.:tests python tests/unit/imports/dressed_logs.py --minutes 60
"""

import argparse
import csv
import io
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import assume
from hypothesis import strategies as st

from audit.core.errors import AuditError
from audit.imports.detect import read_log
from audit.imports.record import Wanted

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
FULL = {letter: chr(ord(letter) + 0xFEE0) for letter in LETTERS}
ALIKE = {"A": "А", "B": "В", "C": "С", "E": "Е", "a": "а", "c": "с", "e": "е"}  # Cyrillic
Write = Callable[
    [int, tuple[str, ...]], Any
]  # (place of an option, texts of the options) -> a cell

LETTER: dict[str, Write] = {
    "letter": lambda i, o: LETTERS[i],
    "lower": lambda i, o: LETTERS[i].lower(),
    "round": lambda i, o: f"({LETTERS[i]})",
    "stop": lambda i, o: f"{LETTERS[i]}.",
    "closing": lambda i, o: f"{LETTERS[i]})",
    "bold": lambda i, o: f"**{LETTERS[i]}**",
    "bold round": lambda i, o: f"**({LETTERS[i]})**",
    "says": lambda i, o: f"Answer: {LETTERS[i]}",
    "says is": lambda i, o: f"The correct answer is ({LETTERS[i]}).",
    "option": lambda i, o: f"Option {LETTERS[i]}",
    "boxed": lambda i, o: f"\\boxed{{{LETTERS[i]}}}",
    "boxed text": lambda i, o: f"$\\boxed{{\\text{{({LETTERS[i]})}}}}$",
    "quoted": lambda i, o: f'"{LETTERS[i]}"',
    "single quoted": lambda i, o: f"'{LETTERS[i]}'",
    "square": lambda i, o: f"[{LETTERS[i]}]",
    "list text": lambda i, o: json.dumps([LETTERS[i]]),
    "list": lambda i, o: [LETTERS[i]],
    "blanks": lambda i, o: f"  {LETTERS[i]} ",
    "hard blank": lambda i, o: f"\u00a0{LETTERS[i]}\u00a0",
    "invisible": lambda i, o: f"\u200b{LETTERS[i]}",
    "newline": lambda i, o: f"{LETTERS[i]}\n",
    "full width": lambda i, o: FULL[LETTERS[i]],
    "look-alike": lambda i, o: ALIKE.get(LETTERS[i], LETTERS[i]),
    "circled": lambda i, o: chr(ord("Ⓐ") + i),
    "letter text": lambda i, o: f"{LETTERS[i]}. {o[i]}",
    "letter) text": lambda i, o: f"({LETTERS[i]}) {o[i]}",
    "letter of another": lambda i, o: f"I choose {LETTERS[i]}.",
    "code": lambda i, o: f"`{LETTERS[i]}`",
    "tag": lambda i, o: f"<answer>{LETTERS[i]}</answer>",
}
NUMBER: dict[str, Write] = {
    "from 0": lambda i, o: i,
    "from 1": lambda i, o: i + 1,
    "from 0 text": lambda i, o: str(i),
    "from 1 text": lambda i, o: str(i + 1),
    "from 0 float": lambda i, o: float(i),
    "from 1 float": lambda i, o: float(i + 1),
    "from 0 round": lambda i, o: f"({i})",
    "from 1 stop": lambda i, o: f"{i + 1}.",
    "from 1 option": lambda i, o: f"Option {i + 1}",
    "from 1 hash": lambda i, o: f"#{i + 1}",
    "from 0 boxed": lambda i, o: f"\\boxed{{{i}}}",
    "from 0 padded": lambda i, o: f"{i:02d}",
    "from 1 long": lambda i, o: f"{i + 1:.6f}",
    "from 0 science": lambda i, o: f"{float(i):.18e}",
    "from 0 comma": lambda i, o: f"{i},0",
    "from 1 full width": lambda i, o: chr(0xFF10 + i + 1) if i < 9 else str(i + 1),
}
TEXT: dict[str, Write] = {
    "text": lambda i, o: o[i],
    "text lower": lambda i, o: o[i].lower(),
    "text upper": lambda i, o: o[i].upper(),
    "text stop": lambda i, o: f"{o[i]}.",
    "text blanks": lambda i, o: f" {o[i]}  ",
    "text bold": lambda i, o: f"**{o[i]}**",
    "text says": lambda i, o: f"Answer: {o[i]}",
    "text boxed": lambda i, o: f"\\boxed{{{o[i]}}}",
    "text sentence": lambda i, o: f"The answer is {o[i]} because it must be.",
    "text plain": lambda i, o: o[i].translate(str.maketrans("éüñ", "eun")),
    "text look-alike": lambda i, o: "".join(ALIKE.get(letter, letter) for letter in o[i]),
}
TRUTH: dict[str, Write] = {
    "truth lower": lambda i, o: o[i].lower(),
    "truth stop": lambda i, o: f"{o[i]}.",
    "truth upper": lambda i, o: o[i].upper(),
    "truth bool": lambda i, o: o[i].lower() in ("yes", "true"),
    "truth bit": lambda i, o: int(o[i].lower() in ("yes", "true")),
    "truth true": lambda i, o: "True" if o[i].lower() in ("yes", "true") else "False",
    "truth short": lambda i, o: "y" if o[i].lower() in ("yes", "true") else "n",
}
FORMS = LETTER | NUMBER | TEXT | TRUTH
AS = {
    **dict.fromkeys(LETTER, "letter"),
    **dict.fromkeys(TEXT, "text"),
    **dict.fromkeys(TRUTH, "truth"),
}
AS |= {name: name[:6].replace(" ", "") for name in NUMBER}  # what --answer-as calls a form
NUMERIC: dict[str, Callable[[float], Any]] = {
    "as it is": lambda x: int(x) if x == int(x) else x,
    "as text": lambda x: f"{x:g}" if abs(x) < 1e5 else f"{x:.2f}".rstrip("0").rstrip("."),
    "float": lambda x: float(x),
    "float text": lambda x: str(float(x)),
    "long": lambda x: f"{x:.3f}",
    "comma thousands": lambda x: f"{x:,.10g}" if x == int(x) else f"{x:,.2f}",
    "point thousands": lambda x: f"{x:,.2f}".translate(str.maketrans(",.", ".,")),
    "point thousands whole": lambda x: (
        f"{x:,.0f}".replace(",", ".") if x == int(x) else str(x).replace(".", ",")
    ),
    "space thousands": lambda x: f"{x:,.10g}".replace(",", " "),
    "dollar": lambda x: f"${x:.10g}",
    "stop": lambda x: f"{x:.10g}.",
    "boxed": lambda x: f"\\boxed{{{x:.10g}}}",
    "says": lambda x: f"Answer: {x:.10g}",
    "bold": lambda x: f"**{x:.10g}**",
    "science": lambda x: f"{x:.12e}",
    "unit": lambda x: f"{x:.10g} apples",
    "percent": lambda x: f"{x:.10g}%",
    "minus sign": lambda x: f"{x:.10g}".replace("-", "\u2212"),
    "accounting": lambda x: f"({-x:.10g})" if x < 0 else f"{x:.10g}",
}
CORRECT: dict[str, tuple[Any, Any]] = {
    "bits": (1, 0),
    "bit texts": ("1", "0"),
    "floats": (1.0, 0.0),
    "float texts": ("1.0", "0.0"),
    "bools": (True, False),
    "True": ("True", "False"),
    "yes": ("yes", "no"),
    "Yes.": ("Yes.", "No."),
    "y": ("y", "n"),
    "Y": ("Y", "N"),
    "t": ("T", "F"),
    "inspect": ("C", "I"),
    "words": ("correct", "incorrect"),
    "right": ("right", "wrong"),
    "pass": ("pass", "fail"),
    "of one": ("1/1", "0/1"),
    "percent": (100, 0),
    "percent text": ("100%", "0%"),
    "mark": ("✓", "✗"),
    "minus": (1, -1),
    "list": ([1], [0]),
}
NONE: tuple[Any, ...] = (
    None,
    "",
    "None",
    "nan",
    "N/A",
    "null",
    "NaN",
    "NA",
    float("nan"),
    " ",
    "<NA>",
    "n/a",
    "-",
)
POOL = (
    "Paris",
    "the river Nile",
    "water",
    "a dog, a cat",
    'the "old" law',
    "gold",
    "iron",
    "São Tomé",
    "crème brûlée",
    "Zürich",
    "E. coli",
    "mañana",
    "none of these",
    "more water",
    "3 apples",
    "Vitamin C",
    "A",
    "I",
    "5",
    "x = y",
    "semi;colon",
    "pipe|d",
    "tab\tbed",
    "two\nlines",
    "[1, 2]",
    "No",
    "Yes",
)


@dataclass(frozen=True)
class Log:
    """A log whose outcomes are known.

    right: {item: whether it is right; None: no answer was given}. rows: cells by column. columns:
    --map."""

    right: dict[str, bool | None]
    rows: list[dict[str, Any]]
    wanted: Wanted
    kind: str
    how: dict[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        """Write the log as its kind of file."""
        path = folder / "log"
        if self.kind == "parquet":
            pq.write_table(_arrow(self.rows), path)
            return path
        path.write_bytes(self.text().encode(self.how["encoding"], errors="replace"))
        return path

    def text(self) -> str:
        ascii_only = self.how["ascii"]
        if self.kind in ("jsonl", "json"):
            rows = [{k: None if v != v else v for k, v in row.items()} for row in self.rows]
            if self.how["lacks"]:
                rows = [{k: v for k, v in row.items() if v is not None} for row in rows]
            if self.kind == "json":
                return json.dumps(rows, ensure_ascii=ascii_only, indent=self.how["indent"])
            return "".join(
                json.dumps(row, ensure_ascii=ascii_only) + self.how["end"] for row in rows
            )
        out = io.StringIO()
        writer = csv.writer(
            out,
            delimiter=self.how["separator"],
            quoting=self.how["quoting"],
            lineterminator=self.how["end"],
        )
        names = list(self.rows[0])
        writer.writerow(names)
        for row in self.rows:
            writer.writerow([_csv_cell(row[name]) for name in names])
        return self.how["before"] + out.getvalue()


def _csv_cell(value: Any) -> Any:
    if isinstance(value, list):
        return json.dumps(value)
    return "" if value is None else value


def _arrow(rows: list[dict[str, Any]]) -> pa.Table:
    """Return rows as a table; a column of several types as texts."""
    columns = {}
    for name in rows[0]:
        cells = [row[name] for row in rows]
        try:
            columns[name] = pa.array(cells)
        except pa.ArrowException:
            columns[name] = pa.array([None if cell is None else str(cell) for cell in cells])
    return pa.table(columns)


KINDS_OF_LOG = (
    "choice",
    "choice",
    "choice",
    "yes or no",
    "number",
    "words",
    "labels",
    "correct",
    "correct and answer",
)


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Draw a right log in some dress."""
    rng = Random(draw(st.integers(0, 1 << 30)))
    kind = draw(st.sampled_from(KINDS_OF_LOG))
    n = draw(st.integers(12, 60))
    missing, ability = (
        draw(st.sampled_from((0, 0, 0.1, 0.4))),
        draw(st.sampled_from((0.0, 0.3, 0.7, 1.0))),
    )
    note: dict[str, Any] = {"what": kind}
    make = {"number": _numbers, "words": _words, "labels": _labels, "yes or no": _yes_no}.get(
        kind, _choices
    )
    rows, right, wanted = make(draw, rng, n, ability, missing, note)
    if kind.startswith("correct"):
        rows, right = _scored(draw, rng, rows, right, "answer" in kind, note)
    return _shaped(draw, rng, rows, right, wanted, note)


Made = tuple[list[dict[str, Any]], dict[str, bool | None], Wanted]


def _outcomes(rng: Random, n: int, ability: float, missing: float) -> list[bool | None]:
    return [None if rng.random() < missing else rng.random() < ability for _ in range(n)]


def _blank(rng: Random, words: tuple[Any, ...]) -> Any:
    return rng.choice(words)


def _forms(draw: st.DrawFn, known: tuple[str, ...], *, plain: bool = False) -> tuple[str, ...]:
    """Draw the form of a column, or several that its cells mix: of one reading, unless texts are
    plain words."""
    first = draw(st.sampled_from(known))
    like = [
        form
        for form in known
        if AS.get(form) == AS.get(first) or (plain and "from" not in AS[form] + AS[first])
    ]
    most = draw(st.sampled_from((1, 1, 1, 2, 3)))
    return (first, *draw(st.lists(st.sampled_from(like), min_size=most - 1, max_size=most - 1)))


def _choices(
    draw: st.DrawFn, rng: Random, n: int, ability: float, missing: float, note: dict[str, Any]
) -> Made:
    k = draw(st.integers(2, 6))
    shape = draw(st.sampled_from(("texts", "texts", "count", "map", "absent", "absent")))
    listed = ("plain", "words", "from 0", "from 1", "other numbers", "letters")
    texts = draw(st.sampled_from(listed if shape == "texts" else listed[:1]))
    known = tuple(LETTER | NUMBER | TEXT)
    answer_forms, key_forms = (_forms(draw, known, plain=texts == "plain") for _ in range(2))
    blanks = tuple(draw(st.lists(st.sampled_from(NONE), min_size=1, max_size=3)))
    junk = draw(st.sampled_from((0, 0, 0.1)))
    vary = draw(st.booleans()) and shape == "texts"
    fixed = draw(st.booleans())  # the same options in every row
    note |= {
        "k": k,
        "texts": texts,
        "options": shape,
        "answers": answer_forms,
        "keys": key_forms,
        "vary": vary,
    }
    rows, right = [], {}
    same = _option_texts(rng, texts, k)
    telling = shape == "texts" and not (fixed and same == tuple(LETTERS[:k]))
    for i, good in enumerate(_outcomes(rng, n, ability, missing)):
        here = max(2, k - rng.randrange(2)) if vary else k
        options = same[:here] if fixed else _option_texts(rng, texts, here)
        key = i % here if i < k else rng.randrange(here)  # the keys name every option
        answer = key if good else rng.choice([other for other in range(here) if other != key])
        cell = FORMS[rng.choice(answer_forms)](answer, options)
        if good is None:
            cell = _blank(rng, blanks)
        elif rng.random() < junk:
            odd = (
                "I do not know.",
                "A or B",
                "!",
                *(() if shape == "absent" else ("Z", "17", "-1", "99.0")),
            )
            cell, good = (
                rng.choice(odd),
                None if telling else False,
            )  # among words another word is wrong; options A, B tell no more than their count
        row = {
            "model": "m",
            "item": f"q{i}",
            "answer": cell,
            "gold": FORMS[rng.choice(key_forms)](key, options),
        }
        if shape in ("texts", "count"):
            row["options"] = list(options) if shape == "texts" else here
        rows.append(row)
        right[f"q{i}"] = good
    wanted = Wanted(columns={"options": str(k)} if shape == "map" else {})
    if draw(st.sampled_from((False, False, True))) and len({*map(AS.get, answer_forms)}) == 1:
        wanted = replace(wanted, answer_as=AS[answer_forms[0]])
        note["told"] = True
    return rows, right, wanted


def _option_texts(rng: Random, texts: str, k: int) -> tuple[str, ...]:
    pools = {
        "words": POOL,
        "plain": tuple(word for word in POOL if len(word) > 3 and word[0].isalpha()),
        "from 0": tuple(map(str, range(k))),
        "from 1": tuple(str(i + 1) for i in range(k)),
        "other numbers": tuple(str(i * 3 + 1) for i in range(2 * k)),
        "letters": tuple(LETTERS[:k]),
    }
    return tuple(rng.sample(pools[texts], k))


def _yes_no(
    draw: st.DrawFn, rng: Random, n: int, ability: float, missing: float, note: dict[str, Any]
) -> Made:
    options = draw(
        st.sampled_from((("Yes", "No"), ("No", "Yes"), ("True", "False"), ("False", "True")))
    )
    known = tuple(TRUTH | NUMBER | {"text": 0, "letter": 0, "text bold": 0, "text says": 0})
    answer_forms, key_forms = _forms(draw, known), _forms(draw, known)
    bits = [_writes(forms, options) for forms in (answer_forms, key_forms)]
    opposite = any(
        a[cell] != k[cell] for a, k in (bits, bits[::-1]) for cell in a.keys() & k.keys()
    )
    assume(not opposite)
    shape = draw(st.sampled_from(("texts", "map", "absent", "absent")))
    kinds = {AS[form] for forms in (answer_forms, key_forms) for form in forms}
    assume(shape == "texts" or options[0] in ("No", "False") or not (any(bits) and len(kinds) > 1))
    note |= {"options": (shape, options), "answers": answer_forms, "keys": key_forms}
    rows, right = [], {}
    for i, good in enumerate(_outcomes(rng, n, ability, missing)):
        key = i % 2 if i < 2 else rng.randrange(2)
        cell = FORMS[rng.choice(answer_forms)](key if good else 1 - key, options)
        cell = _blank(rng, NONE) if good is None else cell
        row = {
            "model": "m",
            "item": f"q{i}",
            "answer": cell,
            "gold": FORMS[rng.choice(key_forms)](key, options),
        }
        rows.append(row | ({"options": list(options)} if shape == "texts" else {}))
        right[f"q{i}"] = good
    return rows, right, Wanted(columns={"options": "2"} if shape == "map" else {})


def _writes(forms: tuple[str, ...], options: tuple[str, ...]) -> dict[int, int]:
    """Return {number that a cell is: the option that it stands for}."""
    written = {}
    for form in forms:
        for place in (0, 1):
            if form in NUMBER:
                written[place + form.startswith("from 1")] = place
            elif form in ("truth bool", "truth bit"):
                written[int(FORMS[form](place, options))] = place
    return written


def _numbers(
    draw: st.DrawFn, rng: Random, n: int, ability: float, missing: float, note: dict[str, Any]
) -> Made:
    size = draw(st.sampled_from(("small", "mixed", "large", "decimals", "negative")))
    answer_forms, key_forms = _forms(draw, tuple(NUMERIC)), _forms(draw, tuple(NUMERIC))
    note |= {"size": size, "answers": answer_forms, "keys": key_forms}
    draws: dict[str, Callable[[], float]] = {
        "small": lambda: rng.randrange(8),
        "mixed": lambda: rng.choice((rng.randrange(30), rng.randrange(90_000))),
        "large": lambda: rng.randrange(1000, 3_000_000),
        "negative": lambda: rng.randrange(-40, 40),
        "decimals": lambda: round(rng.uniform(0, rng.choice((1, 30, 5000))), rng.choice((1, 2))),
    }
    rows, right, meant = [], {}, dict[str, float]()
    for i, good in enumerate(_outcomes(rng, n, ability, missing)):
        key = draws[size]()
        other = key
        while other == key:
            other = round(rng.choice((draws[size](), key * 1000, key / 1000, key + 1, -key)), 3)
        answer = key if good else other
        cell, gold = NUMERIC[rng.choice(answer_forms)](answer), NUMERIC[rng.choice(key_forms)](key)
        assume(
            meant.setdefault(str(cell), answer) == answer
            and meant.setdefault(str(gold), key) == key
        )
        cell = _blank(rng, NONE) if good is None else cell
        rows.append({"model": "m", "item": f"q{i}", "answer": cell, "gold": gold})
        right[f"q{i}"] = good
    return rows, right, Wanted()


def _labels(
    draw: st.DrawFn, rng: Random, n: int, ability: float, missing: float, note: dict[str, Any]
) -> Made:
    pools = (
        ("entailment", "neutral", "contradiction"),
        ("positive", "negative"),
        ("A", "B", "AB", "O"),
        ("C", "C++", "C#", "Java"),
        ("0", "1", "2+"),
        ("low", "medium", "high"),
    )
    return _worded(draw, rng, (n, ability, missing), draw(st.sampled_from(pools)), note)


def _words(
    draw: st.DrawFn, rng: Random, n: int, ability: float, missing: float, note: dict[str, Any]
) -> Made:
    pool = tuple(f"{word} {i}" if i > 20 else word for i, word in enumerate(POOL * 4))
    return _worded(draw, rng, (n, ability, missing), tuple(dict.fromkeys(pool)), note)


def _worded(
    draw: st.DrawFn,
    rng: Random,
    size: tuple[int, float, float],
    pool: tuple[str, ...],
    note: dict[str, Any],
) -> Made:
    forms = tuple(name for name in TEXT if name not in ("text plain", "text look-alike"))
    answer_forms, key_forms = (
        _forms(draw, forms),
        _forms(draw, ("text", "text lower", "text blanks", "text stop")),
    )
    note |= {"pool": pool[:4], "answers": answer_forms, "keys": key_forms}
    rows, right = [], {}
    for i, good in enumerate(_outcomes(rng, *size)):
        key = i if i < len(pool) else rng.randrange(len(pool))
        answer = key if good else rng.choice([k for k in range(len(pool)) if k != key])
        cell = _blank(rng, NONE) if good is None else FORMS[rng.choice(answer_forms)](answer, pool)
        rows.append(
            {
                "model": "m",
                "item": f"q{i}",
                "answer": cell,
                "gold": FORMS[rng.choice(key_forms)](key, pool),
            }
        )
        right[f"q{i}"] = good
    return rows, right, Wanted()


def _scored(
    draw: st.DrawFn,
    rng: Random,
    rows: list[dict[str, Any]],
    right: dict[str, bool | None],
    beside: bool,
    note: dict[str, Any],
) -> tuple[list[dict[str, Any]], dict[str, bool | None]]:
    """Replace answer and gold by correct, or put it beside the answer: harnesses count no answer as
    wrong."""
    form = draw(st.sampled_from(tuple(CORRECT)))
    note["correct"] = form
    scored_rows = []
    for row in rows:
        good = right[row["item"]]
        cell = CORRECT[form][0 if good else 1] if good is not None or beside else _blank(rng, NONE)
        cells = {k: v for k, v in row.items() if k not in ("answer", "gold")}
        if beside:
            cells["answer"] = rng.choice(NONE) if good is None else "some answer"
        scored_rows.append(cells | {"correct": cell})
    return scored_rows, right


_NAMES = {
    "model": "Model Name",
    "item": "question id",
    "answer": "prediction",
    "gold": "target",
    "correct": "score",
}


def _shaped(
    draw: st.DrawFn,
    rng: Random,
    rows: list[dict[str, Any]],
    right: dict[str, bool | None],
    wanted: Wanted,
    note: dict[str, Any],
) -> Log:
    """Draw the columns, the order and repeats of rows, and the file."""
    if draw(st.booleans()):
        rng.shuffle(rows)
    if draw(st.integers(0, 9)) == 0:
        rows.append(dict(rng.choice(rows)))
        note["repeats"] = True
    for name in draw(
        st.lists(st.sampled_from(("points", "label", "pred", "Unnamed: 0", "answer_2")), max_size=2)
    ):
        rows = [{name: rng.choice(("x", 0, 1.5, "A", ""))} | row for row in rows]
    names = list(rows[0])
    rng.shuffle(names)
    renamed = draw(st.sampled_from((*["no"] * 6, *["map"] * 3, "case")))
    called = {"map": _NAMES, "case": {name: name.title() for name in _NAMES}}.get(renamed, {})
    rows = [{called.get(name, name): row[name] for name in names} for row in rows]
    if renamed == "map":
        columns = wanted.columns | {
            name: column for name, column in _NAMES.items() if name in names
        }
        wanted = replace(wanted, columns=columns)
    kind = draw(st.sampled_from(("csv", "csv", "csv", "jsonl", "json", "parquet")))
    how = {
        "separator": draw(st.sampled_from(",,;\t|")),
        "quoting": draw(st.sampled_from((csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC))),
        "end": draw(st.sampled_from(("\n", "\n", "\r\n"))),
        "encoding": draw(
            st.sampled_from((*["utf-8"] * 8, *["utf-8-sig"] * 4, "utf-16", "utf-16-le", "cp1252"))
        ),
        "before": draw(st.sampled_from((*[""] * 12, "\n", "sep=;\n", "# a comment\n"))),
        "ascii": draw(st.booleans()),
        "lacks": draw(st.booleans()),
        "indent": draw(st.sampled_from((None, 1))),
    }
    return Log(right, rows, wanted, kind, how | {"note": note, "renamed": renamed})


def misread(log: Log, folder: Path) -> tuple[str, dict[str, tuple[Any, Any]]]:
    """Return ("read" or "refused", {item: (right, as read)} of outcomes that are others than they
    are)."""
    path = log.write(folder)
    try:
        outcomes = {
            outcome.sample: outcome.right for outcome in read_log(path, log.wanted).outcomes
        }
    except AuditError:
        return "refused", {}
    wrong = {
        item: (good, outcomes.get(item, "missing"))
        for item, good in log.right.items()
        if item not in outcomes or (outcomes[item] is not None and outcomes[item] != good)
    }
    unread = sum(value is None for value in outcomes.values()) > sum(
        value is None for value in log.right.values()
    )
    return "read, some unparsed" if unread else "read", wrong


def main() -> int:
    """Draw logs for a time."""
    from hypothesis import HealthCheck, Phase, given, settings

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--stop-after", type=int, default=10, help="kinds of misread logs")
    arguments = parser.parse_args()
    ends, seen = time.monotonic() + 60 * arguments.minutes, Counter[str]()
    failures: dict[str, Log] = {}

    @settings(
        max_examples=2000,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(logs())
    def draw(log: Log) -> None:
        with tempfile.TemporaryDirectory() as folder:
            result, wrong = misread(log, Path(folder))
        seen[result] += 1
        if wrong:
            note = log.how["note"]
            forms = [
                sorted({AS.get(form, form) for form in note.get(name, ())})
                for name in ("answers", "keys")
            ]
            kind = str(
                (note["what"], note.get("options"), forms, note.get("correct"), note.get("size"))
            )
            if kind not in failures and len(failures) < arguments.stop_after:
                failures[kind] = log
                print(
                    f"MISREAD {note} {log.kind} {log.wanted} {dict(list(wrong.items())[:3])}",
                    flush=True,
                )
                print(
                    "   ",
                    [
                        row
                        for row in log.rows
                        if any(v in wrong for v in row.values() if isinstance(v, str))
                    ][:2],
                )

    while time.monotonic() < ends and len(failures) < arguments.stop_after:
        draw()
        print(f"{sum(seen.values()):,} logs: {dict(seen)}", flush=True)
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
