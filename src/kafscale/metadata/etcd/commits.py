"""Transactions that happen once, however often they are sent.

Here: the answer to a transaction may be lost, and the client sends it again; an etcd member may
hang and carry out a transaction much later. So every transaction also writes a key that only this
process uses, its witness. etcd carries it out only if the witness has not been written since the
transaction before. At most one attempt succeeds, and the witness says afterwards whether one did.

    done        the witness holds the transaction's number
    not done    the witness is as before: it is written, and no attempt can succeed any more
    unknown     the witness is gone with its lease, or etcd does not answer: MetadataUnavailable

A transaction whose caller was cancelled is settled like this before the next one is sent, so that
it cannot overwrite what comes after it.
Next door: how often a request is sent (client.py). Never here: what is written.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import grpc

from kafscale.metadata import keys
from kafscale.metadata.etcd import messages
from kafscale.metadata.etcd.client import EtcdClient, EtcdRefused
from kafscale.metadata.lease import Lease
from kafscale.metadata.store import Compare, Put, Remove
from kafscale.model.errors import MetadataConflict, MetadataUnavailable

_MOST_AT_ONCE: Final = 32
_LEASE_S: Final = 60.0  # longer than any pause of etcd that is worth waiting for
_NEW: Final = b"new"
_SETTLED: Final = b"settled"


@dataclass(slots=True)
class _Witness:
    """A key that only this process writes, one transaction at a time.

    `revision` is when it was last written.
    """

    key: bytes
    revision: int
    lease: Lease
    number: bytes = b""


class Commits:
    """`grant` gives a lease that lasts as long as this process does."""

    def __init__(
        self, client: EtcdClient, prefix: str, grant: Callable[[float], Awaitable[Lease]]
    ) -> None:
        self._client = client
        self._prefix = prefix
        self._grant = grant
        self._lease: Lease | None = None
        self._leasing = asyncio.Lock()
        self._settling = asyncio.Lock()
        self._turns = asyncio.Semaphore(_MOST_AT_ONCE)
        self._idle: list[_Witness] = []
        self._unsettled: list[_Witness] = []
        self._count = 0

    async def commit(self, writes: Sequence[Put | Remove], guards: Sequence[Compare]) -> int:
        """Compare and write; gives the revision. Raises MetadataConflict, MetadataUnavailable."""
        async with self._turns:
            await self._settle_all()
            while True:
                witness = await self._witness()
                try:
                    revision = await self._send(witness, writes, guards)
                except MetadataConflict:
                    self._idle.append(witness)
                    raise
                except BaseException:  # cancelled, too: the outcome is not known
                    self._unsettled.append(witness)
                    raise
                if revision is not None:
                    witness.revision = revision
                    self._idle.append(witness)
                    return revision

    async def aclose(self) -> None:
        """Remove the witnesses."""
        if self._lease is not None:
            await self._lease.revoke()

    async def _send(
        self, witness: _Witness, writes: Sequence[Put | Remove], guards: Sequence[Compare]
    ) -> int | None:
        """The revision, or None when the witness was gone and nothing has happened."""
        witness.number = self._next_number()
        request = self._transaction(witness, writes, guards)
        try:
            answer, in_doubt = await self._client.ask(messages.TXN, request)
        except EtcdRefused as refused:
            if refused.in_doubt and (revision := await self._settle(witness)) is not None:
                return revision
            if refused.code is grpc.StatusCode.NOT_FOUND:
                raise MetadataConflict("a lease that keys were written under is lost") from refused
            raise
        if answer.succeeded:
            return int(answer.header.revision)
        found = next(iter(answer.responses[0].range.kvs), None)
        if found is not None and found.value == witness.number:
            return int(found.mod_revision)
        if in_doubt:
            if (revision := await self._settle(witness)) is not None:
                return revision
        elif found is None or found.mod_revision != witness.revision:
            return None
        raise MetadataConflict(_reason(guards, answer.responses[1:]))

    async def _settle(self, witness: _Witness) -> int | None:
        """Make sure that nothing sent under the witness happens from now on.

        Gives the revision if it has happened, None if it has not.
        """
        request = messages.TxnRequest(
            compare=[messages.unchanged(witness.key, witness.revision)],
            success=[_put_witness(witness.key, _SETTLED)],
            failure=[_read(witness.key)],
        )
        answer = await self._client.call(messages.TXN, request)
        if answer.succeeded:
            witness.revision = int(answer.header.revision)
            return None
        found = next(iter(answer.responses[0].range.kvs), None)
        if found is None:
            raise _WitnessGone("etcd was away for so long that the outcome is not known")
        witness.revision = int(found.mod_revision)
        return witness.revision if found.value == witness.number else None

    async def _settle_all(self) -> None:
        if not self._unsettled:
            return
        async with self._settling:
            while self._unsettled:
                witness = self._unsettled[0]
                try:
                    await self._settle(witness)
                    self._idle.append(witness)
                except _WitnessGone:
                    pass  # no transaction can succeed under it any more: that is settled, too
                self._unsettled.remove(witness)

    async def _witness(self) -> _Witness:
        while self._idle:
            witness = self._idle.pop()
            if witness.lease.remaining_s() > 0:
                return witness
        try:
            return await self._new_witness()
        except EtcdRefused as refused:
            if refused.code is not grpc.StatusCode.NOT_FOUND:
                raise
            # The lease is gone before its time: it was revoked, or etcd was restored.
            self._lease = None
            return await self._new_witness()

    async def _new_witness(self) -> _Witness:
        async with self._leasing:
            if self._lease is None or self._lease.remaining_s() <= 0:
                self._lease = await self._grant(_LEASE_S)
            lease = self._lease
        name = f"{keys.WRITERS}{lease.id:x}/".encode() + self._next_number()
        put = messages.PutRequest(key=name, value=_NEW, lease=lease.id)
        request = messages.TxnRequest(
            # Sent twice it is found the second time, not written anew.
            compare=[messages.unchanged(name, 0)],
            success=[messages.Operation(put=put)],
            failure=[_read(name)],
        )
        answer = await self._client.call(messages.TXN, request)
        if answer.succeeded:
            return _Witness(name, int(answer.header.revision), lease)
        return _Witness(name, int(answer.responses[0].range.kvs[0].mod_revision), lease)

    def _transaction(
        self, witness: _Witness, writes: Sequence[Put | Remove], guards: Sequence[Compare]
    ) -> Any:
        return messages.TxnRequest(
            compare=[
                messages.unchanged(witness.key, witness.revision),
                *(messages.unchanged(self._name(guard.key), guard.version) for guard in guards),
            ],
            success=[
                *(self._operation(write) for write in writes),
                _put_witness(witness.key, witness.number),
            ],
            failure=[_read(witness.key), *(_read(self._name(guard.key)) for guard in guards)],
        )

    def _operation(self, write: Put | Remove) -> Any:
        match write:
            case Put(key, value, lease):
                put = messages.PutRequest(key=self._name(key), value=value, lease=lease or 0)
                return messages.Operation(put=put)
            case Remove(key):
                return messages.Operation(delete=messages.DeleteRequest(key=self._name(key)))

    def _name(self, key: str) -> bytes:
        return (self._prefix + key).encode()

    def _next_number(self) -> bytes:
        self._count += 1
        return b"%d" % self._count


class _WitnessGone(MetadataUnavailable):
    """Nothing can be done under it any more; whether something was is not known."""


def _put_witness(key: bytes, value: bytes) -> Any:
    return messages.Operation(put=messages.PutRequest(key=key, value=value, ignore_lease=True))


def _read(key: bytes) -> Any:
    return messages.Operation(range=messages.RangeRequest(key=key))


def _reason(guards: Sequence[Compare], found: Sequence[Any]) -> str:
    for guard, outcome in zip(guards, found, strict=True):
        version = outcome.range.kvs[0].mod_revision if outcome.range.kvs else 0
        if version != guard.version:
            return f"{guard.key} is at version {version}, not at {guard.version}"
    return "a compared key has changed"
