"""The one name for bytes that a caller may pass on without a copy."""

from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
