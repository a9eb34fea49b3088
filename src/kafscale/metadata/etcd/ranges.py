"""Ranges of keys as etcd wants them: bytes, from a first key to an end."""

from typing import Any

from kafscale.metadata.store import Entry

_ALL = b"\0"  # as a range's end: no end


def range_of(prefix: str, after: str = "") -> tuple[bytes, bytes]:
    """First key and end of the keys that begin with `prefix` and lie behind `after`."""
    whole = prefix.encode()
    begin = max(whole, after.encode() + b"\0") if after else whole
    kept = whole.rstrip(b"\xff")
    end = kept[:-1] + bytes([kept[-1] + 1]) if kept else _ALL
    return begin or b"\0", end


def is_empty(begin: bytes, end: bytes) -> bool:
    """Whether no key can lie there."""
    return end != _ALL and begin >= end


def entry_of(pair: Any, root: str) -> Entry:
    """A key and value of etcd as an entry, without `root` before its key."""
    return Entry(pair.key.decode()[len(root) :], bytes(pair.value), int(pair.mod_revision))
