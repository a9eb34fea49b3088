"""The open logs of this broker: appending to them and reading from them.

Doors use `partitions.py` and the types of its arguments and results; the rest is this room's own.
May use: topics, cluster, log.
"""
