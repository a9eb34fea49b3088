"""Reading a YAML file strictly: no key twice, one clear line about what is wrong.

Next door: what the keys mean (sources.py). Loaded only when there is a file to read.
"""

from pathlib import Path

import yaml

from kafscale.settings.values import ConfigError


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
    """Plain YAML, except that a key written twice is an error instead of a silent choice."""

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
