"""A small benchmark, and an embedder of known vectors behind the real port."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from audit.core.records import NO_OPTION, Item
from audit.engines.embedder import Embedding
from audit.variants.build import Gates, build_variants, once
from audit.variants.config import Policy
from audit.variants.record import Candidate, Header, Library, ModelRef, questions_sha256


class ScriptedEmbedder:
    """A text's vector lies on the unit circle, at the angle whose cosine is 1 - distance; unknown
    texts are errors."""

    name, revision = "scripted", "sha256:scripted"

    def __init__(self, distances: dict[str, float]) -> None:
        self.distances = distances

    def embed(self, texts: Sequence[str]) -> list[Embedding]:
        return [self._embedding(text) for text in texts]

    def _embedding(self, text: str) -> Embedding:
        if text not in self.distances:
            return Embedding(None, 300, "the text has 300 tokens; scripted holds 256")
        angle = np.arccos(1 - self.distances[text])
        return Embedding(np.array([np.cos(angle), np.sin(angle)], dtype=np.float32), 3)


CAPITAL = Item(
    "q/1", "quiz", "What is the capital of France?", ("Rome", "Paris", "Bonn"), 1, "q/1", (0, 1, 2)
)
EGGS = Item(
    "q/2", "quiz", "Ann has 3 eggs and buys 4. How many has she?", (), NO_OPTION, "q/2", (), 7.0
)
QUESTIONS = (CAPITAL, EGGS)
NEAR, GOOD, OTHER, FAR = (
    "What's the capital of France?",
    "Which city is the French seat of government?",
    "From which city is France governed?",
    "How tall is the Eiffel tower?",
)
DISTANCES = {CAPITAL.text: 0.0, EGGS.text: 0.0, NEAR: 0.05, GOOD: 0.3, OTHER: 0.4, FAR: 0.8}
HEADER = Header(
    name="quiz-file",
    benchmark="quiz",
    benchmark_revision="sha256:0",
    questions_sha256=questions_sha256(QUESTIONS),
    n_questions=2,
    strategy="file",
    window=(0.15, 0.45),
    changes="stem",
    context="none",
    options="keep",
    num_variants=2,
    max_attempts=3,
    seed=42,
    licence="CC0",
    embedder=ModelRef("scripted", "sha256:scripted"),
)


def candidates(*texts: str, question: Item = CAPITAL) -> list[Candidate]:
    return [Candidate(question.id, k, text, f"line {k}") for k, text in enumerate(texts, start=1)]


def make_library(*texts: str, policy: Policy | None = None, **header: object) -> Library:
    """A library of `texts` as variants of CAPITAL."""
    gates = Gates(policy or Policy(), ScriptedEmbedder(DISTANCES))
    variants = build_variants(
        QUESTIONS, once(candidates(*texts)), gates, num_variants=2, max_attempts=1
    )
    return Library(replace(HEADER, **header), tuple(variants))
