"""Transactional ids, the ends of transactions, and the offsets that they commit.

Doors use `transactions.py`; the rest is this room's own. May use: partitions, coordinator, topics,
cluster, log.
"""
