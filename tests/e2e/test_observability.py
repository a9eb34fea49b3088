"""What a broker under real traffic shows: metrics, dashboards, alarms, log lines, cost."""

import http.client
import itertools
import json
import re
import socket
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kafscale.cli import main
from tests.support import etcd, promql
from tests.support.broker import KafscaleProcess
from tests.support.exposition import Series, parse
from tests.support.seaweed import SeaweedServer

ROOT = Path(__file__).parents[2]
METRICS_PAGE = (ROOT / "docs/operating/metrics.md").read_text()
DASHBOARD = json.loads((ROOT / "deploy/grafana/kafscale.json").read_text())
ALERTS = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text())

TOPIC, GROUP = "orders", "watchers"
FROM_PROMETHEUS = {"instance", "job"}  # labels that scraping adds
OF_PROMETHEUS = {"up": set[str]()}  # series that scraping makes

# Name -> kind, labels, buckets: the table of the specification.
REQUESTS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
STORE = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
SPECIFIED: dict[str, tuple[str, set[str], tuple[float, ...]]] = {
    "kafscale_produce_requests_total": ("counter", {"topic", "partition", "status"}, ()),
    "kafscale_produce_latency_seconds": ("histogram", {"topic", "acks"}, REQUESTS),
    "kafscale_fetch_requests_total": ("counter", {"topic", "partition", "status"}, ()),
    "kafscale_fetch_latency_seconds": ("histogram", {"topic", "cache_hit"}, REQUESTS),
    "kafscale_s3_operations_total": ("counter", {"operation", "status"}, ()),
    "kafscale_s3_latency_seconds": ("histogram", {"operation"}, STORE),
    "kafscale_cache_hit_rate": ("gauge", {"topic", "partition"}, ()),
    "kafscale_cache_size_bytes": ("gauge", set(), ()),
    "kafscale_buffer_size_bytes": ("gauge", {"topic", "partition"}, ()),
    "kafscale_consumer_lag": ("gauge", {"group", "topic", "partition"}, ()),
    "kafscale_active_connections": ("gauge", set(), ()),
}
HELP = {
    "kafscale_produce_requests_total": "Total number of produce requests",
    "kafscale_produce_latency_seconds": "Produce request latency",
    "kafscale_fetch_requests_total": "Total number of fetch requests",
    "kafscale_fetch_latency_seconds": "Fetch request latency",
    "kafscale_s3_operations_total": "S3 operations by type",
    "kafscale_s3_latency_seconds": "S3 operation latency",
    "kafscale_cache_hit_rate": "Segment cache hit rate",
    "kafscale_cache_size_bytes": "Current cache size in bytes",
    "kafscale_buffer_size_bytes": "Write buffer size per partition",
    "kafscale_consumer_lag": "Consumer group lag in messages",
    "kafscale_active_connections": "Number of active client connections",
}
EVENTS = {
    "produce_received": {"topic": str, "partition": int, "batch_size": int},
    "segment_flushed": {
        "topic": str,
        "partition": int,
        "base_offset": int,
        "size_bytes": int,
        "duration": float,
    },
    "consumer_rebalance": {"group_id": str, "generation": int, "member_count": int},
}


@dataclass
class Loaded:
    """A broker that has seen everything once, and what it showed then."""

    broker: KafscaleProcess
    text: str
    samples: dict[Series, float]
    namespace: str

    def families(self) -> dict[str, tuple[str, set[str], tuple[float, ...]]]:
        """Kind, labels and buckets of every family that has samples."""
        kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", self.text, re.MULTILINE))
        found: dict[str, tuple[str, set[str], tuple[float, ...]]] = {}
        for name, labels in self.samples:
            family = name if name in kinds else re.sub(r"_(bucket|sum|count)$", "", name)
            kind, names, ends = found.get(family, (kinds[family], set[str](), ()))
            names |= {label for label, _ in labels if label != "le"}
            end = dict(labels).get("le", "+Inf")
            if end != "+Inf" and float(end) not in ends:
                ends = (*ends, float(end))
            found[family] = kind, names, ends
        return found

    def labels_of(self, name: str) -> set[str]:
        return {label for found, labels in self.samples if found == name for label, _ in labels}


