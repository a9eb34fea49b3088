"""Users and tokens of two brokers on one etcd: a login at one is a login at the other."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from kafscale.access.delegation_tokens import password_of
from kafscale.access.scram import SCRAM_MECHANISMS, SCRAM_SHA_256
from kafscale.engine.access.authentication import Authentication, ClientIdentity
from kafscale.engine.access.credentials import (
    DECOY_SECRET_BYTES,
    Credentials,
    NewCredential,
    OldCredential,
)
from kafscale.engine.access.tokens import Tokens
from kafscale.metadata import keys
from kafscale.metadata.store import Remove
from kafscale.model.errors import AuthenticationFailed, MetadataUnavailable
from kafscale.model.security.access import Principal
from kafscale.testing.clock import ManualClock, SeededDice
from kafscale.testing.simulated.metadata import SimulatedEtcd, SimulatedMetadataStore
from tests.unit.access.test_scram import final_message

ALICE = Principal("User", "alice")
SALT = b"0123456789abcdef"
BY_TOKEN = ",tokenauth=true"


class OneBroker:
    """How one broker of several knows its clients."""

    def __init__(self, etcd: SimulatedEtcd, number: int) -> None:
        self.clock = ManualClock()
        self.dice = dice = SeededDice(number)
        self.line = SimulatedMetadataStore(etcd, self.clock)
        self.credentials = Credentials(self.line)
        self.tokens = Tokens(self.line, self.clock, dice, b"a secret of all brokers")
        self.authentication = Authentication(self.clock, dice, self.credentials, self.tokens)

    async def run(self) -> None:
        await self.credentials.load_decoy_secret(self.dice)
        await asyncio.gather(self.credentials.rows.run(), self.tokens.rows.run())

    async def add(self, user: str, password: str) -> None:
        stretched = SCRAM_SHA_256.salted_password(password.encode(), SALT, 4096)
        new = NewCredential(user, SCRAM_SHA_256, 4096, SALT, stretched)
        self.credentials.check_new(new)
        await self.credentials.change([new], [])

    async def remove(self, user: str) -> None:
        await self.credentials.change([], [OldCredential(user, SCRAM_SHA_256)])

    async def first_answer(self, user: str, extension: str = "") -> bytes:
        """What the broker says to a client that names a user."""
        talk = self.authentication.begin("SCRAM-SHA-256")
        return (await talk.step(f"n,,n={user},r=nonce{extension}".encode())).message

    async def log_in(self, user: str, password: str, extension: str = "") -> ClientIdentity:
        talk = self.authentication.begin("SCRAM-SHA-256")
        first = f"n,,n={user},r=nonce{extension}".encode()
        answer = (await talk.step(first)).message
        mechanism = SCRAM_MECHANISMS["SCRAM-SHA-256"]
        reply = await talk.step(final_message(mechanism, first, answer, password))
        assert reply.identity is not None
        return reply.identity


def salt_in(answer: bytes) -> bytes:
    return answer.partition(b",s=")[2]


@pytest.fixture
async def two() -> AsyncIterator[list[OneBroker]]:
    etcd = SimulatedEtcd()
    brokers = [OneBroker(etcd, number) for number in range(2)]
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(broker.run()) for broker in brokers]
        await asyncio.sleep(1)
        yield brokers
        for task in running:
            task.cancel()


async def refused(broker: OneBroker, user: str, password: str, extension: str = "") -> bool:
    with pytest.raises(AuthenticationFailed):
        await broker.log_in(user, password, extension)
    return True


async def test_a_user_made_at_one_broker_logs_in_at_the_other(two: list[OneBroker]) -> None:
    one, other = two
    await one.add("alice", "pencil")
    await asyncio.sleep(1)
    for broker in two:
        assert (await broker.log_in("alice", "pencil")).principal == ALICE
        assert await refused(broker, "alice", "pen")
    await other.add("alice", "pen")  # another password
    await asyncio.sleep(1)
    for broker in two:
        assert (await broker.log_in("alice", "pen")).principal == ALICE
        assert await refused(broker, "alice", "pencil")


async def test_a_removed_user_is_refused_everywhere(two: list[OneBroker]) -> None:
    one, other = two
    await one.add("alice", "pencil")
    await asyncio.sleep(1)
    await other.remove("alice")
    assert await refused(other, "alice", "pencil")  # at once
    await asyncio.sleep(1)
    assert await refused(one, "alice", "pencil")


async def test_the_last_known_users_and_tokens_hold_while_the_store_is_away(
    two: list[OneBroker],
) -> None:
    one, other = two
    await one.add("alice", "pencil")
    token = await one.tokens.create(ALICE, ALICE, [], -1)
    password = password_of(one.tokens.hmac_of(token))
    await asyncio.sleep(1)
    other.line.is_cut = True
    await one.remove("alice")
    await one.add("bob", "ink")
    await one.tokens.expire(one.tokens.hmac_of(token), ALICE, -1)
    await asyncio.sleep(60)
    assert (await other.log_in("alice", "pencil")).principal == ALICE
    assert (await other.log_in(token.token_id, password, BY_TOKEN)).principal == ALICE
    assert await refused(other, "alice", "pen")  # last known, never open
    assert await refused(other, "bob", "ink")
    with pytest.raises(MetadataUnavailable):
        await other.add("carol", "chalk")
    assert await refused(other, "carol", "chalk")
    other.line.is_cut = False
    await asyncio.sleep(10)
    assert (await other.log_in("bob", "ink")).principal == Principal("User", "bob")
    assert await refused(other, "alice", "pencil")
    assert await refused(other, token.token_id, password, BY_TOKEN)


async def test_a_token_made_at_one_broker_is_good_at_the_other_until_it_ends(
    two: list[OneBroker],
) -> None:
    one, other = two
    token = await one.tokens.create(ALICE, ALICE, [], -1)
    password = password_of(one.tokens.hmac_of(token))
    await asyncio.sleep(1)
    found = await other.log_in(token.token_id, password, BY_TOKEN)
    assert found == (ALICE, token.expires_ms, True)
    assert await refused(other, token.token_id, password)  # no user has this name
    await other.tokens.expire(other.tokens.hmac_of(token), ALICE, -1)
    assert await refused(other, token.token_id, password, BY_TOKEN)
    await asyncio.sleep(1)
    assert await refused(one, token.token_id, password, BY_TOKEN)

    late = await one.tokens.create(ALICE, ALICE, [], 60_000)
    await asyncio.sleep(1)
    password = password_of(one.tokens.hmac_of(late))
    other.line.is_cut = True  # it ends by the clock, whether or not a broker is told
    other.clock.advance_ms(60_001)
    assert await refused(other, late.token_id, password, BY_TOKEN)


async def test_brokers_answer_alike_for_a_user_that_does_not_exist(two: list[OneBroker]) -> None:
    one, other = two
    shown = [salt_in(await broker.first_answer("ghost")) for broker in (one, other, one)]
    assert len(set(shown)) == 1
    assert salt_in(await one.first_answer("ghoul")) != shown[0]

    other.line.is_cut = True
    assert salt_in(await other.first_answer("ghost")) == shown[0]
    other.line.is_cut = False
    again = OneBroker(one.line._etcd, 7)  # after a restart
    await again.credentials.load_decoy_secret(again.dice)
    assert salt_in(await again.first_answer("ghost")) == shown[0]

    await one.add("alice", "pencil")
    for user in ("alice", "ghost"):
        prefix, _, salt = (await one.first_answer(user)).partition(b",s=")
        assert prefix.startswith(b"r=nonce")
        assert len(salt) == len(shown[0])  # as long, and of as many iterations


async def test_brokers_that_start_at_once_make_one_secret() -> None:
    etcd = SimulatedEtcd()
    etcd.faults.latency_s = 0.01
    brokers = [OneBroker(etcd, number) for number in range(5)]
    await asyncio.gather(*(one.credentials.load_decoy_secret(one.dice) for one in brokers))
    secrets = {one.credentials.decoy_secret for one in brokers}
    assert secrets == {etcd.list(keys.DECOYS).entries[0].value}
    secret = msgspec.json.decode(secrets.pop(), type=bytes)
    assert len(secret) == DECOY_SECRET_BYTES


async def test_without_the_secret_no_client_gets_in_and_no_salt_can_be_foretold(
    two: list[OneBroker],
) -> None:
    etcd = SimulatedEtcd()
    one, other = OneBroker(etcd, 1), OneBroker(etcd, 2)  # neither has loaded it
    assert one.credentials.decoy_secret == b""
    assert salt_in(await one.first_answer("ghost")) != salt_in(await other.first_answer("ghost"))
    assert await refused(one, "ghost", "")
    etcd_of_two = two[0].line._etcd
    etcd_of_two.commit([Remove(keys.DECOYS)], [])
    await asyncio.sleep(1)
    assert await refused(two[0], "ghost", "")  # the secret that was loaded goes on
    one.line.is_cut = True
    with pytest.raises(MetadataUnavailable):
        await one.credentials.load_decoy_secret(one.dice)
