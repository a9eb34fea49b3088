"""Reading a YAML file strictly: no key twice, bounds, one clear line about what is wrong.

A few lines of YAML can nest deeper than Python calls functions, and aliases and merge keys can
repeat each other until they fill the memory. So there are bounds on both, before anything is built.
Next door: what the keys mean (sources.py). Loaded only when there is a file to read.
"""

from pathlib import Path
from typing import Final

import yaml

from kafscale.settings.values import ConfigError

MOST_DEPTH: Final = 32
MOST_VALUES: Final = 100_000  # with everything that aliases repeat

_TOO_DEEP: Final = f"nested more than {MOST_DEPTH} levels deep"


def read_tree(path: Path) -> object:
    """Whatever the file holds."""
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_StrictLoader)
    except OSError as bad:
        raise ConfigError(f"{path}: cannot be read: {bad.strerror}") from bad
    except UnicodeDecodeError as bad:
        raise ConfigError(f"{path}: expected UTF-8 text, found other bytes") from bad
    except yaml.MarkedYAMLError as bad:
        line = f" line {bad.problem_mark.line + 1}" if bad.problem_mark else ""
        raise ConfigError(f"{path}{line}: {bad.problem or 'not YAML'}") from bad
    except yaml.YAMLError as bad:
        raise ConfigError(f"{path}: not YAML: {' '.join(str(bad).split())}") from bad


class _StrictLoader(yaml.SafeLoader):
    """Plain YAML with bounds, and a key written twice is an error instead of a silent choice."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: object) -> yaml.Node | None:
        """Compose a node, unless it lies too deep."""
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise yaml.composer.ComposerError(
                None,
                None,
                _TOO_DEEP,
                self.peek_event().start_mark,  # type: ignore[no-untyped-call]
            )
        node: yaml.Node | None = super().compose_node(parent, index)  # type: ignore[arg-type]
        self._depth -= 1
        return node

    def get_single_node(self) -> yaml.Node | None:
        """Compose the document, unless aliases make it too large."""
        node: yaml.Node | None = super().get_single_node()
        if node is not None:
            _measure(node, {})
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            name = str(key_node.value)
            if name in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{name} is written twice", key_node.start_mark
                )
            seen.add(name)
        return dict(super().construct_mapping(node, deep))


def _measure(node: yaml.Node, measured: dict[int, tuple[int, int] | None]) -> tuple[int, int]:
    """Count values and levels of a node with what aliases repeat; None: it is being measured."""
    if id(node) in measured:
        known = measured[id(node)]
        if known is None:
            raise _refusal("a value contains itself", node)
        return known
    measured[id(node)] = None
    values, depth = 1, 0
    for child in _children(node):
        child_values, child_depth = _measure(child, measured)
        values, depth = values + child_values, max(depth, child_depth)
    if values > MOST_VALUES:
        raise _refusal(f"more than {MOST_VALUES:,} values, repeated ones included", node)
    if depth >= MOST_DEPTH:
        raise _refusal(_TOO_DEEP, node)
    measured[id(node)] = values, depth + 1
    return values, depth + 1


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _refusal(problem: str, node: yaml.Node) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
