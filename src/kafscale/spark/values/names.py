"""What the formats of values are called, for command lines and options. Imports nothing."""

from typing import Final

VALUE_FORMATS: Final = ("binary", "string", "json", "avro", "protobuf")
VALUE_FRAMINGS: Final = ("none", "confluent")
