"""Made-up items for the tests of planted contamination."""

from audit.records import Question


def items(n: int) -> tuple[Question, ...]:
    return tuple(
        Question(f"toy/part/{i:03d}", "toy", f"what is thing {i} ?", (f"red {i}", f"blue {i}", f"green {i}"), i % 3,
                 f"toy/part/{i:03d}", (0, 1, 2))
        for i in range(n)
    )  # fmt: skip
