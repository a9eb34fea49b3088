"""Every message in every version, as parameters of tests."""

import pytest

from kafscale.wire.kafka.catalog import APIS
from kafscale.wire.kafka.schema import Message
from tests.fuzz.samples import kinds

_ENDS = {
    (api.request.api_key, end) for api in APIS for end in (min(api.versions), max(api.versions))
}


def _unless_at_an_end(kind: type[Message], version: int) -> tuple[pytest.MarkDecorator, ...]:
    return () if (kind.api_key, version) in _ENDS else (pytest.mark.slow,)


def _is_in_kafka_python(kind: type[Message]) -> bool:
    """It ships no schemas of these; kio has them (test_against_kio.py)."""
    return not any(name in kind.__name__ for name in ("DelegationToken", "ConsumerGroup", "Share"))


EVERY_VERSION = [pytest.param(k, v, id=f"{k.__name__}-{v}") for k, v in kinds()]
# For what hardly depends on the version: those in between are left to `make test`.
FIRST_AND_LAST = [
    pytest.param(k, v, id=f"{k.__name__}-{v}", marks=_unless_at_an_end(k, v)) for k, v in kinds()
]
EVERY_VERSION_OF_KAFKA_PYTHON, FIRST_AND_LAST_OF_KAFKA_PYTHON = (
    [one for one in cases if _is_in_kafka_python(one.values[0])]
    for cases in (EVERY_VERSION, FIRST_AND_LAST)
)