def scrape(broker: KafscaleProcess) -> str:
    url = f"http://127.0.0.1:{broker.metrics_port}/metrics"
    with urllib.request.urlopen(url, timeout=10) as answer:
        text: str = answer.read().decode()
    return text


_numbers = itertools.count()

# Series without samples: no log is compacted here, no client logs in, none has a quota or a
# transaction.
NOT_SEEN_HERE = (
    "kafscale_authentications_total",
    "kafscale_transactions_decided_total",
    "kafscale_throttle_seconds_total",
    "kafscale_throttled_total",
    "kafscale_compactions_total",
    "kafscale_compaction_removed_records_total",
    "kafscale_compaction_removed_bytes_total",
    "kafscale_compaction_left_bytes",
)


@pytest.fixture(scope="module")
def loaded(seaweed_server: SeaweedServer) -> Iterator[Loaded]:
    namespace = f"seen-{next(_numbers)}"  # test runners may come back to this fixture
    env = {
        **seaweed_server.broker_environment(namespace),
        "KAFSCALE_LOG_LEVEL": "debug",
        "KAFSCALE_LOG_FORMAT": "json",
        "KAFSCALE_FLUSH_INTERVAL_MS": "20",
    }
    with KafscaleProcess(env=env) as broker:
        _use(broker)
        wait_for(broker, 200)
        text = scrape(broker)
        yield Loaded(broker, text, parse(text.encode()), namespace)


def _use(broker: KafscaleProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(30)
    for acks in ("all", "1", "0"):
        producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": acks})
        for number in range(20):
            producer.produce(TOPIC, b"x" * 1000, partition=number % 2)
        assert producer.flush(60) == 0
    consumer = _visit(broker, reads=10, commits=3)
    # Records that only the bucket has: a fresh broker has nothing in memory.
    broker.restart()
    for acks in ("all", "1"):
        producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": acks})
        producer.produce(TOPIC, b"y", partition=0)
        assert producer.flush(60) == 0
    consumer.close()
    _visit(broker, reads=30, commits=5).close()
    again = admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC]
    assert again.exception(30) is not None  # a refusal that correct clients meet, too


def _visit(broker: KafscaleProcess, *, reads: int, commits: int) -> Consumer:
    """A member of the group reads and commits, and a stranger knocks at the door."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([TOPIC])
    assert len(consumer.consume(reads, 120)) == reads
    consumer.commit(offsets=[TopicPartition(TOPIC, 0, commits)], asynchronous=False)
    with socket.create_connection(("127.0.0.1", broker.port)) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        stranger.recv(100)
    return consumer


# -- metrics ---------------------------------------------------------------------------------


def test_every_specified_series_has_its_kind_labels_buckets_and_help(loaded: Loaded) -> None:
    found = loaded.families()
    assert {name: found.get(name) for name in SPECIFIED} == SPECIFIED
    helps = dict(re.findall(r"^# HELP (\S+) (.*)$", loaded.text, re.MULTILINE))
    assert {name: helps[name] for name in HELP} == HELP


def test_label_values_are_those_of_the_specification(loaded: Loaded) -> None:
    def values(name: str, label: str) -> set[str]:
        return {dict(labels)[label] for found, labels in loaded.samples if found == name}

    assert values("kafscale_produce_latency_seconds_count", "acks") <= {"all", "1", "0"}
    assert values("kafscale_fetch_latency_seconds_count", "cache_hit") <= {"true", "false"}
    assert values("kafscale_produce_requests_total", "status") <= {"success", "error"}
    assert values("kafscale_s3_requests_total", "operation") <= {
        "put",
        "get",
        "head",
        "list",
        "delete",
    }
    assert values("kafscale_s3_requests_total", "topic") == {TOPIC, "@store"}


def test_the_page_explains_every_series_with_its_labels(loaded: Loaded) -> None:
    rows = re.findall(
        r"^\| `((?:kafscale|process)_\w+)` \| ([^|]*) \| [^|]+ \|$", METRICS_PAGE, re.MULTILINE
    )
    explained = {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in rows}
    for name in NOT_SEEN_HERE:
        del explained[name]
    assert explained == {name: labels for name, (_, labels, _) in loaded.families().items()}


# -- dashboards and alarms -------------------------------------------------------------------


def panels() -> Iterator[tuple[str, str, str]]:
    """Title, expression and legend of everything drawn."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"], target["legendFormat"]


