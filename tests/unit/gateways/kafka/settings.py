"""Configurations that differ from the usual one in a section or two."""

from typing import Any

import msgspec

from kafscale.settings.config import Config


def changed(config: Config, **sections: Any) -> Config:
    """The same configuration with some sections replaced."""
    return msgspec.structs.replace(config, **sections)
