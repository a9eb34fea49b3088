"""Kafscale: Kafka topics in a bucket.

ARCHITECTURE.md lists the rooms and says which room may import which.
"""

__version__ = "0.1.0"
