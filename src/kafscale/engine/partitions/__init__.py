"""The open logs of this broker: appending to them and reading from them.

May use: topics, cluster, log.
"""
