"""What a snapshot of etcd holds, read from its bytes: the newest value of every key.

A snapshot is the database file of a member (bbolt: a tree of pages), followed by its SHA-256. Of
its buckets only `key` is read: a row for each revision, in the order of revisions.
Here: bytes alone. Next door: the hash (gateway.py), writing keys into an etcd
(snapshot_load.py).
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from kafscale.model.errors import CorruptObject

_HASH_BYTES: Final = 32
_META: Final = struct.Struct("<IIII QQ Q Q Q Q")  # of it the last is the checksum
_PAGE: Final = struct.Struct("<QHHI")
_BRANCH_ITEM: Final = struct.Struct("<IIQ")
_LEAF_ITEM: Final = struct.Struct("<IIII")
_BUCKET: Final = struct.Struct("<QQ")
_MAGIC: Final = 0xED0CDAED
_VERSION: Final = 2
_IS_BRANCH: Final = 1
_IS_LEAF: Final = 2
_IS_BUCKET: Final = 1  # of an item of a leaf
_DEEPEST: Final = 64
_REVISION_BYTES: Final = 17  # two numbers and a character between them; a deletion has one more
_DELETED: Final = b"t"
_KEY, _VALUE, _LEASE = 1, 5, 6  # fields of a row
_MOST_SHIFT: Final = 63


class EtcdRow(NamedTuple):
    """A key as it was last written."""

    key: bytes
    value: bytes
    lease: int  # 0: it stays


def newest_rows(snapshot: bytes) -> dict[bytes, EtcdRow]:
    """Give every key that was there when the snapshot was made. Raises CorruptObject."""
    found: dict[bytes, EtcdRow] = {}
    try:
        for revision, data in _Pages(snapshot[:-_HASH_BYTES]).rows(b"key"):
            row = _row(data)
            if revision[_REVISION_BYTES:] == _DELETED:
                found.pop(row.key, None)
            else:
                found[row.key] = row
    except (struct.error, IndexError) as problem:
        raise CorruptObject(f"the snapshot cannot be read: {problem}") from problem
    return found


class _Pages:
    """The tree of pages."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        metas = [meta for at in (0, self._page_bytes()) if (meta := self._meta(at)) is not None]
        if not metas:
            raise CorruptObject("the snapshot does not begin as a database of etcd does")
        _, self._root = max(metas)

    def rows(self, bucket: bytes) -> Iterator[tuple[bytes, memoryview]]:
        """Give what a bucket of the top level holds, in the order of its keys."""
        for name, value, is_bucket in self._items(self._page(self._root), 0):
            if name != bucket or not is_bucket:
                continue
            root, _ = _BUCKET.unpack_from(value)
            # A small bucket has its only page behind its header.
            page = self._page(root) if root else value[_BUCKET.size :]
            for key, data, _ in self._items(page, 0):
                yield key, data
            return
        raise CorruptObject(f"the snapshot has no bucket {bucket.decode()}")

    def _page_bytes(self) -> int:
        return int(_META.unpack_from(self._data, _PAGE.size)[2])

    def _meta(self, at: int) -> tuple[int, int] | None:
        """Transaction and root of one of the two first pages; None if it is not whole."""
        begin = at + _PAGE.size
        if begin + _META.size > len(self._data):
            return None
        magic, version, size, _, root, _, _, _, transaction, told = _META.unpack_from(
            self._data, begin
        )
        body = self._data[begin : begin + _META.size - 8]
        if (magic, version) != (_MAGIC, _VERSION) or _checksum(body) != told or not size:
            return None
        return int(transaction), int(root)

    def _page(self, number: int) -> memoryview:
        size = self._page_bytes()
        begin = number * size
        overflow = _PAGE.unpack_from(self._data, begin)[3]
        return self._data[begin : begin + (overflow + 1) * size]

    def _items(self, page: memoryview, depth: int) -> Iterator[tuple[bytes, memoryview, bool]]:
        _, kind, count, _ = _PAGE.unpack_from(page)
        if depth > _DEEPEST:
            raise CorruptObject("the pages of the snapshot go round in a circle")
        if kind == _IS_BRANCH:
            for number in range(count):
                at = _PAGE.size + number * _BRANCH_ITEM.size
                below = _BRANCH_ITEM.unpack_from(page, at)[2]
                yield from self._items(self._page(below), depth + 1)
            return
        if kind != _IS_LEAF:
            raise CorruptObject(f"the snapshot has a page of kind {kind} where rows should be")
        for number in range(count):
            at = _PAGE.size + number * _LEAF_ITEM.size
            flags, begin, key_bytes, value_bytes = _LEAF_ITEM.unpack_from(page, at)
            middle = at + begin + key_bytes
            if middle + value_bytes > len(page):
                raise CorruptObject("a row of the snapshot goes beyond its page")
            key = bytes(page[at + begin : middle])
            yield key, page[middle : middle + value_bytes], bool(flags & _IS_BUCKET)


def _checksum(data: memoryview) -> int:
    """FNV-1a with 64 bits."""
    found = 0xCBF29CE484222325
    for byte in data:
        found = ((found ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return found


def _row(data: memoryview) -> EtcdRow:
    """Read the fields of a row: numbers, and bytes with their length before them."""
    key, value, lease, at = b"", b"", 0, 0
    while at < len(data):
        tag, at = _number(data, at)
        number, at = _number(data, at)
        if tag & 7 == 0:
            lease = number if tag >> 3 == _LEASE else lease
            continue
        if tag & 7 != 2 or at + number > len(data):
            raise CorruptObject("a row of the snapshot has a field that etcd does not write")
        text, at = bytes(data[at : at + number]), at + number
        if tag >> 3 == _KEY:
            key = text
        elif tag >> 3 == _VALUE:
            value = text
    return EtcdRow(key, value, lease)


def _number(data: memoryview, at: int) -> tuple[int, int]:
    """Read a number of seven bits a byte; gives it and where the next field begins."""
    found = shift = 0
    while True:
        byte = data[at]
        at += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found, at
        shift += 7
        if shift > _MOST_SHIFT:
            raise CorruptObject("a number of the snapshot is too long")
