"""A suite's file beside somebody else's run, which the gate, the registry and `audit suite` read:
each of these ends within seconds, and none is read in a meaning of two."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from long_tests import long

from audit.core.errors import ConfigError
from audit.governance.reviews import approvals_asked
from audit.registry.entry import _suite
from audit.suite.read import read_suite

TEN = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
BILLIONS = TEN + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12))
BASE_60 = "1" + ":1" * 260_000  # the square of its length to compute

# Text: what is wrong with it.
REFUSED = {
    "an alias of billions": BILLIONS + "audit_suite_id: *a11\n",
    "billions of approvals": BILLIONS + "governance: {approvals_required: *a11}\n",
    "a list of itself": "a: &a [*a]\naudit_suite_id: x\n",
    "maps of itself": "&a a: *a\naudit_suite_id: x\n",
    "maps that are merged again and again": "a: &a {b: c}\nx: {<<: ["
    + ", ".join(["*a"] * 9000)
    + "]}\n",
    "a number in base 60": f"x: {BASE_60}\n",
    "a number in base 60 with a tag": f"x: !!int {BASE_60}\n",
    "a number of 300,000 digits": f"x: {'7' * 300_000}\n",
    "a float of 300,000 digits": f"x: {'7' * 300_000}.5\n",
    "a key twice": "governance: {approvals_required: 2}\ngovernance: {approvals_required: 1}\n",
    "an inner key twice": "governance: {approvals_required: 2, approvals_required: 1}\n",
    "two documents": "governance: {approvals_required: 2}\n---\ngovernance: {approvals_required: 1}\n",
    "an object of Python": "audit_suite_id: !!python/object/apply:os.system ['true']\n",
    "brackets": "[" * 100_000,
    "braces": "{a: " * 100_000,
    "lists of lists": "x: [" + "[], " * 100_000 + "]\n",
    "a date that cannot be": "x: 2001-99-99\n",
    "each of 24,000 keys twice": "".join(f"k{i % 12_000}: 1\n" for i in range(24_000)),
}


@pytest.fixture(autouse=True)
def _ends_soon() -> Iterator[None]:
    """60 s of this process's CPU."""

    def late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, 60)
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.signal(signal.SIGVTALRM, before)


# The three readers parse by one function: of two of them it is enough to see that they do.
PARSED = ("an alias of billions", "a key twice", "an object of Python", "brackets")
CASES = [("gate", name) for name in REFUSED]
for _name in REFUSED:
    _readers = (("registry", _name), ("suite", _name))
    CASES += _readers if _name in PARSED else [long(*case) for case in _readers]


@pytest.mark.parametrize(("reader", "name"), CASES)
def test_no_suite_holds_up_its_reader(reader: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text(REFUSED[name])
    read: dict[str, Callable[[], object]] = {
        "gate": lambda: approvals_asked(path.read_text(), "suite.yaml"),
        "registry": lambda: _suite(tmp_path),
        "suite": lambda: read_suite(str(path)),
    }
    with pytest.raises(ConfigError):
        read[reader]()


def test_governance_that_stands_twice_is_not_the_smaller_one() -> None:
    twice = "suite: {governance: {approvals_required: 1}}\ngovernance: {approvals_required: 3}\n"
    with pytest.raises(ConfigError, match="both"):
        approvals_asked(twice, "suite.yaml")


@pytest.mark.parametrize(
    "word", ["!!set {a, b}", "!!binary AAAA", "[a]", "{a: b}", "!!omap [a: b]"]
)
def test_a_suite_is_registered_under_a_name(word: str, tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text(f"audit_suite_id: {word}\n")
    with pytest.raises(ConfigError, match="not a name"):
        _suite(tmp_path)


@pytest.mark.parametrize(
    ("text", "approvals"),
    [
        ("{}", 1),
        ('{"suite": {"governance": {"approvals_required": 2}}}', 2),
        ("governance: {approvals_required: 3}", 3),
    ],
)
def test_a_plain_suite_is_read(text: str, approvals: int) -> None:
    assert approvals_asked(text, "suite.json") == approvals
