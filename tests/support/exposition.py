"""A strict little reader of Prometheus' text format."""

import re

_LINE = re.compile(r"([a-zA-Z_][a-zA-Z0-9_]*)(?:\{(.*)\})? (\S+)", re.DOTALL)
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')
_SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",)}

Series = tuple[str, frozenset[tuple[str, str]]]


def parse(raw: bytes) -> dict[Series, float]:
    """All samples by name and labels; ValueError for anything Prometheus would stumble over."""
    text = raw.decode("utf-8")
    if not text:
        return {}
    if not text.endswith("\n"):
        raise ValueError("the last line is not ended")
    samples: dict[Series, float] = {}
    family, allowed, seen = "", (), set[str]()
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            family = line.split(" ", 3)[2]
            if family in seen:
                raise ValueError(f"{family} comes twice")
            seen.add(family)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            if name != family:
                raise ValueError(f"type of {name} follows help of {family}")
            allowed = tuple(family + suffix for suffix in _SUFFIXES[kind])
        else:
            series, value = _sample(line)
            if series[0] not in allowed or series in samples:
                raise ValueError(f"out of place or twice: {line}")
            samples[series] = value
    return samples


def series(name: str, **labels: str) -> Series:
    """The key of one sample."""
    return name, frozenset(labels.items())


def _sample(line: str) -> tuple[Series, float]:
    match = _LINE.fullmatch(line)
    if match is None:
        raise ValueError(f"not a sample: {line}")
    name, labels, value = match.groups()
    found, place = [], 0
    while labels and place < len(labels):
        pair = _LABEL.match(labels, place)
        if pair is None:
            raise ValueError(f"not a label: {labels[place:]}")
        text = re.sub(r"\\(.)", lambda at: {"n": "\n"}.get(at[1], at[1]), pair[2])
        found.append((pair[1], text))
        place = pair.end()
    return (name, frozenset(found)), float(value)
