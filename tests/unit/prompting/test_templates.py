"""Protocols are checked when loaded, and content is never read as a template."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from audit.config.audits import Work
from audit.core.errors import ConfigError
from audit.core.prompting import OF_READING, SHARED, check_reading, fill, strip_thinking
from audit.core.prompting import load_protocol as load
from audit.core.records import NO_OPTION, Design, Item, Protocol, Reading
from audit.engines.config import SamplingConfig
from audit.sweep.config import TEMPLATES

CONF = Path(__file__).resolve().parents[3] / "conf" / "protocol"
USED = (
    *SHARED,
    *(name for name in TEMPLATES if not name.endswith(("_number", "_code"))),
)  # where there are options
SHIPPED = sorted(path.stem for path in CONF.glob("*.yaml"))


def load_protocol(given: dict[str, Any]) -> Protocol:
    """As the sweep loads one."""
    return load(given, TEMPLATES)


def mapping(name: str = "song2026") -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((CONF / f"{name}.yaml").read_text(encoding="utf-8"))
    return loaded


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_protocols_load_under_their_own_names(name: str) -> None:
    protocol = load_protocol(mapping(name))
    assert protocol.name == name
    assert set(protocol.templates) == set(USED)
    for reading in OF_READING:
        templates = load(mapping(name), TEMPLATES, reading)
        assert set(templates.templates) - set(USED) == {
            n for n in (*TEMPLATES, "direct_code") if n.endswith(f"_{reading}")
        }
        assert templates.templates[f"direct_{reading}"].replace(
            "{question}", "X"
        ) == templates.templates[f"worker_{reading}"].replace("{messages}", "X")
    assert len(protocol.sha256) == 64


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize("reading", ["letter", "option_text"])
def test_direct_and_router_arms_differ_in_transmission_only(name: str, reading: str) -> None:
    templates = mapping(name)["templates"]
    before, after = templates[f"worker_{reading}"].split("{messages}")
    assert templates[f"direct_{reading}"] == f"{before}{{question}}" and after == ""


def test_the_hash_covers_every_template_and_not_their_order() -> None:
    whole = load_protocol(mapping()).sha256
    for name in USED:
        changed = mapping()
        changed["templates"][name] += " "
        assert load_protocol(changed).sha256 != whole, name
    reordered = mapping()
    reordered["templates"] = dict(reversed(reordered["templates"].items()))
    assert load_protocol(reordered).sha256 == whole
    swapped = mapping()
    t = swapped["templates"]
    t["direct_option_text"], t["router_forward_full"] = (
        t["router_forward_full"],
        t["direct_option_text"],
    )
    assert load_protocol(swapped).sha256 != whole


@pytest.mark.parametrize(
    ("template", "text", "message"),
    [
        ("question", "{options}", r"'question'.*has the placeholders \{options\}\."),
        ("question", "{stem} {options} {options}", r"'question'.*\{options\}, \{options\}\."),
        ("message", "{index}", r"'message'.*has the placeholders \{index\}\."),
        ("question", "{stem} {options} {gold}", r"'question'.*\{gold\}\. Expected"),
        (
            "worker_letter",
            "{letters} {messages} {question}",
            r"'worker_letter'.*\{question\}\. Expected",
        ),
        (
            "worker_letter",
            "{letters} {messages} {messages}",
            r"\{messages\}, \{messages\}\. Expected",
        ),
        ("message", "{index} {text} {", "'message'.*lone brace"),
        ("message", "{index} {text} }", "'message'.*lone brace"),
        ("message", "{index:3} {text}", "format specification"),
        ("message", "{index!r} {text}", "conversion"),
        ("message", "{index} {text.__class__}", r"\{text.__class__\}\. Expected"),
        ("message", "{} {text}", r"\{\}, \{text\}\. Expected"),
        ("message", None, "'message'.*not text"),
        ("message", 7, "'message'.*not text"),
    ],
)
def test_a_bad_template_is_named(template: str, text: Any, message: str) -> None:
    bad = mapping()
    bad["templates"][template] = text
    with pytest.raises(ConfigError, match=message):
        load_protocol(bad)


def test_unknown_and_missing_parts_of_a_protocol() -> None:
    renamed = mapping()
    renamed["templates"]["router_noisy"] = renamed["templates"].pop("router_noisy_rewrite")
    for bad, message in (
        (renamed, r"no template 'router_noisy_rewrite'.*these other templates: router_noisy\."),
        ({"name": "x", "version": "1"}, "no templates"),
        ({**mapping(), "version": 1}, "version"),
        ({**mapping(), "template": {}}, "key of a protocol"),
    ):
        with pytest.raises(ConfigError, match=message):
            load_protocol(bad)


def test_templates_of_another_audit_are_no_part_of_the_protocol() -> None:
    whole, alone = mapping(), mapping()
    for name in TEMPLATES:
        del alone["templates"][name]
    assert load(whole) == load(
        alone
    )  # the same hash, too: what another audit asks does not decide these rows
    assert load(whole).sha256 != load_protocol(whole).sha256


@given(st.text(), st.text())
@example("1", "{a} {{}} $x \\1 %s")
def test_content_is_never_read_again_and_a_literal_brace_is_written_twice(
    first: str, other: str
) -> None:
    assert fill("<{{{a}}}|{b}>", {"a": first, "b": other}) == f"<{{{first}}}|{other}>"


def test_a_cloze_shows_no_options_and_refuses_letters() -> None:
    cloze = mapping()
    cloze["templates"]["question"] = "{stem} {{options}}"
    protocol = load_protocol(cloze)
    check_reading(protocol, Reading.OPTION_TEXT)
    for reading in (Reading.LETTER, Reading.LETTER_LOGPROB):
        check_reading(load_protocol(mapping()), reading)
        with pytest.raises(ConfigError, match=r"does not show the options.*reading=option_text"):
            check_reading(protocol, reading)


BASE: dict[str, Any] = {
    "run_seed": 42,
    "model": "m",
    "benchmark": "b",
    "question_id": "q1",
    "arm": "noisy_rewrite",
    "level": 3,
    "replicate": 0,
    "role": "router",
    "index": 1,
    "kind": "independent",
}


def seed(**changes: Any) -> int:
    of = {**BASE, **changes}
    limits, protocol = SamplingConfig(), Protocol("p", "1", {})
    design = Design((), of["kind"])
    work = Work(design, protocol, of["model"], Reading.LETTER, limits, limits, of["run_seed"])
    question = Item(of["question_id"], of["benchmark"], "?", (), NO_OPTION, "g")
    return work.seed_of(
        question, *(of[name] for name in ("arm", "level", "replicate", "role", "index"))
    )


def test_every_part_of_the_key_matters_and_none_runs_into_the_next() -> None:
    changes: list[dict[str, Any]] = [
        {"run_seed": 43},
        {"model": "m2"},
        {"benchmark": "b2"},
        {"question_id": "q2"},
        {"arm": "forward_full"},
        {"level": 4},
        {"replicate": 1},
        {"role": "worker"},
        {"kind": "nested"},
        {"kind": ""},
        {"index": 2},
    ]
    assert {key for change in changes for key in change} == set(BASE)
    seeds = [seed(), *(seed(**change) for change in changes)]
    assert len(set(seeds)) == len(seeds)
    assert seed(model="ab", benchmark="c") != seed(model="a", benchmark="bc")
    assert seed(question_id="1", level=23) != seed(question_id="12", level=3)


def test_the_values_are_fixed_and_fit_31_bits() -> None:
    assert seed() == 1350391846
    grid = [seed(question_id=f"q{i}", index=j) for i, j in product(range(1000), range(9))]
    assert all(0 <= s < 2**31 for s in grid)
    assert max(grid) > 2**30
    # 9,000 draws from 2**31: 0.02 equal pairs are expected, and the values never change.
    assert len(set(grid)) == 9000


@pytest.mark.parametrize(
    ("text", "visible", "closed"),
    [
        ("plain", "plain", True),
        ("<think>a</think> b", "b", True),
        ("x <think>a</think> b", "x  b", True),
        ("a</think>b", "b", True),
        ("a</think>b</think>c", "c", True),
        ("<think>a", "", False),
        ("said <think>a", "said", False),
        ("<think>a <think> b</think>c", "c", True),
        ("<Think>a</THINK>b", "b", True),
        ("<seed:think>a</seed:think>b", "b", True),
        ("<reasoning>a</reasoning>b", "b", True),
        ("[THINK]a[/THINK]b", "b", True),
        ("<|channel|>analysis<|message|>a", "", False),
        (
            "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b<|return|>",
            "b",
            True,
        ),
        ("analysisHm.assistantfinalb", "b", True),
        ("analysis of variance", "analysis of variance", True),
        ("I think so", "I think so", True),
    ],
)
def test_forms(text: str, visible: str, closed: bool) -> None:
    assert strip_thinking(text) == (visible, closed)


@given(
    st.text(alphabet=st.characters(exclude_characters="<[")).filter(
        lambda text: not text.startswith("analysis")
    )
)
def test_text_without_tags_is_kept(text: str) -> None:
    assert strip_thinking(text) == (text.strip(), True)
