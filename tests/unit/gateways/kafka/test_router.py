"""The version matrix in docs/protocols/kafka.md is read off the router.

Written anew by `python -m tests.unit.gateways.kafka.test_router`.
"""

from pathlib import Path

import pytest

from kafscale.gateways.kafka import router
from kafscale.gateways.kafka.calls.call import Handler
from kafscale.wire.kafka.catalog import BY_KEY

PAGE = Path(__file__).parents[4] / "docs/protocols/kafka.md"
BEGIN, END = "<!-- matrix: written from the code -->\n", "<!-- end of matrix -->"


def _row(api: Handler) -> str:
    known = BY_KEY[api.API_KEY]
    versions = f"{api.VERSIONS[0]}-{api.VERSIONS[-1]}"
    flexible = next((str(v) for v in api.VERSIONS if known.flexible(v)), "")
    return f"| {known.name} | {api.API_KEY} | {versions} | {flexible} |\n"


def matrix() -> str:
    """The table, one line per API, by number."""
    rows = sorted(router.APIS, key=lambda api: api.API_KEY)
    head = "| API | key | versions | flexible from |\n|---|---|---|---|\n"
    return head + "".join(map(_row, rows))


def test_the_page_about_kafka_shows_the_versions_of_the_code() -> None:
    text = PAGE.read_text()
    shown = text[text.index(BEGIN) + len(BEGIN) : text.index(END)]
    assert shown == matrix(), (
        "run `.venv/bin/python -m tests.unit.gateways.kafka.test_router` and look at the result"
    )


@pytest.mark.parametrize("api", router.APIS, ids=lambda api: BY_KEY[api.API_KEY].name)
def test_the_codec_knows_every_version_that_is_offered(api: Handler) -> None:
    assert set(api.VERSIONS) <= set(BY_KEY[api.API_KEY].versions)


def write() -> None:
    """Put the table of today into the page."""
    text = PAGE.read_text()
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    PAGE.write_text(text[:begin] + matrix() + text[end:])


if __name__ == "__main__":
    write()
