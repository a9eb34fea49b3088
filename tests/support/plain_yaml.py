"""YAML for files that people and other tools read."""

import yaml


class _Plain(yaml.SafeDumper):
    """Repeats values instead of pointing at them."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def dump(value: object) -> str:
    return yaml.dump(value, Dumper=_Plain, sort_keys=False, width=100)
