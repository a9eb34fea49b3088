"""The page for operators answers before the broker has started."""

from kafscale.broker.starting_page import StartingPage


async def test_a_starting_broker_lives_and_is_not_ready() -> None:
    page = StartingPage()
    assert await page.checks() == {"start": "the broker is starting"}
    assert await page.metrics() == b""
