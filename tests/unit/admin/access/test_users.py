"""Users that the command makes look as users that do not exist: a salt of the same length."""

import asyncio

import pytest

from kafscale.access.scram import LEAST_ITERATIONS, SCRAM_MECHANISMS, decoy
from kafscale.admin.access.users import create_user
from kafscale.admin.brokers.client import open_admin
from kafscale.testing.in_process import InProcessBroker

pytestmark = pytest.mark.real_time


async def test_salts_of_new_users_are_as_long_as_decoys_and_each_is_another() -> None:
    async with InProcessBroker() as broker:
        admin = open_admin({"bootstrap.servers": f"127.0.0.1:{broker.port}", "log_level": 0})
        for user in ("alice", "bob"):
            await asyncio.to_thread(
                create_user, admin, user, "pencil", list(SCRAM_MECHANISMS), LEAST_ITERATIONS
            )
        salts = set()
        for mechanism in SCRAM_MECHANISMS.values():
            fake = decoy(mechanism, b"secret", "ghost")
            for user in ("alice", "bob"):
                made = broker.engine.credentials.find(mechanism, user)
                assert made is not None
                assert (len(made.salt), made.iterations) == (len(fake.salt), fake.iterations)
                salts.add(made.salt)
        assert len(salts) == 4