def rules() -> list[dict[str, Any]]:
    return [rule for group in ALERTS["groups"] for rule in group["rules"]]


def check(expression: str, loaded: Loaded) -> promql.Spoken:
    """Every name in it exists."""
    spoken = promql.read(expression)
    assert spoken.series, expression
    everywhere = set(FROM_PROMETHEUS)
    for name, selected in spoken.series.items():
        labels = OF_PROMETHEUS.get(name, loaded.labels_of(name)) | FROM_PROMETHEUS
        known = name in OF_PROMETHEUS or any(found == name for found, _ in loaded.samples)
        assert known, f"{name} does not exist: {expression}"
        assert selected <= labels, f"{name} has no {selected - labels}: {expression}"
        everywhere |= labels
    for _, labels in spoken.clauses:
        assert labels <= everywhere, f"no series has {labels - everywhere}: {expression}"
    return spoken


@pytest.mark.parametrize(("title", "expression", "legend"), list(panels()))
def test_a_panel_speaks_of_what_exists(
    loaded: Loaded, title: str, expression: str, legend: str
) -> None:
    spoken = check(expression, loaded)
    shown = set(re.findall(r"\{\{\s*(\w+)\s*\}\}", legend))
    left = spoken.grouped_by
    if left is None:
        has_aggregation = spoken.functions & {"sum", "avg", "max", "min", "count"}
        left = (
            set()
            if has_aggregation
            else FROM_PROMETHEUS.union(*(loaded.labels_of(name) for name in spoken.series))
        )
    assert shown <= left, f"{title}: the result has no {shown - left}"


def test_variables_of_the_dashboard_exist(loaded: Loaded) -> None:
    defined = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    text = json.dumps(DASHBOARD["panels"])
    used = set(re.findall(r"\$\{?([a-z_]\w*)", text)) - {"__rate_interval", "__all"}
    assert used <= defined
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            found = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"])
            assert found is not None
            assert found[2] in loaded.labels_of(found[1]) | FROM_PROMETHEUS


def test_rows_of_the_dashboard_are_the_promised_ones() -> None:
    rows = [panel["title"] for panel in DASHBOARD["panels"] if panel["type"] == "row"]
    assert rows == ["Traffic", "Latency", "Store and money", "Groups", "Fleet", "Process"]
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alarm_speaks_of_what_exists_and_is_explained(
    loaded: Loaded, rule: dict[str, Any]
) -> None:
    spoken = check(rule["expr"], loaded)
    left = spoken.grouped_by
    shown = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    assert shown <= (FROM_PROMETHEUS if left is None else left)
    for name, label, value in spoken.matches:
        if label in ("state", "status", "acks", "operation"):
            values = {dict(labels).get(label) for found, labels in loaded.samples if found == name}
            assert value in values | {"error"}, f"{name} never has {label}={value}"
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    assert page == "docs/operating/metrics.md"
    assert anchor == rule["alert"].lower()
    assert re.search(rf"^### {rule['alert']}$", METRICS_PAGE, re.MULTILINE)


def test_no_alarm_is_explained_that_does_not_exist() -> None:
    explained = re.findall(r"^### (Kafscale\w+)$", METRICS_PAGE, re.MULTILINE)
    assert explained == [rule["alert"] for rule in rules()]


# -- log lines -------------------------------------------------------------------------------


def test_every_specified_event_is_told_with_its_fields(loaded: Loaded) -> None:
    lines = [
        json.loads(line)
        for line in loaded.broker.output.read_text().splitlines()
        if line.startswith("{")
    ]
    for event, fields in EVENTS.items():
        told = [line for line in lines if line["event"] == event]
        assert told, event
        for line in told:
            assert {name: type(line[name]) for name in fields} == fields
            assert line["timestamp"].endswith("Z")
            assert line["level"] == ("debug" if event == "produce_received" else "info")


