"""Codecs: bytes to values and back. No I/O, no engine, no protocol knows another."""
