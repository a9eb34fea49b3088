"""Quotas of bytes at doors whose protocols cannot tell a client to wait.

A client that is over its quota is not read from for a while.
Next door: quotas at the Kafka door, which tells (kafka/throttling.py), whose quota it is
(engine/access/quotas.py), connections that wait (connection.py).
"""

from kafscale.access.quotas import QuotaKey
from kafscale.engine.engine import Engine
from kafscale.gateways.connection import Connection


def charge_bytes(
    engine: Engine, connection: Connection, client_id: str, key: QuotaKey, size: int
) -> None:
    """Charge a client for what it has sent, or has been sent."""
    quotas = engine.quotas
    if not quotas.limits_clients:
        return
    now_s = engine.clock.elapsed_s()
    limits = quotas.limits_of(connection.principal.name, client_id, now_s)
    meter = limits.produced_bytes if key is QuotaKey.PRODUCED_BYTES else limits.consumed_bytes
    delay_s = 0.0 if meter is None else meter.charge(size, now_s)
    if delay_s > 0:
        engine.metrics.throttled(key, delay_s)
        connection.mute(delay_s)
