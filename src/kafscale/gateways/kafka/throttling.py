"""Quotas at the Kafka door: what a request uses, and how long its connection must wait.

Here: charging clients. A produce request is charged for its bytes when it begins, a fetch for its
records when it is answered, every request for the event loop's time that its handler takes. A
client over its quota is answered at once, told how long to wait, and not read from for that long.
Next door: whose quota it is (engine/access/quotas.py), connections that wait
(gateways/connection.py), changes that the controller makes (calls/mutation_quota.py).
"""

import math
from collections.abc import Awaitable, Generator, Sequence
from typing import Any, Final

from kafscale.access.quotas import QuotaKey
from kafscale.gateways.kafka import router
from kafscale.gateways.kafka.apis import fetch, produce, share_fetch
from kafscale.gateways.kafka.calls.call import Answer, Call, Deferred
from kafscale.model.buffers import Buffer
from kafscale.wire.kafka.frame import RequestHeader
from kafscale.wire.kafka.schema import Message

_PRODUCE: Final = produce.API_KEY
_FETCHES: Final = frozenset({fetch.API_KEY, share_fetch.API_KEY})
_BUFFERS: Final = frozenset({bytes, bytearray, memoryview})
_PERCENT: Final = 100.0
_LONGEST_MS: Final = 2**31 - 1


def charge_request(request: RequestHeader, call: Call, size: int) -> None:
    """Charge what a request brings, and let a fetch ask for no more than is left."""
    now_s = call.began_s
    limits = call.engine.quotas.limits_of(call.principal.name, call.client_id, now_s)
    call.limits = limits
    if request.api_key == _PRODUCE:
        meter = limits.produced_bytes
        if meter is not None and (delay_s := meter.charge(size, now_s)):
            call.throttle(QuotaKey.PRODUCED_BYTES, delay_s)
    elif request.api_key in _FETCHES and (meter := limits.consumed_bytes) is not None:
        wanted = call.message.max_bytes
        if not meter.allows(wanted, now_s):
            # One batch is always handed out, or a client with little left would stand still.
            call.message.max_bytes = min(wanted, max(1, int(meter.left(now_s))))


def charge_answer(request: RequestHeader, call: Call, message: Message | None) -> None:
    """Charge what an answer takes, and write into it how long the client must wait."""
    limits = call.limits
    if limits is None or message is None:
        return
    meter = limits.consumed_bytes
    if meter is not None and request.api_key in _FETCHES:
        now_s = call.engine.clock.elapsed_s()
        if delay_s := meter.charge(_record_bytes(message), now_s):
            call.throttle(QuotaKey.CONSUMED_BYTES, delay_s)
    if limits.request_time is not None:
        now_s = call.engine.clock.elapsed_s()
        delay_s = limits.request_time.charge(call.busy_s * _PERCENT, now_s)
        # As in Kafka no single request costs more than one sample of the window.
        longest_s = call.engine.quotas.longest_request_delay_s
        call.throttle(QuotaKey.REQUEST_TIME, min(delay_s, longest_s))
    if call.throttle_s and hasattr(message, "throttle_time_ms"):
        message.throttle_time_ms = min(math.ceil(call.throttle_s * 1000), _LONGEST_MS)


def _record_bytes(response: Any) -> int:
    total = 0
    for topic in response.responses:
        for partition in topic.partitions:
            records: Buffer | Sequence[Buffer] | None = partition.records
            if records:
                is_one = type(records) in _BUFFERS
                total += len(records) if is_one else sum(map(len, records))  # type: ignore[arg-type]
    return total


def answer_timed(request: RequestHeader, call: Call) -> Answer:
    """Begin to answer, and measure how long the handler keeps the event loop."""
    clock = call.engine.clock
    began_s = clock.elapsed_s()
    begun = router.answer(request, call)
    call.busy_s += clock.elapsed_s() - began_s
    if begun is None or isinstance(begun, Message | Deferred):
        return begun
    return _Timed(begun, call)


class _Timed:
    """Something awaited, with the time that its steps take; the time between them is free."""

    def __init__(self, awaited: Awaitable[Message | None], call: Call) -> None:
        self._awaited = awaited
        self._call = call

    def __await__(self) -> Generator[Any, Any, Message | None]:
        clock, steps = self._call.engine.clock, self._awaited.__await__()
        send, value = steps.send, None
        while True:
            began_s = clock.elapsed_s()
            try:
                waited_for = send(value)
            except StopIteration as done:
                answer: Message | None = done.value
                return answer
            finally:
                self._call.busy_s += clock.elapsed_s() - began_s
            try:
                value = yield waited_for
                send = steps.send
            except BaseException as problem:  # the task is cancelled: its steps must know
                value, send = problem, steps.throw
