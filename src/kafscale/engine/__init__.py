"""What a broker does, whichever protocol a client speaks.

`engine.py` has the verbs that doors call. The sub-rooms, from the bottom: cluster, topics,
partitions, coordinator, moves; upkeep and metrics on top. import-linter checks the order.
"""
