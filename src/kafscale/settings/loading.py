"""Loading the settings: from a file, variables and flags to a Config.

Here: which settings exist by name, and putting the values together.
Next door: files, variables and flags (sources.py), value types (values.py), the rules (rules.py).
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, get_args

import msgspec

from kafscale.model.security.secret import Secret
from kafscale.settings import rules, sources
from kafscale.settings.config import Config
from kafscale.settings.sections import S3Section, Section
from kafscale.settings.sources import Given
from kafscale.settings.values import ConfigError, read_value


def load(path: Path | None, env: Mapping[str, str], flags: Mapping[str, object]) -> Config:
    """Read the settings: flags beat KAFSCALE_* variables, which beat the YAML file.

    The file is `path`, else the one KAFSCALE_CONFIG names, else none. Flags are named as typed
    (`--port`) or by their whole key (`broker.port`). Raises ConfigError.
    """
    named = env.get(sources.CONFIG_VARIABLE, "").strip()
    file = path or (Path(named) if named else None)
    values: dict[str, Any] = {}
    if file is not None:
        _take(values, sources.from_file(file))
    _take(values, sources.from_environment(env))
    _take(values, sources.from_flags(flags))
    config: Config = _built(values)
    rules.check(config)
    return config


def load_bucket(bucket: str, env: Mapping[str, str]) -> S3Section:
    """Read how to reach a bucket from the KAFSCALE_S3_* variables alone. Raises ConfigError.

    For programs that are told the bucket and its namespace otherwise, and are no broker.
    """
    ours = {name: raw for name, raw in env.items() if name.startswith(sources.S3_VARIABLES)}
    ours = {name: raw for name, raw in ours.items() if name not in sources.OF_THE_BROKER}
    values: dict[str, Any] = {}
    _take(values, sources.from_environment(ours))
    s3 = _built({**values, "s3.bucket": bucket}).s3
    rules.check_s3(s3)
    return s3


def _built(values: dict[str, Any]) -> Config:
    if values.get("s3.endpoint"):
        # Servers other than AWS rarely have a host name per bucket.
        values.setdefault("s3.pathStyle", True)
    config: Config = _build(Config, values, "")
    return config


def _fields(kind: type[Section], prefix: str = "") -> Iterator[tuple[str, Any, object]]:
    """Yield key, type and default of every single setting."""
    for field in msgspec.structs.fields(kind):
        key = prefix + field.encode_name
        if isinstance(field.type, type) and issubclass(field.type, Section):
            yield from _fields(field.type, f"{key}.")
        else:
            default = field.default
            yield key, field.type, [] if default is msgspec.NODEFAULT else default


# Every setting there is: its type and its default.
KEYS: Final[dict[str, tuple[Any, object]]] = {
    key: (kind, default) for key, kind, default in _fields(Config)
}
_SECTIONS: Final = {key.rpartition(".")[0] for key in KEYS} - {""}
_SECRETS: Final = {key for key, (kind, _) in KEYS.items() if Secret in get_args(kind)}


def _take(values: dict[str, Any], given: Iterable[Given]) -> None:
    for key, name, raw in given:
        if key in _SECTIONS:
            if raw is None:  # `broker:` with nothing under it
                continue
            raise ConfigError(f"{name}: expected settings under it, found {raw!r}")
        if key not in KEYS:
            raise sources.unknown_key(name, KEYS)
        kind, default = KEYS[key]
        if raw is None or (raw == "" and default is None):  # "" reads as "not set"
            values.pop(key, None)
            continue
        try:
            values[key] = read_value(kind, raw)
        except ValueError as bad:
            found = "something else" if key in _SECRETS else repr(raw)
            raise ConfigError(f"{name}: {bad}, found {found}") from bad


def _build(kind: type[Section], values: Mapping[str, Any], prefix: str) -> Any:
    given: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        key = prefix + field.encode_name
        if isinstance(field.type, type) and issubclass(field.type, Section):
            given[field.name] = _build(field.type, values, f"{key}.")
        elif key in values:
            given[field.name] = values[key]
    return kind(**given)
