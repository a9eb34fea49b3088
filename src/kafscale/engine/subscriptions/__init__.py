"""Subscriptions that outlive their consumers: served by the owner of the partition.

Next door: the rules (kafscale/subscriptions), groups (engine/coordinator), reading
(engine/partitions).
"""
