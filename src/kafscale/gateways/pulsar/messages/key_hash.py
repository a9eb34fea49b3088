"""The hash by which Key_Shared subscriptions share keys: Pulsar's, 0 to 65535 and never 0.

It is MurmurHash3 of 32 bits with seed 0. Consumers may ask for ranges of it.
"""

from typing import Final

HASHES: Final = 1 << 16
_WORD: Final = 0xFFFF_FFFF
_C1, _C2 = 0xCC9E2D51, 0x1B873593


def sticky_hash(key: bytes) -> int:
    """The hash of a key."""
    return (murmur3(key) & 0x7FFF_FFFF) % HASHES or 1


def murmur3(data: bytes) -> int:
    """MurmurHash3, 32 bits, seed 0."""
    state = 0
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little")
        state ^= _rotated(word * _C1 & _WORD, 15) * _C2 & _WORD
        state = (_rotated(state, 13) * 5 + 0xE6546B64) & _WORD
    if whole < len(data):
        word = int.from_bytes(data[whole:], "little")
        state ^= _rotated(word * _C1 & _WORD, 15) * _C2 & _WORD
    state ^= len(data)
    state = (state ^ state >> 16) * 0x85EBCA6B & _WORD
    state = (state ^ state >> 13) * 0xC2B2AE35 & _WORD
    return state ^ state >> 16


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> (32 - by)) & _WORD
