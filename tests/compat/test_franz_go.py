"""franz-go's own tests of SCRAM and TLS pass, where `make compat` has built them."""

from pathlib import Path

import pytest

from tests.compat import franz_go
from tests.support.maven import Unavailable
from tests.support.secured import SecuredProcess


@pytest.mark.slow
def test_the_listed_tests_pass(tmp_path: Path) -> None:
    try:
        franz_go.program()
    except Unavailable as reason:
        pytest.skip(str(reason))
    with SecuredProcess(tmp_path / "broker") as broker:
        outcomes, said = franz_go.run(broker)
    assert {name: one for name, one in outcomes.items() if one != "PASS"} == {}, said[-6000:]
