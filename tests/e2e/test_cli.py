"""The real commands against a real broker."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker import KafscaleProcess
from tests.support.program import dying_with_us
from tests.support.seaweed import SeaweedServer

WITHIN_S = 120


@pytest.fixture(scope="module")
def broker() -> Iterator[KafscaleProcess]:
    with KafscaleProcess() as process:
        yield process


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return request.node.name.replace("[", "-").replace("]", "")[:200]


def start(broker: KafscaleProcess, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        dying_with_us([sys.executable, "-m", "kafscale.cli.main", *words]),
        env=environment(broker),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=hear_ctrl_c,
    )


def hear_ctrl_c() -> None:
    """A shell that runs the tests in the background has them, and their children, ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def environment(broker: KafscaleProcess) -> dict[str, str]:
    settings = {**broker.environment(), **broker.extra_env}
    return {**os.environ, **settings, "KAFSCALE_BOOTSTRAP": broker.bootstrap}


def kafscale(
    broker: KafscaleProcess, *words: str, given: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "kafscale.cli.main", *words],
        env=environment(broker),
        input=given,
        capture_output=True,
        timeout=WITHIN_S,
        check=False,
    )


def said(broker: KafscaleProcess, *words: str, given: bytes = b"") -> str:
    """Run a command that must succeed silently on stderr; what it printed."""
    ran = kafscale(broker, *words, given=given)
    assert (ran.returncode, ran.stderr) == (0, b"")
    return ran.stdout.decode()


def refused(broker: KafscaleProcess, *words: str, given: bytes = b"") -> str:
    """Run a command that must fail with one line; that line."""
    ran = kafscale(broker, *words, given=given)
    assert (ran.returncode, ran.stdout) == (1, b"")
    assert ran.stderr.startswith(b"kafscale: ")
    assert ran.stderr.count(b"\n") == 1
    return ran.stderr.decode()


def test_what_is_produced_is_consumed_in_order(broker: KafscaleProcess, topic: str) -> None:
    assert said(broker, "produce", topic, given=b"one\ntwo\n\nthree") == ""
    assert said(broker, "consume", topic) == "one\ntwo\n\nthree\n"


def test_keys_headers_and_partitions_arrive(broker: KafscaleProcess, topic: str) -> None:
    said(broker, "topics", "create", topic, "-p", "3")
    words = ["-k", ":", "-p", "2", "-H", "from=here", "-H", "empty="]
    said(broker, "produce", topic, *words, given=b"k:v\nno key\n")
    shape = r"%t %p %o [%k] [%v] %h\n"
    assert said(broker, "consume", topic, "--format", shape) == (
        f"{topic} 2 0 [k] [v] from=here,empty=\n{topic} 2 1 [] [no key] from=here,empty=\n"
    )
    assert said(broker, "consume", topic, "-p", "0") == ""


def test_json_is_one_line_per_record(broker: KafscaleProcess, topic: str) -> None:
    said(broker, "produce", topic, "-k", "=", given=b"k=v\n\xff\xfe\n")
    first, second = map(json.loads, said(broker, "consume", topic, "--json").splitlines())
    assert (first["topic"], first["partition"], first["offset"]) == (topic, 0, 0)
    assert (first["key"], first["value"], first["headers"]) == ("k", "v", [])
    assert first["timestamp"] > 1_500_000_000_000
    assert (second["key"], second["value_base64"]) == (None, "//4=")


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_survives(broker: KafscaleProcess, topic: str, codec: str) -> None:
    lines = b"".join(b"line %d\n" % number for number in range(2000))
    said(broker, "produce", topic, "-z", codec, given=lines)
    assert said(broker, "consume", topic).encode() == lines


