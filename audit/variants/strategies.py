"""Make candidates from a file of existing variants, by rules, or by a model that rewords.

- Rows of a file are assigned to questions by id or by position.
- The rules (conf/rewording/templates.yaml) change few words, so most of their candidates are too
close to the original.
- A model rewords by versioned prompts. The function that generates the model's replies is a
parameter.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from audit.core.errors import ConfigError
from audit.core.prompting import fill, lettered, strip_thinking, templates_sha256
from audit.core.records import FinishReason, Generation, Item, Protocol
from audit.variants.config import FileConfig, Policy, split_text
from audit.variants.record import Candidate, Generate, ModelRequest, replies_of


def file_candidates(
    rows: Iterable[tuple[str, Mapping[str, Any] | Sequence[str]]],
    questions: Sequence[Item],
    format_: FileConfig,
) -> list[Candidate]:
    """Return a candidate for each row of a file.

    The candidates of a question are numbered from 1, in the order of the file.

    Parameters
    ----------
    rows : iterable of (str, row)
        Each row with its position in the file, such as ("line 3", {...}).
    questions : sequence of Item
        The questions that the file rewords, in the order of the benchmark.
    format_ : FileConfig
        The names of the columns, and how rows are assigned to questions (`align`).

    Returns
    -------
    list of Candidate
        The candidates.

    Raises
    ------
    ConfigError
        If a row lacks the columns, or an id is unknown. Also if align="row", and the number of rows
        differs from the number of questions.
    """
    located = list(rows)
    by_row = format_.align == "row"
    if by_row and len(located) != len(questions):
        raise ConfigError(
            f"The file has {len(located)} rows for {len(questions)} questions. Expected a row for "
            "each question, because align=row. Select the same part of the benchmark "
            "(benchmark.subjects=...), or use align=id."
        )
    known = {question.id for question in questions}
    numbers: Counter[str] = Counter()
    candidates = []
    for index, (place, row) in enumerate(located):
        id_ = questions[index].id if by_row else str(_field(place, row, format_.id_column))
        if id_ not in known:
            raise ConfigError(
                f"{place}: {id_!r} is not a question of the benchmark. "
                f"Expected an id. Example: {questions[0].id!r}"
            )
        value, text, error = _field(place, row, format_.text_column), "", None
        if isinstance(value, str):
            match = re.search(format_.extract or r"\A(?P<text>.*)\Z", value, re.DOTALL)
            text = match["text"].strip() if match else ""
            error = None if match else "the field does not match `extract`"
        elif value is not None:
            error = f"the field is {type(value).__name__}, not text"
        numbers[id_] += 1
        candidates.append(Candidate(id_, numbers[id_], text, place, error=error))
    return candidates


def _field(place: str, row: Mapping[str, Any] | Sequence[str], name: str) -> Any:
    if not isinstance(row, Mapping) or name not in row:
        present = ", ".join(map(str, row)) if isinstance(row, Mapping) else "no named fields"
        raise ConfigError(
            f"{place}: no field {name!r}; found: {present}. "
            "Set file.text_column and file.id_column."
        )
    return row[name]


_LAST_SENTENCE = Policy(context="last_sentence")


@dataclass(frozen=True, slots=True)
class Rule:
    """Define a rewording rule, which replaces the last sentence of a stem (the part that may
    change).

    Attributes
    ----------
    name : str
        The name of the rule.
    pattern : re.Pattern
        The pattern that the whole sentence must match.
    replacement : str
        The new sentence.
    """

    name: str
    pattern: re.Pattern[str]
    replacement: str


def load_rules(mapping: Mapping[str, Any]) -> tuple[list[Rule], str]:
    """Return the rules of conf/rewording/templates.yaml.

    Parameters
    ----------
    mapping : mapping
        The content of the file.

    Returns
    -------
    rules : list of Rule
        The rules.
    sha256 : str
        The hash of all rules: their names, patterns and replacements.
    """
    rules = []
    for row in mapping["rules"]:
        rules.append(Rule(row["name"], re.compile(row["pattern"]), row["replacement"]))
    canonical = json.dumps(list(mapping["rules"]), sort_keys=True, separators=(",", ":"))
    return rules, hashlib.sha256(canonical.encode()).hexdigest()


def template_candidates(item: Item, policy: Policy, rules: Sequence[Rule]) -> list[Candidate]:
    """Return a candidate for every rule whose pattern matches the question.

    Parameters
    ----------
    item : Item
        The question.
    policy : Policy
        The policy, which defines the stem (the part of the question that may change).
    rules : sequence of Rule
        The rules.

    Returns
    -------
    list of Candidate
        The candidates, in the order of the rules.
    """
    before, sentence = split_text(split_text(item.text, policy).stem, _LAST_SENTENCE)
    stripped = sentence.strip()
    candidates: list[Candidate] = []
    for rule in rules:
        if rule.pattern.fullmatch(stripped):
            text = before + rule.pattern.sub(rule.replacement, stripped)
            candidates.append(Candidate(item.id, len(candidates) + 1, text, rule.name))
    return candidates


JUDGE = "judge"
MAX_TOKENS = 1024
TEMPERATURE = 0.8  # Candidates of one prompt must differ.
TOP_P = 0.95

_TAGGED = re.compile(r"<question>(.*?)</question>", re.DOTALL | re.IGNORECASE)
_OPEN = re.compile(r"</?question>", re.IGNORECASE)
_PREFACE = re.compile(
    r"\A(?:(?:sure|certainly|of course|okay|ok)[,.!:]?\s+)?(?:here(?:'s| is| are)[^\n:]{0,80}:|"
    r"(?:reworded|rephrased|paraphrased|new) (?:question|version)\s*:)\s*",
    re.IGNORECASE,
)
_OPTION_LINE = re.compile(r"\n\s*\(?A[).:]\s.*\n\s*\(?B[).:]\s", re.DOTALL)
_QUOTES = {'"': '"', "“": "”", "'": "'", "`": "`"}


def load_prompts(mapping: Mapping[str, Any]) -> Protocol:
    """Return the prompts of conf/rewording/prompts.yaml: the paraphrase styles, and the judge's.

    A test compares the placeholders of the prompts with the values that are filled in.
    """
    templates = dict(mapping["templates"])
    return Protocol(
        str(mapping["name"]), str(mapping["version"]), templates, templates_sha256(templates)
    )


def paraphrase_request(prompts: Protocol, item: Item, policy: Policy, number: int) -> ModelRequest:
    """Return the request that asks a model for one rewording.

    Parameters
    ----------
    prompts : Protocol
        The prompts.
    item : Item
        The question.
    policy : Policy
        The policy, which defines the stem (the part of the question that may change).
    number : int
        The number of the candidate. It selects the paraphrase style.

    Returns
    -------
    ModelRequest
        The request.
    """
    context, stem = split_text(item.text, policy)
    values = {
        "context": context.strip() or "(nothing)",
        "stem": stem,
        "options": "\n".join(lettered(item.options)) or "(none: the answer is written freely)",
    }
    prompt = fill(prompts.templates[style_of(prompts, number)], values)
    return ModelRequest(f"{item.id}#{number}", prompt, MAX_TOKENS, TEMPERATURE, TOP_P)


def style_of(prompts: Protocol, number: int) -> str:
    """Return the paraphrase style of a candidate. Consecutive numbers get the styles in turn."""
    styles = [name for name in prompts.templates if name != JUDGE]
    return styles[(number - 1) % len(styles)]


def read_paraphrase(reply: Generation) -> tuple[str, str | None]:
    """Extract the reworded question from a model's reply.

    Parameters
    ----------
    reply : Generation
        The model's reply.

    Returns
    -------
    text : str
        The question. The text before it (thinking, or a preface such as "Here is ...:"), enclosing
        quotes and repeated options are removed.
    error : str or None
        Why the text is missing; None if there is a text. A reply that was cut off before the
        closing tag gives no text, because it contains only a part of the question.
    """
    if reply.failed:
        return "", reply.error or "the engine gave no reply"
    visible = strip_thinking(reply.text).text
    tagged = _TAGGED.findall(visible)
    if tagged:
        return _bare(tagged[-1]), None
    if reply.finish_reason == FinishReason.LENGTH:
        return "", "the reply was cut off at its token limit"
    return _bare(_PREFACE.sub("", _OPEN.sub("", visible).strip())), None


def _bare(text: str) -> str:
    """Remove repeated options and enclosing quotes from a question."""
    text = text.strip()
    options = _OPTION_LINE.search(text)
    if options:
        text = text[: options.start()].rstrip()
    if len(text) > 1 and _QUOTES.get(text[0]) == text[-1] and text.count(text[-1]) <= 2:
        text = text[1:-1].strip()
    return text


def paraphrase_candidates(
    generate: Generate,
    prompts: Protocol,
    needed: Sequence[tuple[Item, Sequence[int]]],
    policy: Policy,
    *,
    attempt: int,
) -> list[Candidate]:
    """Return the candidates of one attempt, from a single call of `generate`.

    Parameters
    ----------
    generate : Generate
        The function that generates replies.
    prompts : Protocol
        The prompts.
    needed : sequence of (Item, sequence of int)
        The questions, each with the numbers of its candidates that the model should write.
    policy : Policy
        The policy, which defines which parts of a question may change.
    attempt : int
        The number of the attempt, from 0.

    Returns
    -------
    list of Candidate
        The candidates.
    """
    numbered, requests = [], []
    for question, numbers in needed:
        for number in numbers:
            numbered.append((question, number))
            requests.append(paraphrase_request(prompts, question, policy, number))
    replies = replies_of(generate, requests)
    candidates = []
    for (item, number), reply in zip(numbered, replies, strict=True):
        text, error = read_paraphrase(reply)
        candidates.append(
            Candidate(item.id, number, text, style_of(prompts, number), attempt, error)
        )
    return candidates
