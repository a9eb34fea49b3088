import pytest

from kafscale.console.entry import gate
from kafscale.console.entry.gate import PASSWORD, USERNAME, Sessions, Throttle, take_credentials
from kafscale.system import SystemDice
from kafscale.testing.clock import ManualClock

DICE = SystemDice()


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {USERNAME: "admin"},
        {PASSWORD: "secret"},
        {USERNAME: "", PASSWORD: "secret"},
        {USERNAME: "admin", PASSWORD: "  "},
    ],
)
def test_without_both_variables_there_are_no_credentials(environment: dict[str, str]) -> None:
    assert take_credentials(environment, DICE) is None


def test_both_variables_are_taken_out_of_the_environment() -> None:
    environment = {USERNAME: "admin", PASSWORD: "secret", "PATH": "/bin"}
    assert take_credentials(environment, DICE) is not None
    assert environment == {"PATH": "/bin"}


@pytest.mark.parametrize(
    ("username", "password", "fits"),
    [
        ("ädmin", "sécret", True),
        ("ädmin", "secret", False),
        ("admin", "sécret", False),
        ("", "", False),
        ("ädmin", "sécret ", False),
        ("\ud800", "sécret", False),
    ],
)
def test_user_and_password_must_both_fit(username: str, password: str, fits: bool) -> None:
    credentials = take_credentials({USERNAME: "ädmin", PASSWORD: "sécret"}, DICE)
    assert credentials is not None
    assert credentials.fit(username, password) is fits


def test_five_attempts_are_free_and_pauses_grow_to_a_minute() -> None:
    clock = ManualClock()
    throttle = Throttle(clock)
    waits = []
    for _ in range(12):
        clock.advance_ms(throttle.wait_s("1.2.3.4") * 1000)
        throttle.failed("1.2.3.4")
        waits.append(throttle.wait_s("1.2.3.4"))
    assert waits == [0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60]


def test_another_address_may_try_and_a_right_login_forgets() -> None:
    clock = ManualClock()
    throttle = Throttle(clock)
    for _ in range(9):
        throttle.failed("1.2.3.4")
    assert throttle.wait_s("1.2.3.4") == 16
    assert throttle.wait_s("5.6.7.8") == 0
    throttle.succeeded("1.2.3.4")
    assert throttle.wait_s("1.2.3.4") == 0


def test_many_failures_from_many_addresses_hold_up_every_attempt_for_a_second() -> None:
    clock = ManualClock()
    throttle = Throttle(clock)
    for number in range(gate.MANY_FAILURES):
        assert throttle.delay_s() == 0
        throttle.failed(f"10.0.0.{number}")
    assert throttle.delay_s() == 1
    clock.advance_ms(60_001)
    assert throttle.delay_s() == 0


def test_the_table_of_addresses_is_bounded() -> None:
    throttle = Throttle(ManualClock())
    for number in range(gate._MOST_ADDRESSES + 10):
        throttle.failed(str(number))
    assert len(throttle._tries) == gate._MOST_ADDRESSES


def test_a_session_ends_by_logout_by_idleness_and_by_age() -> None:
    clock = ManualClock()
    sessions = Sessions(clock, DICE)
    token = sessions.begin("admin")
    found = sessions.find(token)
    assert found is not None
    assert found.username == "admin"
    sessions.end(found.key)
    assert sessions.find(token) is None

    idle = sessions.begin("admin")
    clock.advance_ms(gate.IDLE_S * 1000 + 1)
    assert sessions.find(idle) is None

    used = sessions.begin("admin")
    for _ in range(24):
        clock.advance_ms(gate.IDLE_S * 1000 - 1)
        assert sessions.find(used) is not None
    clock.advance_ms(gate.IDLE_S * 1000 - 1)
    assert sessions.find(used) is None


def test_sessions_are_bounded_and_kept_as_digests_only() -> None:
    sessions = Sessions(ManualClock(), DICE)
    tokens = [sessions.begin("admin") for _ in range(gate.MOST_SESSIONS + 5)]
    assert len(sessions) == gate.MOST_SESSIONS
    assert sessions.find(tokens[0]) is None
    assert sessions.find(tokens[-1]) is not None
    assert not any(token.encode() in key for token in tokens for key in sessions._open)
    assert len(set(tokens)) == len(tokens)
    assert len(bytes.fromhex(tokens[0])) == 32
