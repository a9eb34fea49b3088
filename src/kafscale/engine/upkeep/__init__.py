"""Background work: roll-up, retention, removal of deleted topics, checkpoints, given-out ids.

May use: partitions, coordinator and everything below them.
"""
