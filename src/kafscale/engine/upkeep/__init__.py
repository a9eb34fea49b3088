"""Background work: roll-up, retention, removal of deleted topics, checkpoints and recovery.

May use: partitions, coordinator and everything below them.
"""
