"""The matrix in docs/protocols/fluvio.md is read off the two ports."""

from pathlib import Path

from kafscale.gateways.fluvio.control.session import ControlSession
from kafscale.gateways.fluvio.data.session import DataSession

PAGE = Path(__file__).parents[4] / "docs/protocols/fluvio.md"


def test_the_page_lists_the_versions_that_are_offered() -> None:
    text = PAGE.read_text("utf-8")
    _, _, rest = text.partition("<!-- matrix: written from the code -->\n")
    matrix, _, _ = rest.partition("<!-- end of matrix -->")
    rows = [
        f"| {api.name} | {port} | {key} | {api.versions[0]}-{api.versions[-1]} |"
        for port, session in (("control", ControlSession), ("data", DataSession))
        for key, api in session.apis.items()
    ]
    assert matrix.splitlines()[2:] == rows
