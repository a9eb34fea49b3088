"""The hash that Key_Shared subscriptions share keys by."""

import pytest

from kafscale.gateways.pulsar.messages.key_hash import murmur3, sticky_hash


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"", 0),
        (b"test", 0xBA6BD213),
        (b"Hello, world!", 0xC0363E43),
        (b"The quick brown fox jumps over the lazy dog", 0x2E4FF723),
    ],
)
def test_it_is_murmur_hash_3(data: bytes, value: int) -> None:
    assert murmur3(data) == value


def test_no_key_has_hash_0() -> None:
    assert sticky_hash(b"") == 1
