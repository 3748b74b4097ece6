"""What may change in a question, and how candidates are judged: conf/rewording/policy.yaml, checked. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from audit.errors import ConfigError, unknown_name

CHANGES = ("stem", "stem_and_context")
CONTEXTS = ("none", "last_line", "last_sentence")
OPTIONS = ("keep", "permute")
SCOPES = ("routed", "all")
UNJUDGED = ("accept", "hold")
_SENTENCE_END = re.compile(r"[.!?][\"'”’)]*\s+(?=\S)")


@dataclass(frozen=True, slots=True)
class Policy:
    """How the candidates of one benchmark are made and judged.

    low, high: the window of cosine distances, both ends within. changes: stem (the context stays as it is), or
    stem_and_context (the whole text may be reworded). context: how the text is cut: "none" (all of it is the stem),
    "last_line" (the stem is the last line; a passage before it is context), "last_sentence". options: "keep", or
    "permute" (another order for each variant, the key following). nli_cut: least probability of entailment in either
    direction. judge_votes: k. judge_scope: who is shown to the judge: "routed" (candidates with a rule finding), or
    "all". judge_controls: exchanged questions shown beside them, which it must not keep. unjudged: what becomes of a
    routed candidate where no judge is configured: "accept" (its findings are kept with it), or "hold".
    """

    low: float = 0.15
    high: float = 0.45
    changes: str = "stem"
    context: str = "none"
    options: str = "keep"
    nli_cut: float = 0.9
    judge_votes: int = 3
    judge_scope: str = "routed"
    judge_controls: int = 20
    unjudged: str = "accept"

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high <= 2:
            raise ConfigError(
                f"The distance window {self.low:g}..{self.high:g} is empty or outside 0..2; expected such as .15...45."
            )
        if not 0 <= self.nli_cut <= 1:
            raise ConfigError(f"nli_cut={self.nli_cut:g}; expected a probability, such as 0.9.")
        if self.judge_votes < 1:
            raise ConfigError(f"judge_votes={self.judge_votes}; expected at least 1, such as 3.")
        if self.judge_controls < 0:
            raise ConfigError(f"judge_controls={self.judge_controls}; expected 0 (none) or more, such as 20.")
        for name, value, known in (
            ("changes", self.changes, CHANGES),
            ("context", self.context, CONTEXTS),
            ("options", self.options, OPTIONS),
            ("judge_scope", self.judge_scope, SCOPES),
            ("unjudged", self.unjudged, UNJUDGED),
        ):
            if value not in known:
                raise unknown_name(name, value, known)


class Parts(NamedTuple):
    """A question's text cut in two; joined they are the text. `context` keeps the space after it."""

    context: str
    stem: str


def policy_for(benchmark: str, conf: Mapping[str, Any], overrides: Mapping[str, Any] | None = None) -> Policy:
    """The policy of a benchmark: its own entry of conf/rewording/policy.yaml, else the default; then `overrides`.

    Its window is that of its domain; the override `window` names another one of `windows`. Overrides that are None are
    left out.
    """
    windows: Mapping[str, Any] = conf["windows"]
    entry = dict(conf["benchmarks"].get(benchmark, {}))
    entry.update({key: value for key, value in (overrides or {}).items() if value is not None})
    domain = entry.pop("domain", "general")
    window = entry.pop("window", domain)
    if window not in windows:
        raise unknown_name("distance window", str(window), windows)
    low, high = windows[window]
    known = {f.name for f in fields(Policy)}
    for key in entry:
        if key not in known:
            raise unknown_name(f"policy key of benchmark {benchmark}", key, known)
    return Policy(**{"low": float(low), "high": float(high), **entry})


def split_text(text: str, policy: Policy) -> Parts:
    """Cut a question's text into what stays and what may be reworded.

    >>> split_text("Ann met Bob.\\nWho was met?", Policy(context="last_line"))
    Parts(context='Ann met Bob.\\n', stem='Who was met?')
    """
    cut = 0
    if policy.changes == "stem" and policy.context == "last_line":
        cut = text.rstrip().rfind("\n") + 1
    elif policy.changes == "stem" and policy.context == "last_sentence":
        ends = [match.end() for match in _SENTENCE_END.finditer(text)]
        cut = ends[-1] if ends else 0
    return Parts(text[:cut], text[cut:])
