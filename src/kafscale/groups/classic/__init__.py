"""Kafka's classic protocol: members join a generation, and their leader assigns partitions.

Never here: what an assignment means. It is handed on as bytes.
"""
