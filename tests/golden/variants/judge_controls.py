"""What a judge says of 20 questions in another one's words, without their facts, and unchanged.

`python tests/golden/variants/judge_controls.py WORDS`, the words of `audit variants build` with a
judge, prints what its votes come to. Only the last kind should be kept. docs/do/variants.md quotes
it."""

import sys
from collections import Counter

from audit.benchmarks.load import open_benchmark
from audit.core.records import Item
from audit.variants.ask import models_of
from audit.variants.build import ask_judge, tally
from audit.variants.config import Policy, compose_config, split_text
from audit.variants.record import State, Variant

N, VOTES = 20, 3


def variant(q: Item, number: int, text: str) -> Variant:
    return Variant(
        q.id,
        number,
        "",
        "",
        q.text,
        text,
        q.options,
        q.gold,
        q.order,
        q.target,
        "control",
        0,
        State.EMPTY,
    )


def main() -> None:
    config = compose_config(sys.argv[1:])
    judge = models_of(config).judge
    assert judge is not None, "expected judge=NAME"
    questions = list(open_benchmark(config.benchmark, seed=config.seed).iter_questions())[:N]
    closing = Policy(context="last_sentence")
    kinds = {
        "another question": [
            variant(q, 1, o.text)
            for q, o in zip(questions, questions[1:] + questions[:1], strict=True)
        ],
        "without its facts": [
            variant(q, 2, split_text(q.text.strip(), closing).stem) for q in questions
        ],
        "unchanged": [variant(q, 3, q.text) for q in questions],
    }
    votes = iter(ask_judge(judge, [v for kind in kinds.values() for v in kind], VOTES))
    for name, kind in kinds.items():
        print(f"{name:<18}", dict(Counter(tally(next(votes)).value for _ in kind)))


if __name__ == "__main__":
    main()
