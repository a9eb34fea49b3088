"""The frames that are written most often, written by hand: the same bytes as from the tables."""

from hypothesis import given
from hypothesis import strategies as st

from kafscale.wire.pulsar.frame import write_command, write_delivery, write_receipt
from kafscale.wire.pulsar.messages.commands import Delivery, MessageIdData, SendReceipt

numbers = st.integers(0, 2**63 - 1)


@given(numbers, numbers, numbers, numbers)
def test_a_receipt(producer_id: int, sequence_id: int, ledger: int, entry: int) -> None:
    receipt = SendReceipt(
        producer_id=producer_id,
        sequence_id=sequence_id,
        message_id=MessageIdData(ledger_id=ledger, entry_id=entry),
        highest_sequence_id=0,
    )
    assert write_receipt(producer_id, sequence_id, ledger, entry) == write_command(receipt)


@given(numbers, numbers, numbers, st.integers(0, 2**24))
def test_a_delivery(consumer_id: int, ledger: int, entry: int, behind: int) -> None:
    message_id = MessageIdData(ledger_id=ledger, entry_id=entry)
    delivery = Delivery(consumer_id=consumer_id, message_id=message_id)
    whole = write_command(delivery, behind=behind)
    assert write_delivery(consumer_id, ledger, entry, behind=behind) == whole
