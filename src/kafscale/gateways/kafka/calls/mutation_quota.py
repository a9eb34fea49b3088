"""The quota of changes that the controller makes: partitions created and deleted.

Here: charging a request for each of its topics before the topic is changed. A client that knows
the error THROTTLING_QUOTA_EXCEEDED gets it while it is over its quota. An older client gets its
change, and waits afterwards.
Next door: the other quotas (gateways/kafka/throttling.py).
"""

from kafscale.access.quotas import QuotaKey
from kafscale.gateways.kafka.calls.call import Call
from kafscale.model.errors import ThrottlingQuotaExceeded


def charge_mutations(call: Call, partitions: int, strict_from: int | None = None) -> None:
    """Charge a change of so many partitions. Raises ThrottlingQuotaExceeded.

    `strict_from`: the first version of the API whose clients know that error; None: none do.
    """
    meter = call.limits.mutations if call.limits is not None else None
    if meter is None:
        return
    now_s = call.engine.clock.elapsed_s()
    if strict_from is not None and call.version >= strict_from:
        delay_s = meter.delay_s(now_s)
        if delay_s > 0:
            call.throttle(QuotaKey.MUTATIONS, delay_s)
            raise ThrottlingQuotaExceeded(
                "the client changes more partitions per second than its quota allows"
            )
        meter.record(partitions, now_s)
    else:
        call.throttle(QuotaKey.MUTATIONS, meter.charge(partitions, now_s))
