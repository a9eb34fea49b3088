"""The row of a transactional id, as the metadata store has it.

Here: plain data, and the states by their names in Kafka's own tools.
Next door: which transitions there are (machine.py).
"""

from enum import Enum
from typing import Final

import msgspec

LAST_EPOCH: Final = 32766  # after it the id gets another producer id; 32767 is for its markers
NO_EPOCH: Final = -1
TRANSACTION_VERSION: Final = 2  # of Kafka's feature transaction.version: an epoch for each
NO_PRODUCER: Final = -1


class TransactionState(Enum):
    """The life of a transaction."""

    EMPTY = "Empty"  # the id has had none yet, or a new instance has taken it over
    ONGOING = "Ongoing"
    STAGED = "Staged"  # to be committed if the logs have kept its records; not decided
    COMMITTING = "PrepareCommit"  # decided; some partitions may lack their marker
    ABORTING = "PrepareAbort"
    COMMITTED = "CompleteCommit"  # every partition has its marker
    ABORTED = "CompleteAbort"


# Being ended: nothing can be added any more.
ENDING: Final = frozenset(
    {TransactionState.STAGED, TransactionState.COMMITTING, TransactionState.ABORTING}
)
AT_REST: Final = frozenset(
    {TransactionState.EMPTY, TransactionState.COMMITTED, TransactionState.ABORTED}
)


class Transaction(msgspec.Struct, frozen=True, kw_only=True):
    """A transactional id: its producer, and its present or last transaction."""

    producer_id: int
    epoch: int
    last_epoch: int = NO_EPOCH  # the one before, as long as its owner may ask again
    previous_id: int = NO_PRODUCER  # before the last change of the producer id
    next_id: int = NO_PRODUCER  # of the next transaction, if the epochs are used up
    timeout_ms: int
    state: TransactionState
    turn: int = 0  # counts the transactions of this id
    ended_epoch: int = NO_EPOCH  # of the records of the transaction that was decided last
    marker_epoch: int = NO_EPOCH  # of its markers
    started_ms: int = -1
    updated_ms: int
    groups: list[str] = []  # that it commits offsets of
    log: str = ""  # where all of a staged transaction lies; "": in several logs
    is_lost: bool = False  # aborted because a broker has lost records that it held in memory

    @property
    def is_commit(self) -> bool:
        """Whether the decision, if there is one, is to commit; for a staged one, the wish."""
        return self.state in (
            TransactionState.STAGED,
            TransactionState.COMMITTING,
            TransactionState.COMMITTED,
        )

    @property
    def state_name(self) -> str:
        """The state as Kafka's own tools know it."""
        is_staged = self.state is TransactionState.STAGED
        shown = TransactionState.COMMITTING if is_staged else self.state
        return str(shown.value)

    @property
    def deadline_ms(self) -> int:
        """When an ongoing transaction is aborted."""
        return self.started_ms + self.timeout_ms


class SessionsRow(msgspec.Struct, frozen=True, kw_only=True):
    """Openings of logs in whose memory records of a transaction wait, or waited, for its commit."""

    sessions: list[tuple[str, str]]  # folder of the log, token of its opening
    turn: int
