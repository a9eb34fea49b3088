"""One broker for all rows of the table: what one leaves behind, the next would notice."""

from collections.abc import Iterator

import pytest

from tests.bad_input import payloads
from tests.bad_input.attacked_broker import Victim
from tests.support import wire


@pytest.fixture(scope="session")
def _broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    victim = Victim(tmp_path_factory.mktemp("victim"))
    with victim.process:
        victim.process.restart()  # the first life has leader epoch 0: older ones need a second
        sock = victim.connect()
        for name in ("t", "reads", "shared"):
            configs = {"storage.placement": "shared"} if name == "shared" else {}
            wish = payloads.create_body(name, configs=configs)
            body = victim.ask(sock, wire.frame(payloads.CREATE_TOPICS, 1, 1, wish))
            assert payloads.created(body)[0] == 0
        # Allocators and codecs have their working memory before anything is measured.
        for number in range(3):
            answer = victim.ask(
                sock, wire.produce("t", 0, payloads.good(b"x" * 900_000), -1, number)
            )
            assert wire.produce_error(answer)[0] == 0
        yield victim


@pytest.fixture
def victim(_broker: Victim) -> Iterator[Victim]:
    yield _broker
    _broker.close_connections()
