"""Runs of earlier versions are resumed by ids, and compared by what was shown: neither may
change."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

import pytest
from published_items import items_of, opened

from audit.benchmarks import rows
from audit.core.records import Item

EMBEDDED = {
    "elementary": (208, "98da0d36df78e44f", "fb4b7c9e7ffa59e7", None),
    "contrast": (60, "f5763270ad4e96ef", "550abe15ac18df0b", "cb2d196d21b54cb8"),
}
PUBLISHED = {
    "truthfulqa/mc_task.json": (817, "30e5fa67ca0100a3", "f1332db96fb34d0e", "728760a84c9fe822"),
    "bbq/data": (9676, "ad0c54cad088add6", "b755bd1f1f7d4fe9", "b35f6f8aea9bba35"),
    "crows_pairs/crows_pairs_anonymized.csv": (
        1508,
        "f2c2f97d0de5f9e7",
        "3a5f61366073b5d6",
        "eb0ebc0423d13473",
    ),
    "toxigen/safenlp/toxiGen.json": (
        6514,
        "6d15d091577337e4",
        "0abc2cb5224d3fae",
        "cae9ee192bf0eb8c",
    ),
    "xstest/xstest_prompts.csv": (450, "8351d975d362725e", "25cf7ccbc6247223", "cef20d463aa48ae5"),
}


def digest(values: Iterable[object]) -> tuple[int, str]:
    sha, count = hashlib.sha256(), 0
    for value in values:
        sha.update(str(value).encode())
        count += 1
    return count, sha.hexdigest()[:16]


def text_of(item: Item, order: tuple[int, ...]) -> str:
    """The item by the names that its fields had when the hashes were taken."""
    fields = {
        "id": item.id,
        "benchmark": item.benchmark,
        "text": item.stem,
        "options": item.options,
        "key": item.key,
    }
    fields |= {
        "group": item.group,
        "context": item.context,
        "condition": item.condition,
        "order": order,
    }
    return f"Item({', '.join(f'{name}={value!r}' for name, value in fields.items())}, facts={item.facts!r})"


def check(
    name: str, path: Path | None, count: int, published: str, shuffled: str, items: str | None
) -> None:
    """Every field of every question as published and as shuffled; every item, and its own
    shuffle."""
    for shuffle, expected in ((False, published), (True, shuffled)):
        questions = opened(name, path, shuffle_options=shuffle).iter_questions()
        shown = ((q.id, q.options, q.gold, q.group, q.order, q.text, q.target) for q in questions)
        assert digest(shown) == (count, expected)
    if items is not None:
        read = items_of(name, path)
        moved = (rows.shuffled(item, 7) for item in read)
        # Of an item in its published order the earlier version kept no order.
        pairs = zip(read, moved, strict=True)
        assert (
            digest(
                text
                for item, other in pairs
                for text in (text_of(item, ()), text_of(other, other.order))
            )[1]
            == items
        )


@pytest.mark.parametrize("name", EMBEDDED)
def test_embedded_questions_are_shown_as_ever(name: str) -> None:
    check(name, None, *EMBEDDED[name])


@pytest.mark.parametrize("file", PUBLISHED)
def test_published_questions_are_shown_as_ever(file: str, shared_data: Path) -> None:
    check(file.split("/")[0], shared_data / file, *PUBLISHED[file])
