"""Read YAML of other programs and people, in time that is linear in the length of the document.

Aliases are refused, since they can multiply the size of a document. Long numbers are refused, since
the time to read a number grows with the square of its length. A repeated key is refused as
ambiguous."""

from collections import Counter
from collections.abc import Hashable
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode

_MAX_NODES = 50_000
_MAX_NUMBER = 64  # largest number of characters of a number or a date
_TEXT = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:binary", "tag:yaml.org,2002:null")


class _Loader(yaml.SafeLoader):
    nodes = 0

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent):
            raise yaml.YAMLError(f"it has an alias, *{event.anchor}. Expected the value itself")
        self.nodes += 1
        if self.nodes > _MAX_NODES:
            raise yaml.YAMLError(f"it has more than {_MAX_NODES:,} values")
        return super().compose_node(parent, index)

    def construct_object(self, node: Node, deep: bool = False) -> Any:
        if isinstance(node, ScalarNode) and node.tag not in _TEXT and len(node.value) > _MAX_NUMBER:
            raise yaml.YAMLError(f"it has a number of {len(node.value):,} characters")
        return super().construct_object(node, deep=deep)

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        names = Counter(key.value for key, _ in node.value if isinstance(key, ScalarNode))
        for name, times in names.items():
            if times > 1:
                raise yaml.YAMLError(f"{name[:_MAX_NUMBER]!r} is given twice")
        return super().construct_mapping(node, deep=deep)


def parse_yaml(text: str) -> Any:
    """Return the value of a YAML or JSON document.

    Parameters
    ----------
    text : str
        The document, as YAML or JSON.

    Returns
    -------
    object
        Its value.

    Raises
    ------
    yaml.YAMLError
        If the text is not YAML, or has an alias, a repeated key, a number of more than 64
        characters or more than 50,000 values.
    RecursionError
        If it is nested too deeply.
    ValueError
        If a number or date is impossible.
    """
    return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader
