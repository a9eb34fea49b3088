"""Codes in answers about transactions, which differ by API and version.

Next door: the codes of everything else (errors.py), who answers (apis/).
"""

from typing import Final

from kafscale.gateways.kafka.calls.errors import code_of, coordinator_code_of
from kafscale.model.errors import (
    KafscaleError,
    MetadataConflict,
    MetadataUnavailable,
    ProducerFenced,
    TransactionPending,
)
from kafscale.wire.kafka.errors import ErrorCode

_RETRIED: Final = ErrorCode.NOT_ENOUGH_REPLICAS  # producers do so, and ask for no new metadata


def transaction_code_of(problem: KafscaleError, *, knows_fencing: bool) -> ErrorCode:
    """The code of an answer to a request about a transactional id.

    `knows_fencing`: the version of the API has the code PRODUCER_FENCED.
    """
    if isinstance(problem, ProducerFenced) and not knows_fencing:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return coordinator_code_of(problem)


def produce_code_of(problem: KafscaleError, *, knows_waiting: bool) -> ErrorCode:
    """The code of a batch that is not stored.

    `knows_waiting`: the client tries again after CONCURRENT_TRANSACTIONS.
    """
    if isinstance(problem, ProducerFenced):
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if isinstance(problem, TransactionPending) and not knows_waiting:
        return _RETRIED
    if isinstance(problem, MetadataUnavailable | MetadataConflict):
        return _RETRIED
    return code_of(problem)
