"""The calls of a build as the pipeline runs them: one request a row, keyed by what it is about (pure)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from audit.audits import Audit, Roles, Work
from audit.benchmarks.sample import Census, Sample, take_census
from audit.config import RunConfig
from audit.records import NO_OPTION, Design, Generation, Part, Presentation, Question
from audit.shards.schema import row_schema
from audit.variants.requests import ModelRequest

PARAPHRASE, JUDGE = "paraphrase", "judge"


@dataclass
class AskConfig(RunConfig):
    role: str = PARAPHRASE


def design(config: AskConfig) -> Design:
    """One call for each request; its arm says what it is for."""
    return Design((Part(config.role, (0,)),))


def present(work: Work, question: Question, part: Part, _: Sequence[Generation]) -> list[Presentation]:
    """The request as it was made."""
    return [Presentation(question.text, (), NO_OPTION)]


ASK = Audit(
    name="variants",
    schema=row_schema("variants", 1, level_doc="0: a request is asked once"),
    roles=Roles(baseline=(PARAPHRASE, 0), treated=JUDGE, arms=(PARAPHRASE, JUDGE)),
    design=design,
    present=present,
)


@dataclass(frozen=True)
class RequestBatch:
    """Requests in the place of a benchmark's questions. Its revision is the hash of what is asked, and how.

    name: of the benchmark whose questions they are about.
    """

    name: str
    requests: tuple[ModelRequest, ...]
    warnings: tuple[str, ...] = ()

    @property
    def revision(self) -> str:
        asked = json.dumps([asdict(request) for request in self.requests], sort_keys=True, separators=(",", ":"))
        return "sha256:" + hashlib.sha256(asked.encode()).hexdigest()

    @property
    def census(self) -> Census:
        return take_census(self)

    @property
    def sample(self) -> Sample:
        """Every request. Equal ones are not dropped: k votes are one prompt, asked k times."""
        n = len(self.requests)
        return Sample(tuple(r.key for r in self.requests), tuple(range(n)), n, n, (), chance=0.0, seed=0)

    def iter_located(self) -> Iterator[tuple[str, Question]]:
        for request in self.requests:
            yield request.key, Question(request.key, self.name, request.prompt, (), NO_OPTION, request.key)
