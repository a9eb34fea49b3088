"""TxnOffsetCommit: API 28, versions 0-5.

Offsets that become committed with their transaction. It is answered by the coordinator of the
group; a member commits in its generation, and clients before v3 name none.
v5  the group becomes part of the transaction by this request
"""

from collections.abc import Sequence
from typing import Final

from kafscale.engine.coordinator.offsets import OffsetCommit
from kafscale.gateways.kafka.access.requirements import (
    EachRow,
    WholeRequest,
    by_group,
    by_name,
    by_transactional_id,
    partition_indexes_of,
    topic_row,
)
from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.request_order import COMMITS_OFFSETS
from kafscale.gateways.kafka.calls.transaction_errors import transaction_code_of
from kafscale.gateways.kafka.groups.group_requests import apply, require_claimed
from kafscale.groups.events import CommitOffsets, Rejected
from kafscale.metadata.keys import PendingOffset
from kafscale.model.errors import InvalidTransactionState, KafscaleError, TransactionAbortable
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.transactions.machine import Producer
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

API_KEY: Final = TxnOffsetCommitRequest.api_key
VERSIONS: Final = TxnOffsetCommitRequest.versions
ORDER: Final = COMMITS_OFFSETS
_refused_topic: Final = topic_row(
    TxnOffsetCommitResponseTopic, TxnOffsetCommitResponsePartition, partition_indexes_of
)


def _refused(call: Call, code: ErrorCode) -> TxnOffsetCommitResponse:
    rows = [_refused_topic(row, code) for row in call.message.topics]
    return TxnOffsetCommitResponse(topics=rows)


REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    WholeRequest(
        AccessOperation.WRITE, ResourceType.TRANSACTIONAL_ID, by_transactional_id, _refused
    ),
    WholeRequest(AccessOperation.READ, ResourceType.GROUP, by_group, _refused),
    EachRow(AccessOperation.READ, ResourceType.TOPIC, "topics", by_name, "topics", _refused_topic),
)
_ABORTABLE_FROM: Final = 4
_REGISTERS_FROM: Final = 5

prepare = require_claimed


def answer(call: Call) -> Answer:
    """Keep the offsets for the end of the transaction."""
    return _answer(call, _objection(call))


def _objection(call: Call) -> KafscaleError | None:
    """Why the group refuses this, if it does."""
    request: TxnOffsetCommitRequest = call.message
    is_named = request.member_id or request.generation_id >= 0 or request.group_instance_id
    if not is_named:
        return None  # the client does not say which member it is
    event = CommitOffsets(
        call=call.engine.groups.new_call(),
        generation=request.generation_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        is_transactional=True,
    )
    outcome = apply(call, event)
    return outcome.problem if isinstance(outcome, Rejected) else None


async def _answer(call: Call, objection: KafscaleError | None) -> TxnOffsetCommitResponse:
    request: TxnOffsetCommitRequest = call.message
    wishes = [
        OffsetCommit(
            topic.name,
            row.partition_index,
            row.committed_offset,
            row.committed_leader_epoch,
            row.committed_metadata or "",
        )
        for topic in request.topics
        for row in topic.partitions
    ]
    codes = iter(await _commit(call, wishes, objection))
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                topic.name,
                [
                    TxnOffsetCommitResponsePartition(row.partition_index, next(codes))
                    for row in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


async def _commit(
    call: Call, wishes: Sequence[OffsetCommit], objection: KafscaleError | None
) -> list[int]:
    """The code of each offset."""
    request: TxnOffsetCommitRequest = call.message
    try:
        if objection is not None:
            raise objection
        offsets: list[PendingOffset] = []
        codes: list[int] = []
        for wish in wishes:
            try:
                value = call.engine.offsets.value_of(wish)
            except KafscaleError as problem:
                client_errors.note(call, problem)
                codes.append(transaction_code_of(problem, knows_fencing=False))
                continue
            offsets.append(PendingOffset(wish.topic, wish.partition, value))
            codes.append(ErrorCode.NONE)
        if offsets:
            await call.engine.transactions.add_offsets(
                request.transactional_id,
                Producer(request.producer_id, request.producer_epoch),
                request.group_id,
                offsets,
                await call.engine.offsets.claim_guard(request.group_id),
                registers=call.version >= _REGISTERS_FROM,
            )
        return codes
    except KafscaleError as problem:
        if isinstance(problem, InvalidTransactionState) and call.version >= _ABORTABLE_FROM:
            problem = TransactionAbortable(str(problem))
        client_errors.note(call, problem)
        return [transaction_code_of(problem, knows_fencing=False)] * len(wishes)
