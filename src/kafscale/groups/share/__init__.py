"""Kafka's share groups (KIP-932): many members read one partition, and records go to one of them.

Here: which member reads which partition. Next door: which member gets which record, and what is
acknowledged (kafscale/subscriptions): the owner of the partition decides that.
"""