@pytest.mark.parametrize("acks", ["all", "1", "0"])
def test_every_kind_of_acknowledgement_works(
    broker: KafscaleProcess, topic: str, acks: str
) -> None:
    said(broker, "topics", "create", topic)  # acks=0 to a topic being created may lose records
    said(broker, "produce", topic, "--acks", acks, given=b"a\nb\n")
    follow = ["--follow", "--count", "2"]  # acks=0 returns before the record is there
    assert said(broker, "consume", topic, *follow) == "a\nb\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--offset", "beginning"], "0 1 2 3 4"),
        (["--offset", "end"], ""),
        (["--offset", "3"], "3 4"),
        (["--offset", "-2"], "3 4"),
        (["--offset", "-99"], "0 1 2 3 4"),
        (["--count", "2"], "0 1"),
        (["--offset", "1", "--count", "2"], "1 2"),
    ],
)
def test_reading_starts_and_stops_where_told(
    broker: KafscaleProcess, words: list[str], expected: str
) -> None:
    said(broker, "topics", "create", "numbers", "--if-not-exists")
    if said(broker, "consume", "numbers", "--count", "1", "--offset", "-1") == "":
        said(broker, "produce", "numbers", given=b"0\n1\n2\n3\n4\n")
    assert said(broker, "consume", "numbers", *words).split() == expected.split()


def test_a_file_is_produced_like_standard_input(
    broker: KafscaleProcess, topic: str, tmp_path: Path
) -> None:
    file = tmp_path / "lines.txt"
    file.write_bytes(b"from a file\n")
    said(broker, "produce", topic, "--file", str(file))
    assert said(broker, "consume", topic) == "from a file\n"


def test_following_prints_what_is_written_later_and_ends_on_ctrl_c(
    broker: KafscaleProcess, topic: str
) -> None:
    said(broker, "produce", topic, given=b"before\n")
    follower = start(broker, "consume", topic, "--follow")
    assert follower.stdout is not None
    assert follower.stdout.readline() == b"before\n"
    said(broker, "produce", topic, given=b"after\n")
    assert follower.stdout.readline() == b"after\n"
    follower.send_signal(signal.SIGINT)
    out, err = follower.communicate(timeout=WITHIN_S)
    assert (follower.returncode, out, err) == (130, b"", b"")


def test_a_reader_that_has_seen_enough_is_no_error(broker: KafscaleProcess, topic: str) -> None:
    lines = b"".join(b"%0100d\n" % number for number in range(5000))
    said(broker, "produce", topic, given=lines)
    reader = start(broker, "consume", topic)
    assert reader.stdout is not None
    assert reader.stderr is not None
    assert int(reader.stdout.readline()) == 0
    reader.stdout.close()
    assert reader.wait(WITHIN_S) == 141
    assert reader.stderr.read() == b""


def test_topics_are_created_listed_described_and_deleted(
    broker: KafscaleProcess, topic: str
) -> None:
    said(broker, "topics", "create", topic, "-p", "2", "-c", "retention.ms=60000")
    assert "exists" in refused(broker, "topics", "create", topic)
    said(broker, "topics", "create", topic, "--if-not-exists")
    said(broker, "produce", topic, "-p", "1", given=b"a\nb\n")
    listed = [json.loads(line) for line in said(broker, "topics", "list", "--json").splitlines()]
    assert {"name": topic, "partitions": 2} in listed
    assert topic in said(broker, "topics", "list")
    facts = json.loads(said(broker, "topics", "describe", topic, "--json"))
    assert facts["configs"] == {"retention.ms": "60000"}
    assert [(row["earliest"], row["latest"]) for row in facts["partitions"]] == [(0, 0), (0, 2)]
    assert f"topic {topic}  id {facts['id']}" in said(broker, "topics", "describe", topic)
    said(broker, "topics", "delete", topic)
    assert "Unknown topic" in refused(broker, "topics", "describe", topic)


