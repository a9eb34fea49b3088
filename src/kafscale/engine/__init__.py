"""What a broker does, in any protocol that clients speak.

`engine.py` has the verbs that doors call. The sub-rooms, from the bottom: cluster, topics,
partitions, coordinator, moves; upkeep and metrics on top. import-linter checks the order.
"""
