"""Where a broker's console will be, as the banner says it; and who gets its credentials."""

import os
import socket

import pytest

from kafscale.local import companion
from kafscale.settings.sections import ConsoleSection, ConsoleTlsSection
from kafscale.system import SystemClock

BOTH = dict.fromkeys(companion.UI_VARIABLES, "x")


@pytest.fixture
def usual_port(monkeypatch: pytest.MonkeyPatch) -> socket.socket:
    """A socket that has the port which consoles usually take."""
    held = socket.socket()
    held.bind(("127.0.0.1", 0))
    held.listen()
    monkeypatch.setattr(companion, "USUAL_PORT", held.getsockname()[1])
    return held


def test_a_taken_usual_port_is_a_line_and_no_console(usual_port: socket.socket) -> None:
    number = usual_port.getsockname()[1]
    assert companion.address(ConsoleSection(), BOTH) == (
        None,
        f"port {number} is taken; KAFSCALE_CONSOLE_PORT chooses another",
    )
    usual_port.close()
    assert companion.address(ConsoleSection(), BOTH) == (number, f"http://127.0.0.1:{number}")


def test_a_port_that_was_chosen_is_tried_again_until_it_is_free(usual_port: socket.socket) -> None:
    number = usual_port.getsockname()[1]
    assert companion.address(ConsoleSection(port=number), BOTH)[0] == number
    usual_port.close()


@pytest.mark.parametrize("missing", companion.UI_VARIABLES)
def test_without_both_variables_the_line_says_which_to_set(missing: str) -> None:
    port, note = companion.address(ConsoleSection(port=8181), BOTH | {missing: " "})
    assert (port, note) == (
        8181,
        "http://127.0.0.1:8181 (disabled: set KAFSCALE_UI_USERNAME and KAFSCALE_UI_PASSWORD)",
    )


def test_addresses_are_written_as_browsers_want_them() -> None:
    tls = ConsoleTlsSection(cert_file="cert.pem", key_file="key.pem")
    section = ConsoleSection(host="::1", port=8443, tls=tls)
    assert companion.address(section, BOTH)[1] == "https://[::1]:8443"


def test_the_broker_keeps_no_credentials_that_another_child_could_see(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in companion.UI_VARIABLES:
        monkeypatch.setenv(name, "secret")
    companion.Companion(ConsoleSection(port=8181), {}, SystemClock())
    assert companion.without_credentials(os.environ) == dict(os.environ)
