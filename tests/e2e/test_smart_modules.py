"""SmartModules that Rust has built from Fluvio's own crate, sent by Fluvio's client of PyPI."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from tests.e2e.conftest import AGAINST
from tests.support.cargo import BUILD_AND_TEST_S
from tests.support.fluvio_clients import FluvioBroker, FluvioClient, python_client
from tests.support.maven import Unavailable
from tests.support.smart_modules import smart_module

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(BUILD_AND_TEST_S),
    pytest.mark.skipif(AGAINST == "apache", reason="Apache Kafka does not speak Fluvio"),
]
WORDS = ("apple", "berry", "date", "plum", "pear")
NUMBERS = ("1", "2", "3", "4")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FluvioBroker]:
    try:
        smart_module("filter")
    except Unavailable as reason:
        pytest.skip(str(reason))
    with FluvioBroker(tmp_path_factory.mktemp("smart-modules")) as started:
        for topic, values in {
            "words": WORDS,
            "numbers": NUMBERS,
            "mixed": (*NUMBERS, "no number", "6"),
            "sentences": ("two words", "three small words"),
        }.items():
            producer = Producer({"bootstrap.servers": started.bootstrap})
            for value in values:
                producer.produce(topic, value.encode(), key=b"k")
            assert producer.flush(60) == 0
        yield started


@pytest.fixture(scope="module")
def client() -> FluvioClient:
    try:
        return python_client()
    except Unavailable as reason:
        pytest.skip(str(reason))


def through(
    broker: FluvioBroker, client: FluvioClient, topic: str, count: int, *modules: str
) -> list[tuple[int, str]]:
    """Offsets and values of what comes through modules, each NAME or NAME,PARAMETER=VALUE."""
    words = []
    for one in modules:
        name, _, parameters = one.partition(",")
        words.append(f"{smart_module(name)},{parameters}")
    lines = client.run(broker.control, "read-through", topic, str(count), *words)
    return [(line.get("offset", -1), line.get("value", line.get("error"))) for line in lines]


def test_a_filter_leaves_out_records_and_the_others_keep_their_offsets(
    broker: FluvioBroker, client: FluvioClient
) -> None:
    kept = [(0, "apple"), (2, "date"), (4, "pear")]
    assert through(broker, client, "words", 3, "filter") == kept


def test_a_module_is_given_its_parameters(broker: FluvioBroker, client: FluvioClient) -> None:
    assert through(broker, client, "words", 1, "filter-init,word=rr") == [(1, "berry")]
    ((_, refused),) = through(broker, client, "words", 1, "filter-init")
    assert "word" in refused


def test_a_map_sees_offset_and_time(broker: FluvioBroker, client: FluvioClient) -> None:
    rows = through(broker, client, "words", 5, "map")
    assert rows == [(n, f"{n} true {word.upper()}") for n, word in enumerate(WORDS)]


def test_modules_follow_each_other(broker: FluvioBroker, client: FluvioClient) -> None:
    rows = through(broker, client, "words", 3, "filter", "map")
    assert rows == [(0, "0 true APPLE"), (2, "2 true DATE"), (4, "4 true PEAR")]


def test_a_filter_map_does_both_and_names_the_record_that_it_cannot_take(
    broker: FluvioBroker, client: FluvioClient
) -> None:
    assert through(broker, client, "numbers", 2, "filter-map") == [(1, "1"), (3, "2")]
    *rows, (_, problem) = through(broker, client, "mixed", 3, "filter-map")
    assert rows == [(1, "1"), (3, "2")]
    assert "invalid digit" in problem
    assert "Offset: 4" in problem


def test_an_array_map_makes_several_records_of_one(
    broker: FluvioBroker, client: FluvioClient
) -> None:
    rows = through(broker, client, "sentences", 5, "array-map")
    assert [value for _, value in rows] == ["two", "words", "three", "small", "words"]


def test_an_aggregate_goes_on_from_its_last_value(
    broker: FluvioBroker, client: FluvioClient
) -> None:
    rows = through(broker, client, "numbers", 4, "aggregate")
    assert [value for _, value in rows] == ["1", "3", "6", "10"]
