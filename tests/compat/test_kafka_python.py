"""kafka-python's own integration tests pass: all that are listed, and no test we do not know of."""

import pytest

from tests.compat import kafka_python
from tests.compat.cases import lines
from tests.support.broker import KafscaleProcess
from tests.support.maven import Unavailable


class PatientBroker(KafscaleProcess):
    """As kafka-python sets its brokers up: four partitions, an authorizer, impatient groups."""

    settings = (
        "consumer.minSessionTimeoutMs=1000",
        "authorization.enabled=true",
        "authorization.superUsers=User:ANONYMOUS",
    )

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "KAFSCALE_AUTO_CREATE_PARTITIONS": "4"}


@pytest.mark.slow
@pytest.mark.timeout(kafka_python.DEADLINE_S)
def test_the_listed_tests_of_kafka_python_pass() -> None:
    listed = lines("kafka_python.txt")
    try:
        kafka_python.tests()
    except Unavailable as reason:
        pytest.skip(str(reason))
    with PatientBroker() as broker:
        outcomes = kafka_python.run(broker)
        failed = [name for name in listed if outcomes.get(name) != "passed"]
        if failed:  # once more, alone
            outcomes |= kafka_python.run(broker, *failed)
    left = {name: outcomes.get(name, "missing") for name in listed}
    assert {name: outcome for name, outcome in left.items() if outcome != "passed"} == {}
