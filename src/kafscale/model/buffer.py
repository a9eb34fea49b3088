"""The one type of bytes that are handed on without being copied."""

Buffer = bytes | bytearray | memoryview