def test_settings_are_shown_and_changed(broker: KafscaleProcess, topic: str) -> None:
    said(broker, "topics", "create", topic, "-c", "retention.ms=60000")
    said(
        broker, "configs", "alter", topic, "--set", "segment.bytes=5000", "--delete", "retention.ms"
    )
    lines = said(broker, "configs", "describe", topic, "--json").splitlines()
    rows = {row["name"]: row for row in map(json.loads, lines)}
    assert rows["segment.bytes"] == {"name": "segment.bytes", "value": "5000", "source": "topic"}
    assert rows["retention.ms"]["source"] == "default"
    assert "segment.bytes" in said(broker, "configs", "describe", topic)
    assert "  segment.bytes=5000" in said(broker, "topics", "describe", topic)
    wrong = refused(broker, "configs", "alter", topic, "--set", "retention.ms=soon")
    assert "retention.ms: expected an integer" in wrong
    assert "no topic 'never-there'" in refused(broker, "configs", "describe", "never-there")


def test_a_topic_gets_more_partitions(broker: KafscaleProcess, topic: str) -> None:
    said(broker, "topics", "create", topic)
    said(broker, "topics", "alter", topic, "-p", "3")
    said(broker, "produce", topic, "-p", "2", given=b"new\n")
    assert said(broker, "consume", topic) == "new\n"
    assert "never get fewer" in refused(broker, "topics", "alter", topic, "-p", "2")


def test_a_topic_created_again_is_empty(broker: KafscaleProcess, topic: str) -> None:
    said(broker, "topics", "create", topic)
    said(broker, "produce", topic, given=b"old\n")
    said(broker, "topics", "delete", topic)
    said(broker, "topics", "create", topic)
    assert said(broker, "consume", topic) == ""
    said(broker, "produce", topic, given=b"new\n")
    assert said(broker, "consume", topic) == "new\n"


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["topics", "create", "a b"], "a b: "),
        (["topics", "create", "x", "-c", "no.such=1"], "no.such"),
        (["topics", "create", "x", "-c", "retention.ms=soon"], "retention.ms"),
        (["topics", "create", "x", "-p", "100000"], "x: "),
        (["topics", "delete", "never-there"], "never-there: Unknown topic"),
        (["consume", "never-there"], "never-there: Unknown topic"),
    ],
)
def test_refusals_are_one_line(broker: KafscaleProcess, words: list[str], part: str) -> None:
    assert part in refused(broker, *words)


def test_asking_for_a_topic_does_not_create_it(broker: KafscaleProcess) -> None:
    refused(broker, "consume", "only-asked-for")
    assert "only-asked-for" not in said(broker, "topics", "list")


def test_an_offset_or_partition_that_is_not_there_is_refused(
    broker: KafscaleProcess, topic: str
) -> None:
    said(broker, "produce", topic, given=b"a\n")
    where = refused(broker, "consume", topic, "--offset", "5")
    assert "partition 0 has offsets 0 to 1, not 5" in where
    assert "no partition 9" in refused(broker, "consume", topic, "-p", "9")


def test_no_broker_is_said_at_once(broker: KafscaleProcess) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        line = refused(broker, "topics", "list", "-b", address)
    assert line.startswith(f"kafscale: no broker at {address}: Connection refused")


def test_segments_are_seen_in_the_store_and_are_sound(broker: KafscaleProcess, topic: str) -> None:
    said(broker, "topics", "create", topic, "-p", "2")
    for partition in ("0", "1"):
        said(broker, "produce", topic, "-p", partition, given=b"a\nb\nc\n")
    rows = [
        json.loads(line) for line in said(broker, "segments", "list", topic, "--json").splitlines()
    ]
    assert {row["log"] for row in rows} == {0, 1}
    assert sum(row["records"] for row in rows) == 6
    facts = json.loads(said(broker, "segments", "inspect", rows[0]["key"], "--json"))
    assert facts["records"] == rows[0]["records"]
    assert facts["batches"][0]["crc"] == "ok"
    assert said(broker, "segments", "verify", topic).endswith(": all sound\n")
    only = said(broker, "segments", "list", topic, "-p", "1")
    assert {line.split()[0] for line in only.splitlines()[1:]} == {"1"}
    assert "no such topic" in refused(broker, "segments", "list", "never-there")


