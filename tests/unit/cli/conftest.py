"""Commands are run inside the test's process here, which goes on afterwards."""

import pytest


@pytest.fixture(autouse=True)
def logging_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loggers keep the output they first wrote to: that of one test must not be all others'."""
    monkeypatch.setattr("kafscale.broker.operating.log_output.configure", lambda *_: None)
