"""Frames: a command, and for messages their metadata, checksum and payload behind it.

Here: taking a frame apart and putting one together. The length in front of a frame has been cut
off by the connection; what is written has it in front.
Next door: the commands (messages/commands.py), the metadata (messages/metadata.py).
"""

import struct
from typing import Final, NamedTuple

from crc32c import crc32c

from kafscale.wire.buffer import MalformedMessage, unsigned_varlong
from kafscale.wire.pulsar.messages.commands import COMMANDS, Command
from kafscale.wire.pulsar.messages.metadata import BrokerEntryMetadata
from kafscale.wire.pulsar.protobuf import varint

_SIZE: Final = struct.Struct(">I")
_HEAD: Final = struct.Struct(">II")  # length of the frame, length of the command
_CHECKSUM: Final = b"\x0e\x01"
_BROKER_ENTRY: Final = b"\x0e\x02"
_TYPE_TAG: Final = 0x08
_SIZED: Final = 2


class UnknownCommand(MalformedMessage):
    """A command that this broker does not speak."""


class WrongChecksum(ValueError):
    """The metadata and payload of a message are not what its sender signed."""


class PulsarFrame(NamedTuple):
    """A command and the bytes behind it."""

    command: Command
    rest: memoryview


class RawEntry(NamedTuple):
    """What follows the command of a message: metadata and payload, both still closed."""

    metadata: memoryview
    payload: memoryview


def read_frame(frame: memoryview) -> PulsarFrame:
    """Take a frame apart. Raises MalformedMessage."""
    if len(frame) < _SIZE.size:
        raise MalformedMessage(f"a frame of {len(frame)} bytes")
    (size,) = _SIZE.unpack_from(frame)
    end = _SIZE.size + size
    if end > len(frame):
        raise MalformedMessage(f"a command of {size} bytes in a frame of {len(frame)}")
    return PulsarFrame(_read_command(frame[_SIZE.size : end]), frame[end:])


def _read_command(view: memoryview) -> Command:
    if len(view) < 2 or view[0] != _TYPE_TAG:
        raise MalformedMessage("a command without its type")
    number, at = unsigned_varlong(view, 1)
    kind = COMMANDS.get(number)
    if kind is None:
        raise UnknownCommand(f"command {number} is not spoken here")
    tag, at = unsigned_varlong(view, at) if at < len(view) else (0, at)
    if tag != number << 3 | _SIZED:
        raise MalformedMessage(f"command {number} is followed by field {tag >> 3}")
    size, at = unsigned_varlong(view, at)
    if size != len(view) - at:
        raise MalformedMessage(f"command {number} claims {size} bytes and has {len(view) - at}")
    return kind.decode(view[at:])


def read_entry(rest: memoryview) -> RawEntry:
    """Take apart what follows a SEND or a MESSAGE. Raises MalformedMessage, WrongChecksum."""
    if bytes(rest[:2]) == _BROKER_ENTRY:
        rest = rest[2:]
        _, rest = _cut(rest, "broker metadata")
    if bytes(rest[:2]) == _CHECKSUM:
        if len(rest) < 6:
            raise MalformedMessage("a message ends within its checksum")
        (claimed,) = _SIZE.unpack_from(rest, 2)
        rest = rest[6:]
        if crc32c(rest) != claimed:
            raise WrongChecksum("the checksum of a message is wrong")
    metadata, payload = _cut(rest, "metadata")
    return RawEntry(metadata, payload)


def _cut(rest: memoryview, what: str) -> tuple[memoryview, memoryview]:
    if len(rest) < _SIZE.size:
        raise MalformedMessage(f"a message without {what}")
    (size,) = _SIZE.unpack_from(rest)
    at = _SIZE.size
    if size > len(rest) - at:
        raise MalformedMessage(f"{what} of {size} bytes, {len(rest) - at} are left")
    return rest[at : at + size], rest[at + size :]


def write_command(command: Command, *, behind: int = 0) -> bytes:
    """A command with its lengths in front; `behind` bytes will follow it in the frame."""
    body = command.encode()
    number = command.COMMAND
    encoded = b"".join(
        (b"\x08", varint(number), varint(number << 3 | _SIZED), varint(len(body)), body)
    )
    return _HEAD.pack(_SIZE.size + len(encoded) + behind, len(encoded)) + encoded


def write_receipt(producer_id: int, sequence_id: int, ledger: int, entry: int) -> bytes:
    """SendReceipt for one message: as `write_command` writes it, without the tables."""
    place = b"\x08%b\x10%b" % (varint(ledger), varint(entry))
    body = b"\x08%b\x10%b\x1a%b%b\x20\x00" % (
        *(varint(producer_id), varint(sequence_id), varint(len(place))),
        place,
    )
    command = b"\x08\x07\x3a%b%b" % (varint(len(body)), body)
    return _HEAD.pack(_SIZE.size + len(command), len(command)) + command


def write_delivery(consumer_id: int, ledger: int, entry: int, *, behind: int) -> bytes:
    """Delivery of one entry to a consumer of the whole topic: the same."""
    place = b"\x08%b\x10%b" % (varint(ledger), varint(entry))
    body = b"\x08%b\x12%b%b" % (varint(consumer_id), varint(len(place)), place)
    command = b"\x08\x09\x4a%b%b" % (varint(len(body)), body)
    return _HEAD.pack(_SIZE.size + len(command) + behind, len(command)) + command


def sign_entry(metadata: bytes, payload: bytes) -> tuple[bytes, bytes]:
    """What follows the command of a message: checksum and metadata, then the payload."""
    signed = _SIZE.pack(len(metadata)) + metadata
    checksum = crc32c(payload, crc32c(signed))
    return _CHECKSUM + _SIZE.pack(checksum) + signed, payload


def broker_entry(metadata: BrokerEntryMetadata) -> bytes:
    """What a broker adds in front of the checksum for clients that ask for it."""
    encoded = metadata.encode()
    return _BROKER_ENTRY + _SIZE.pack(len(encoded)) + encoded
