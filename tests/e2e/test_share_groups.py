"""Share groups (KIP-932) by Java's own consumer and Apache Kafka's own tools."""

import itertools
import subprocess
from collections import Counter
from collections.abc import Callable

from tests.e2e.conftest import clients_of
from tests.support.apache_kafka import VERSION
from tests.support.clients.apache_tools import ApacheTools
from tests.support.clients.base import Client, Record
from tests.support.java import SOURCES, compiled, on_the_jvm
from tests.support.process import BrokerProcess

SHARE_GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
SHARE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
WITHIN_S = 150  # a JVM on a busy machine

_names = itertools.count()


def member(broker: BrokerProcess, group: str, topic: str, count: int) -> Counter[str]:
    """What a member was given, with delivery counts, each after its decision was acknowledged."""
    clients = f"org.apache.kafka:kafka-clients:{VERSION}"
    command = compiled(SOURCES / "ShareMember.java", clients)
    run = subprocess.run(
        [*command, broker.bootstrap, group, topic, str(count)],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return Counter(run.stdout.splitlines())


def fill(client: Client, topic: str, *words: str) -> None:
    values = [f"{word}-{n}" for n in range(10) for word in words]
    client.produce(topic, [Record(n % 2, None, v.encode()) for n, v in enumerate(values)])


def test_decisions_of_a_member_hold_after_the_broker_was_killed(own_broker: BrokerProcess) -> None:
    with clients_of(own_broker) as client_named:
        judge_decisions(own_broker, client_named("confluent"))


def judge_decisions(own_broker: BrokerProcess, client: Client) -> None:
    client.create_topic("work", 2)
    fill(client, "work", "accept", "release", "reject")
    given = member(own_broker, "workers", "work", 40)
    expected = {f"{word}-{n} 1" for word in ("accept", "release", "reject") for n in range(10)}
    expected |= {f"release-{n} 2" for n in range(10)}
    assert given == Counter(expected)
    own_broker.kill()
    own_broker.start()
    fill(client, "work", "later")
    again = member(own_broker, "workers", "work", 10)
    assert again == Counter(f"later-{n} 1" for n in range(10))


def test_the_tools_of_apache_kafka_show_and_change_a_share_group(
    broker: BrokerProcess, client_named: Callable[[str], Client]
) -> None:
    client = client_named("confluent")
    topic = f"shared-work-{next(_names)}"
    client.create_topic(topic, 2)
    fill(client, topic, "accept")
    member(broker, topic, topic, 10)
    tools = ApacheTools(broker.bootstrap)

    def tool(name: str, *words: str) -> list[list[str]]:
        run = subprocess.run(
            [*on_the_jvm(tools.jars, name), "--bootstrap-server", broker.bootstrap, *words],
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )
        assert run.returncode == 0, run.stdout + run.stderr
        return [line.split() for line in run.stdout.splitlines() if line.strip()]

    of_group = ("--group", topic)
    shown = [[topic, topic, "0", "5", "0"], [topic, topic, "1", "5", "0"]]
    assert tool(SHARE_GROUPS, "--describe", *of_group)[1:] == shown
    tool(SHARE_GROUPS, "--reset-offsets", "--to-earliest", "--topic", topic, *of_group, "--execute")
    read = tool(
        SHARE_CONSUMER, "--topic", topic, *of_group, "--max-messages", "10", "--timeout-ms", "60000"
    )
    assert sorted(read) == [[f"accept-{n}"] for n in range(10)]
    assert [topic] in tool(SHARE_GROUPS, "--list")
    tool(SHARE_GROUPS, "--delete", *of_group)
    assert [topic] not in tool(SHARE_GROUPS, "--list")
