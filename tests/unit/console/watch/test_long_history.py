"""Charts of weeks: what Prometheus is asked, and what becomes of its answer."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, get_args
from urllib.parse import parse_qs, urlsplit

import pytest

from kafscale.admin.brokers.broker_facts import BrokerSelf
from kafscale.admin.errors import AdminError
from kafscale.console.answers.refusals import ApiRefusal
from kafscale.console.answers.shapes import SeriesName
from kafscale.console.call import ApiCall, Services
from kafscale.console.pages.cluster.series import get_series
from kafscale.console.routes import ROUTES, SeriesQuery
from kafscale.console.server import open_services
from kafscale.console.watch import reading as page
from kafscale.console.watch.long_history import expression
from kafscale.console.watch.watcher import WatchedBroker
from kafscale.settings.config import Config
from kafscale.system import SystemDice
from kafscale.testing.clock import ManualClock
from tests.support import promql

pytestmark = pytest.mark.real_time
ROUTE = next(route for route in ROUTES if route.name == "get_series")
NOW_S = 1_800_000_000


class Prometheus(ThreadingHTTPServer):
    asked: list[dict[str, str]]
    answer: bytes


class _Answers(BaseHTTPRequestHandler):
    server: Prometheus

    def do_GET(self) -> None:
        question = parse_qs(urlsplit(self.path).query)
        self.server.asked.append({name: value[0] for name, value in question.items()})
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.server.answer)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def prometheus() -> Iterator[Prometheus]:
    server = Prometheus(("127.0.0.1", 0), _Answers)
    server.asked, server.answer = [], b""
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def services(prometheus: Prometheus) -> Services:
    found = open_services(Config(), "127.0.0.1:1", {}, ManualClock(), SystemDice(), "1", None, "")
    found.prometheus = f"http://127.0.0.1:{prometheus.server_port}/"
    found.watcher.as_of_ms = NOW_S * 1000
    said = BrokerSelf("1", (), "http://10.0.0.7:9093", ())
    found.watcher.brokers = {7: WatchedBroker(said)}
    return found


def call(found: Services, **query: Any) -> ApiCall:
    return ApiCall(ROUTE, found, {}, SeriesQuery(**query), None, None, "", "")


async def test_a_month_of_a_broker_is_asked_of_prometheus(prometheus: Prometheus) -> None:
    line = {
        "metric": {"instance": "10.0.0.7:9093"},
        "values": [[NOW_S - 3600, "0.25"], [NOW_S, "NaN"]],
    }
    prometheus.answer = json.dumps(
        {"status": "success", "data": {"resultType": "matrix", "result": [line]}}
    ).encode()
    found = services(prometheus)
    answer = await get_series(call(found, names="broker_cpu", labels='{"broker": "7"}', span="30d"))
    (asked,) = prometheus.asked
    assert asked["query"] == (
        'sum by (instance) (rate(process_cpu_seconds_total{instance="10.0.0.7:9093"}[3600s]))'
    )
    assert (asked["end"], asked["step"]) == (str(NOW_S), "3600")
    assert (answer.step_s, len(answer.t), answer.t[-1]) == (3600, 720, NOW_S * 1000)
    (shown,) = answer.lines
    assert shown.labels == {"broker": "7"}
    assert shown.v[-2:] == [0.25, None]
    assert set(shown.v[:-2]) == {None}
    found.cluster.close()


async def test_what_prometheus_lacks_has_no_line_and_nonsense_is_refused(
    prometheus: Prometheus,
) -> None:
    found = services(prometheus)
    answer = await get_series(call(found, names="group_lag_s", span="7d"))
    assert (answer.lines, prometheus.asked) == ([], [])
    prometheus.answer = b"<html>"
    with pytest.raises(AdminError, match="answered no range"):
        await get_series(call(found, names="group_lag", span="7d"))
    found.prometheus = ""
    with pytest.raises(ApiRefusal, match=r"console\.prometheus"):
        await get_series(call(found, names="group_lag", span="7d"))
    found.cluster.close()


def test_names_cannot_leave_their_quotes() -> None:
    text = expression("group_lag", {"group": 'a"} or vector(1) #\n'}, {}, 600)
    assert text == r'sum by (group) (kafscale_consumer_lag{group="a\"} or vector(1) #\n"})'
    puts = expression("topic_puts_per_s", {"topic": "orders"}, {}, 600)
    assert puts == (
        'sum by (topic) (rate(kafscale_s3_requests_total{topic="orders",operation="put"}[600s]))'
    )


def test_every_series_but_the_time_behind_has_an_expression_over_series_of_brokers() -> None:
    for name in get_args(SeriesName):
        text = expression(name, {}, {}, 600)
        if name == "group_lag_s":
            assert text is None
            continue
        assert text is not None, name
        spoken = promql.read(text).series
        assert spoken, name
        assert all(one.removesuffix("_bucket") in SERIES for one in spoken), spoken


SERIES = page.NAMES | {page.LATENCY_BUCKET.removesuffix("_bucket")}
