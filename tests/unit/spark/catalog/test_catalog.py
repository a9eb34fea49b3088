"""The REST catalog, asked by pyiceberg's own client and by bare HTTP."""

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError, UnauthorizedError

from kafscale.spark.catalog.server import CatalogServer
from kafscale.spark.catalog.topic_tables import IcebergTopics
from tests.unit.spark.runner.test_runner import JSON, Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path / "objects")
    orders = made.topic("orders", table_format="iceberg", **JSON)
    orders.flush(0, [b'{"id":1,"name":"tea"}', b'{"id":2}', b"bad"])
    made.topic("empty", table_format="iceberg")
    made.topic("plain").flush(0, [b"x"])
    made.run_once()
    return made


@pytest.fixture
def server(place: Place) -> Iterator[CatalogServer]:
    assert place.bucket is not None
    made = CatalogServer(IcebergTopics(place.bucket), "127.0.0.1", 0, ["secret", "other"])
    yield made
    made.close()


def ask(server: CatalogServer, method: str, path: str, token: str = "secret") -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request(method, path, headers={"Authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, json.loads(body) if body else None


def client(server: CatalogServer, token: str = "secret") -> Any:
    return load_catalog("t", type="rest", uri=f"http://127.0.0.1:{server.port}", token=token)


def test_a_foreign_client_reads_topics_as_tables_without_knowing_where_they_lie(
    server: CatalogServer, place: Place
) -> None:
    catalog = client(server)
    assert catalog.list_namespaces() == [("default",)]
    assert catalog.list_tables("default") == [
        ("default", "empty"),
        ("default", "orders"),
        ("default", "orders_dead_letters"),
    ]
    rows = catalog.load_table("default.orders").scan().to_arrow()
    assert sorted(rows["id"].to_pylist()) == [1, 2]
    dead = catalog.load_table("default.orders_dead_letters").scan().to_arrow()
    assert dead["value"].to_pylist() == [b"bad"]
    with pytest.raises(NoSuchTableError):
        catalog.load_table("default.plain")
    assert catalog.table_exists("default.orders")
    assert not catalog.table_exists("default.nothing")


def test_a_later_export_is_seen_at_once(server: CatalogServer, place: Place) -> None:
    catalog = client(server)
    before = catalog.load_table("default.orders")
    topic = place.topic("later", table_format="iceberg")
    topic.flush(0, [b"1"])
    place.run_once()
    assert ("default", "later") in catalog.list_tables("default")
    assert before.refresh().scan().to_arrow().num_rows == 2


def test_nothing_can_be_changed(server: CatalogServer) -> None:
    with pytest.raises(NotImplementedError, match="does not support"):
        client(server).drop_table("default.orders")
    for method, path in [
        ("POST", "tables"),
        ("DELETE", "tables/orders"),
        ("POST", "tables/orders"),
    ]:
        assert ask(server, method, f"/v1/namespaces/default/{path}")[0] == 403


def test_a_client_without_a_token_learns_nothing(server: CatalogServer) -> None:
    with pytest.raises(UnauthorizedError):
        client(server, token="wrong")
    assert ask(server, "GET", "/v1/namespaces", token="")[0] == 401
    assert ask(server, "GET", "/v1/namespaces", token="other")[0] == 200


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 404),
        ("/v2/config", 404),
        ("/v1/namespaces/none/tables", 404),
        ("/v1/namespaces/default/tables/..%2F..%2Fetc", 404),
        ("/v1/namespaces/default/tables/%00", 404),
        ("/v1/namespaces?parent=none", 404),
        ("/v1/namespaces?parent=default", 200),
        ("/v1/namespaces/default/views", 200),
        ("/v1/namespaces/default/views/v", 404),
    ],
)
def test_paths_that_mean_nothing_get_the_protocols_error(
    server: CatalogServer, path: str, status: int
) -> None:
    found, body = ask(server, "GET", path)
    assert found == status
    assert status == 200 or body["error"]["code"] == status


def test_a_large_body_is_refused_before_it_is_read(server: CatalogServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.putrequest("POST", "/v1/namespaces")
    connection.putheader("Content-Length", str(1 << 40))
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()
