"""Kafka's consumer protocol (KIP-848): the coordinator assigns partitions, and each member moves
to its new assignment by its own heartbeats, while the others go on.
"""