# -- readiness -------------------------------------------------------------------------------


def test_a_broker_in_service_is_ready_and_says_by_which_checks(loaded: Loaded) -> None:
    said = wait_for(loaded.broker, 200)
    assert said["ready"] is True
    assert {"store", "metadata"} <= said["checks"].keys()


def test_a_broker_without_etcd_says_that_it_is_not_ready() -> None:
    if reason := etcd.missing():
        pytest.skip(reason)
    with (
        etcd.EtcdCluster() as server,
        KafscaleProcess(env={"KAFSCALE_ETCD_ENDPOINTS": ",".join(server.endpoints)}) as broker,
    ):
        assert wait_for(broker, 200)["checks"]["metadata"] == "ok"
        server.pause()
        try:
            said = wait_for(broker, 503)
        finally:
            server.resume()
        # Whichever is noticed first: its silence, or the end of the broker's lease.
        silence = r"metadata: the metadata store has not answered for \d+ s"
        lease = r"fleet: the broker has no lease: .*"
        assert said["reasons"]
        assert all(re.fullmatch(f"{silence}|{lease}", reason) for reason in said["reasons"])
        assert wait_for(broker, 200)["ready"] is True


def wait_for(broker: KafscaleProcess, status: int) -> dict[str, Any]:
    """Ask whether it is ready until the answer is this one."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        asking = http.client.HTTPConnection("127.0.0.1", broker.metrics_port, timeout=10)
        try:
            asking.request("GET", "/ready")
            answer = asking.getresponse()
            if answer.status == status:
                said: dict[str, Any] = json.loads(answer.read())
                return said
        except (ConnectionRefusedError, TimeoutError):
            pass  # the page opens a moment after the door
        finally:
            asking.close()
        time.sleep(0.2)
    raise AssertionError(f"never answered {status}")


# -- cost ------------------------------------------------------------------------------------


def run_cost(
    loaded: Loaded, seaweed_server: SeaweedServer, monkeypatch: pytest.MonkeyPatch, *words: str
) -> None:
    for name, value in seaweed_server.broker_environment(loaded.namespace).items():
        monkeypatch.setenv(name, value)
    url = f"127.0.0.1:{loaded.broker.metrics_port}"
    store = f"s3://kafscale/{loaded.namespace}"
    assert main.main(["cost", "--metrics", url, "--store", store, *words]) == 0


def test_cost_adds_up_what_the_broker_counted(
    loaded: Loaded,
    seaweed_server: SeaweedServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_cost(loaded, seaweed_server, monkeypatch, "--json", "--set", "prices.putPer1000=5")
    said = json.loads(capsys.readouterr().out)
    assert said["currency"] == "USD"
    assert said["window"]["kind"] == "since start"
    topic, total = said["topics"][TOPIC], said["total"]
    assert topic["requests_per_day"]["put"] > 0
    assert topic["written_bytes_per_day"] > 0
    assert topic["stored_bytes"] > 60_000
    cost = topic["cost_per_day"]
    assert cost["requests"] > topic["requests_per_day"]["put"] * 0.005
    assert cost["total"] == pytest.approx(cost["requests"] + cost["transfer"] + cost["storage"])
    assert topic["cost_per_month"] == pytest.approx(30 * cost["total"])
    assert total["cost_per_month"] == pytest.approx(
        sum(one["cost_per_month"] for one in said["topics"].values())
    )


def test_cost_is_shown_as_a_table(
    loaded: Loaded,
    seaweed_server: SeaweedServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_cost(loaded, seaweed_server, monkeypatch, "--wait", "0.2")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:2] == ["TOPIC", "PUT/DAY"]
    assert lines[0].split()[-2:] == ["USD/DAY", "USD/MONTH"]
    assert TOPIC in {line.split()[0] for line in lines[1:4]}
    assert any(line.startswith("all ") for line in lines)
    assert any("between two looks at 1 broker" in line for line in lines)


def test_a_broker_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["cost", "--metrics", "127.0.0.1:1"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("kafscale: cannot read metrics from http://127.0.0.1:1/metrics: ")
    assert said.count("\n") == 1
