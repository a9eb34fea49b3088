"""Kafscale: Kafka topics in a bucket.

The rooms, from the ground up: model, records, wire, objects, metadata, log, engine,
gateways, broker, cli. ARCHITECTURE.md says who may call whom.
"""

__version__ = "0.1.0"
