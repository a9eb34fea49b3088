"""SCRAM credentials of users, in the metadata store and at every broker.

Here: finding, listing and changing them, and the secret by which all brokers answer alike for users
that do not exist. Next door: what a credential is (access/scram.py), the
rows (watched_rows.py), the requests about them (gateways/kafka/apis).
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from kafscale.access.scram import (
    LEAST_ITERATIONS,
    MOST_ITERATIONS,
    SCRAM_MECHANISMS,
    ScramCredential,
    ScramMechanism,
    credential,
)
from kafscale.engine.access.watched_rows import WatchedRows
from kafscale.metadata import keys
from kafscale.metadata.store import Compare, MetadataStore, Put
from kafscale.model.clock import Dice
from kafscale.model.errors import (
    CorruptObject,
    MetadataConflict,
    UnacceptableCredential,
    UserNotFound,
)

MOST_NAME: Final = 249  # characters of a user's name
MOST_SALT: Final = 256  # bytes; librdkafka takes 64
DECOY_SECRET_BYTES: Final = 32


class NewCredential(NamedTuple):
    """A credential that a user shall have; the password has been stretched by the client."""

    user: str
    mechanism: ScramMechanism
    iterations: int
    salt: bytes
    salted_password: bytes


class OldCredential(NamedTuple):
    """A credential that a user shall no longer have."""

    user: str
    mechanism: ScramMechanism


class Credentials:
    """The SCRAM credentials of a fleet."""

    def __init__(self, metadata: MetadataStore) -> None:
        """Empty until `rows` are loaded."""
        self.rows: WatchedRows[ScramCredential] = WatchedRows(
            metadata, keys.SCRAM, _decode, msgspec.json.encode
        )
        self.decoy_secret = b""  # until `load_decoy_secret`
        self._metadata = metadata

    def find(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        """A user's credential, None if there is none."""
        return self.rows.rows.get(_name(mechanism, user))

    async def load_decoy_secret(self, dice: Dice) -> None:
        """Take the fleet's secret of decoys; make it, once, if there is none.

        By it every broker shows the same salt for a user that does not exist, today and after a
        restart, as it does for one that exists. Raises MetadataUnavailable.
        """
        made = msgspec.json.encode(dice.token(DECOY_SECRET_BYTES))  # rows are JSON
        entry = await self._metadata.get(keys.DECOYS)
        if entry is None:
            try:
                await self._metadata.commit([Put(keys.DECOYS, made)], [Compare(keys.DECOYS, 0)])
            except MetadataConflict:  # another broker has made it meanwhile
                entry = await self._metadata.get(keys.DECOYS)
        self.decoy_secret = made if entry is None else entry.value

    def of_user(self, user: str) -> list[tuple[ScramMechanism, ScramCredential]]:
        """All credentials of a user."""
        all_kept = [
            (mechanism, self.find(mechanism, user)) for mechanism in SCRAM_MECHANISMS.values()
        ]
        return [(mechanism, kept) for mechanism, kept in all_kept if kept is not None]

    def users(self) -> list[str]:
        """Every user who has a credential."""
        return sorted({keys.text_of(name.partition("/")[2]) for name in self.rows.rows})

    async def change(self, new: Iterable[NewCredential], old: Iterable[OldCredential]) -> None:
        """Write and remove credentials, which the caller has checked."""
        changes: dict[str, ScramCredential | None] = {
            _name(gone.mechanism, gone.user): None for gone in old
        }
        for wish in new:
            kept = credential(wish.mechanism, wish.salted_password, wish.salt, wish.iterations)
            changes[_name(wish.mechanism, wish.user)] = kept
        await self.rows.write(changes)

    async def add_first(
        self, user: str, made: Sequence[tuple[ScramMechanism, ScramCredential]]
    ) -> bool:
        """Give a user credentials, unless there are some; whether it was done."""
        if self.of_user(user):
            return False
        await self.rows.write({_name(mechanism, user): kept for mechanism, kept in made})
        return True

    def check_new(self, new: NewCredential) -> None:
        """Raise UnacceptableCredential for what must not be stored."""
        size = len(new.mechanism.digest(b""))
        if not new.user or len(new.user) > MOST_NAME:
            raise UnacceptableCredential("Username must not be empty")
        if new.iterations < LEAST_ITERATIONS:
            raise UnacceptableCredential("Too few iterations")
        if new.iterations > MOST_ITERATIONS:
            raise UnacceptableCredential("Too many iterations")
        if not 0 < len(new.salt) <= MOST_SALT:
            raise UnacceptableCredential("The salt has no usable length")
        if len(new.salted_password) != size:
            raise UnacceptableCredential("The salted password has not the length of the hash")

    def check_old(self, old: OldCredential) -> None:
        """Raise UserNotFound if there is nothing to remove."""
        if self.find(old.mechanism, old.user) is None:
            raise UserNotFound(
                "Attempt to delete a user credential that does not exist: "
                f"{old.user} has none of {old.mechanism.name}"
            )


def _name(mechanism: ScramMechanism, user: str) -> str:
    return f"{mechanism.name}/{keys.segment(user)}"


def _decode(raw: bytes) -> ScramCredential:
    try:
        return msgspec.json.decode(raw, type=ScramCredential)
    except msgspec.DecodeError as problem:
        raise CorruptObject(f"not a SCRAM credential: {problem}") from None
