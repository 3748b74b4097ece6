"""What is thinking and what is said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.prompting.thinking import strip_thinking


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
        ("<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b<|return|>", "b", True),
        ("analysisHm.assistantfinalb", "b", True),
        ("analysis of variance", "analysis of variance", True),
        ("I think so", "I think so", True),
    ],
)
def test_forms(text: str, visible: str, closed: bool) -> None:
    assert strip_thinking(text) == (visible, closed)


@given(st.text(alphabet=st.characters(exclude_characters="<[")))
def test_text_without_tags_is_kept(text: str) -> None:
    if not text.startswith("analysis"):
        assert strip_thinking(text) == (text.strip(), True)