def test_a_bucket_is_looked_into_beside_its_broker(
    seaweed_server: SeaweedServer, topic: str
) -> None:
    with KafscaleProcess(env=seaweed_server.broker_environment("looked-into")) as broker:
        said(broker, "produce", topic, given=b"a\nb\nc\n")
        assert said(broker, "consume", topic) == "a\nb\nc\n"
        rows = [
            json.loads(line)
            for line in said(broker, "segments", "list", topic, "--json").splitlines()
        ]
        assert sum(row["records"] for row in rows) == 3
        assert all(row["key"].startswith(f"looked-into/{topic}/0/segment-") for row in rows)
        assert said(broker, "segments", "verify", topic).endswith(": all sound\n")
        assert "create-if-absent" in said(broker, "doctor")


def test_segments_verify_finds_a_changed_byte() -> None:
    with KafscaleProcess() as broker:
        said(broker, "produce", "t", given=b"a\nb\nc\n")
        row = json.loads(said(broker, "segments", "list", "t", "--json").splitlines()[0])
        broker.stop()
        (file,) = broker.data.rglob(row["key"].rpartition("/")[2])
        body = bytearray(file.read_bytes())
        body[100] ^= 0xFF
        file.write_bytes(body)
        ran = kafscale(broker, "segments", "verify", "t")
        assert ran.returncode == 1
        assert row["key"].encode() in ran.stdout


def test_the_doctor_finds_a_running_broker_well(broker: KafscaleProcess) -> None:
    ran = kafscale(broker, "doctor")
    verdicts = [line.split()[0] for line in ran.stdout.decode().splitlines()]
    assert ran.returncode == 0, ran.stdout
    assert len(verdicts) == 8
    assert b"a kafscale broker is running" in ran.stdout
    assert b"running and ready" in ran.stdout
    assert b"create-if-absent works" in ran.stdout


def test_serve_refuses_a_bad_configuration_in_one_line(broker: KafscaleProcess) -> None:
    ran = kafscale(broker, "serve", "--host", "0.0.0.0")
    assert ran.returncode == 2
    assert ran.stderr.startswith(b"kafscale: broker.host: 0.0.0.0 is reachable")
    assert ran.stderr.count(b"\n") == 1


def test_serve_on_a_taken_port_fails_in_one_line(broker: KafscaleProcess, tmp_path: Path) -> None:
    elsewhere = ["--metrics-port", "0", "--memory", "--data-dir", str(tmp_path)]
    ran = kafscale(broker, "serve", *elsewhere)
    assert ran.returncode == 1
    lines = ran.stderr.decode().splitlines()
    assert lines[-1].startswith("kafscale: ")
    assert str(broker.port) in lines[-1]
    assert "Traceback" not in ran.stderr.decode()


def test_brokers_are_listed_with_what_they_lead(broker: KafscaleProcess, topic: str) -> None:
    said(broker, "topics", "create", topic, "-p", "2")
    (row,) = [json.loads(line) for line in said(broker, "brokers", "--json").splitlines()]
    assert (row["address"], row["is_controller"]) == (broker.bootstrap, True)
    assert row["leaders"] >= 2
    assert "controller" in said(broker, "brokers")


def test_a_topic_is_trimmed_to_an_offset_or_to_nothing(broker: KafscaleProcess, topic: str) -> None:
    said(broker, "topics", "create", topic)
    said(broker, "produce", topic, given=b"a\nb\nc\n")
    row = json.loads(said(broker, "topics", "trim", topic, "--before", "2", "--json"))
    assert row == {"name": topic, "partition": 0, "earliest": 2, "deleted": 2}
    assert said(broker, "consume", topic) == "c\n"
    said(broker, "topics", "trim", topic, "--all")
    assert said(broker, "consume", topic) == ""


def test_cost_finds_the_metrics_of_the_brokers(broker: KafscaleProcess) -> None:
    assert b"since the start of 1 broker" in kafscale(broker, "cost").stdout


def test_cost_says_what_to_do_without_a_broker(broker: KafscaleProcess) -> None:
    ran = kafscale(broker, "cost", "-b", "127.0.0.1:1")
    assert ran.returncode == 1
    assert b"give --bootstrap of a running broker, or --metrics" in ran.stderr
