"""What a client may do, as the bits of Kafka's operations.

Nobody is refused anything yet, so whoever asks is told everything that can be done to a thing.
"""

from typing import Final

NOT_ASKED: Final = -0x80000000

_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE, _CLUSTER_ACTION = (1 << n for n in range(3, 10))
_DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = (1 << n for n in range(10, 13))

_CONFIGS: Final = _DESCRIBE_CONFIGS | _ALTER_CONFIGS
_TOPIC: Final = _READ | _WRITE | _CREATE | _DELETE | _ALTER | _DESCRIBE | _CONFIGS
_GROUP: Final = _READ | _DELETE | _DESCRIBE
_CLUSTER: Final = _CREATE | _CLUSTER_ACTION | _CONFIGS | _IDEMPOTENT_WRITE | _ALTER | _DESCRIBE


def on_topic(asked: bool) -> int:
    """What may be done to a topic."""
    return _TOPIC if asked else NOT_ASKED


def on_group(asked: bool) -> int:
    """What may be done to a consumer group."""
    return _GROUP if asked else NOT_ASKED


def on_cluster(asked: bool) -> int:
    """What may be done to the cluster."""
    return _CLUSTER if asked else NOT_ASKED
