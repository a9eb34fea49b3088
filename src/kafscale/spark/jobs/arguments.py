"""Arguments of the command line that several commands share.

Never here: an import that needs Spark; the command line is read before it is known to be there.
"""

import argparse
import re
from typing import Final

from kafscale.model.configs.topic_configs import VALUE_FORMATS, VALUE_FRAMINGS

_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size_of(text: str) -> int:
    """Read 128M, 1G, 64KiB or a plain number of bytes."""
    match = re.fullmatch(r"(\d+)\s*([KMG]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if not match or int(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no size: write 128M or 1G")
    return int(match[1]) * _UNITS[match[2].upper()]


def share_of(text: str) -> float:
    """Read a share from 0 to 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not between 0 and 1")
    return value


def add_value_arguments(parser: argparse.ArgumentParser, usual: str | None = "binary") -> None:
    """Declare how values are read; `usual` is the format unless another is named."""
    parser.add_argument("--value-format", choices=VALUE_FORMATS, default=usual)
    parser.add_argument(
        "--value-schema", default="", metavar="TEXT|FILE",
        help="json: 'id bigint, name string'; avro: the schema; protobuf: a file of protoc -o",
    )  # fmt: skip
    parser.add_argument("--value-message", default="", metavar="NAME", help="protobuf: pkg.Message")
    parser.add_argument(
        "--value-framing", choices=VALUE_FRAMINGS, default="none",
        help="confluent: skip the schema id before each value",
    )  # fmt: skip
    parser.add_argument(
        "--schema-registry",
        default="",
        metavar="URL",
        help="avro, protobuf: registry of the schemas that values name",
    )
    parser.add_argument(
        "--value-subject",
        default="",
        metavar="NAME",
        help="subject in the registry (default: TOPIC-value)",
    )
