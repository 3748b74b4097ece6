"""Rewording by rule: conf/rewording/templates.yaml. No model, and few words change: most of it is too close."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from audit.records import Question
from audit.variants.policy import Policy, split_text
from audit.variants.record import Candidate

_LAST_SENTENCE = Policy(context="last_sentence")


@dataclass(frozen=True, slots=True)
class Rule:
    """The last sentence of a stem, when `pattern` matches all of it, becomes `replacement`."""

    name: str
    pattern: re.Pattern[str]
    replacement: str


@dataclass(frozen=True, slots=True)
class Rules:
    """A version of the rules; sha256 covers every name, pattern and replacement."""

    version: str
    rules: tuple[Rule, ...]
    sha256: str


def load_rules(mapping: Mapping[str, Any]) -> Rules:
    """Of conf/rewording/templates.yaml."""
    rules = [Rule(row["name"], re.compile(row["pattern"]), row["replacement"]) for row in mapping["rules"]]
    canonical = json.dumps(list(mapping["rules"]), sort_keys=True, separators=(",", ":"))
    return Rules(str(mapping.get("version")), tuple(rules), hashlib.sha256(canonical.encode()).hexdigest())


def template_candidates(question: Question, policy: Policy, rules: Rules) -> list[Candidate]:
    """One candidate for every rule that fits, in the rules' order."""
    stem = split_text(question.text, policy).stem
    before, sentence = split_text(stem, _LAST_SENTENCE)
    texts = [
        (rule.name, before + rule.pattern.sub(rule.replacement, sentence.strip()))
        for rule in rules.rules
        if rule.pattern.fullmatch(sentence.strip())
    ]
    return [Candidate(question.id, k, text, name) for k, (name, text) in enumerate(texts, start=1)]
