"""The rules that make commits safe: conditional writes, opening a log, looking at one.

The rules and their numbers are in docs/formats/log-protocol.md. May use: formats, objects.
"""
