"""The log protocol of docs/formats/log-protocol.md, searched state by state."""

from tests.model import safety
from tests.model.search import search
from tests.model.state import Bounds, Rules

OLD_MANIFEST_COMES_BACK = Bounds(
    records=2, rolled=1, writers=1, opened=(0,), generations=2, jobs=("compact",), grace=1
)


def test_a_manifest_object_of_age_g_does_not_prove_that_its_end_was_ever_true() -> None:
    found = search(Rules(flushes="any old manifest"), OLD_MANIFEST_COMES_BACK)
    print(found)
    assert found.violation == safety.LOST
