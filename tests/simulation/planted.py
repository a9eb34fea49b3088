"""Bugs on purpose, to see that the simulation finds them.

In this room: one function per bug; each breaks one promise of the system under test.
Next door: how soon each must be found (test_planted.py).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import msgspec

from kafscale.engine.cluster import fleet_state
from kafscale.engine.cluster.fleet import Fleet
from kafscale.engine.cluster.fleet_state import FleetState
from kafscale.engine.moves.moves import Moves
from kafscale.engine.topics import changes
from kafscale.engine.topics.registry import TopicRegistry
from kafscale.engine.topics.topic import Resident, Topic
from kafscale.engine.transactions import coordinator
from kafscale.engine.transactions.coordinator import Coordinator
from kafscale.engine.transactions.endings import Endings
from kafscale.engine.transactions.unclaimed import Unclaimed
from kafscale.engine.upkeep.removals import Removals
from kafscale.groups.classic.machine import ClassicGroup
from kafscale.groups.events import Accepted
from kafscale.log.catalog.lane_allotment import SharedLogs
from kafscale.log.formats import places
from kafscale.log.formats.producers import ProducerTable
from kafscale.log.formats.transactions import LaneTransactions
from kafscale.log.moves import end_of_topic
from kafscale.log.protocol import commits, end_of_log, opening
from kafscale.log.upkeep import reclaim
from kafscale.log.writer.committed import CommittedLog
from kafscale.log.writer.log import Log
from kafscale.log.writer.types import Appended
from kafscale.metadata import keys as metadata_keys
from kafscale.model.buffers import Buffer
from kafscale.model.topics import LaneRange, Layout, Move, TopicDescriptor
from kafscale.objects.memory import MemoryObjectStore
from kafscale.records.batch import BatchHeader
from kafscale.testing.simulated.metadata import SimulatedEtcd
from kafscale.transactions import machine

Planting = Callable[[], AbstractContextManager[Any]]


def store_that_overwrites() -> AbstractContextManager[Any]:
    """The store overwrites: the whole log rests on create-if-absent."""
    honest = MemoryObjectStore.put_new

    async def put(self: MemoryObjectStore, key: str, body: Sequence[Buffer]) -> None:
        await self.delete([key])
        await honest(self, key, body)

    return patch.object(MemoryObjectStore, "put_new", put)


def broker_that_answers_before_the_put() -> AbstractContextManager[Any]:
    honest = Log.append

    def append(self: Log, *args: Any, **kwargs: Any) -> Appended:
        return honest(self, *args, **kwargs)._replace(committed=None)

    return patch.object(Log, "append", append)


def log_that_forgets_producers() -> AbstractContextManager[Any]:
    return patch.object(ProducerTable, "judge", lambda *_: None)


def log_that_forgets_names() -> AbstractContextManager[Any]:
    """What a producer of Pulsar sends again is stored again."""
    return patch.object(ProducerTable, "_judge_named", lambda *_: None)


def opening_that_forgets_names() -> AbstractContextManager[Any]:
    """Names are known as long as a broker runs, and not from the bucket."""
    honest = CommittedLog.load

    def load(self: CommittedLog, opened: Any) -> None:
        honest(self, opened)
        for lane in self.lanes.values():
            lane.producers.forget_names()

    return patch.object(CommittedLog, "load", load)


def opening_that_ignores_the_tail() -> AbstractContextManager[Any]:
    return patch.object(opening, "walk", lambda *_: [])


def writer_that_takes_any_segment_for_its_own() -> AbstractContextManager[Any]:
    """Rule 2: what is there under our name is ours only if its content id is."""

    async def is_stored(*_: Any) -> bool:
        return True

    return patch.object(commits, "is_stored", is_stored)


def writer_that_never_proves_its_tail() -> AbstractContextManager[Any]:
    """Rule 3: a paused writer may re-create a name that was deleted."""

    async def proven(*_: Any) -> bool:
        return True

    return patch.object(Log, "_tail_is_proven", proven)


def metadata_without_guards() -> AbstractContextManager[Any]:
    honest = SimulatedEtcd.commit
    return patch.object(
        SimulatedEtcd, "commit", lambda self, writes, guards: honest(self, writes, ())
    )


def group_that_lets_every_client_commit() -> AbstractContextManager[Any]:
    def commit(self: ClassicGroup, event: Any, _now_s: float) -> None:
        self._answer(event.call, Accepted())

    return patch.object(ClassicGroup, "_commit", commit)


@contextmanager
def broker_that_ignores_the_end_of_its_lease() -> Iterator[None]:
    """A broker goes on answering for what other brokers have taken over."""
    with (
        patch.object(FleetState, "lose", lambda _: None),
        patch.object(Fleet, "_drop_all", lambda _: None),
        patch.object(Fleet, "holds", lambda _: True),
    ):
        yield


def broker_that_takes_over_at_once() -> AbstractContextManager[Any]:
    """A broker does not wait until the former owner has let go."""
    return patch.object(fleet_state, "behind", lambda *_: ())


# Logs that many topics share.


def lanes_that_are_dealt_out_again() -> AbstractContextManager[Any]:
    """Every topic that asks for lanes of shared logs gets the first ones."""
    honest = SharedLogs.allot

    async def allot(self: SharedLogs, count: int, logs: int) -> LaneRange:
        return msgspec.structs.replace(await honest(self, count, logs), first=0)

    return patch.object(SharedLogs, "allot", allot)


def deletion_of_all_that_lies_where_the_topic_lay() -> AbstractContextManager[Any]:
    """Deletes the folder, which is right only for topics with logs of their own."""
    honest = Removals.remove_deleted_topics

    async def remove(self: Removals) -> None:
        for entry in await self._metadata.find(metadata_keys.REMOVALS):
            removal = metadata_keys.decode(metadata_keys.Removal, entry.value)
            for folder in dict.fromkeys(row.folder for row in places.lanes_of(removal.shared)):
                await self._store.delete([row.key for row in await self._store.find(folder)])
        await honest(self)

    return patch.object(Removals, "remove_deleted_topics", remove)


def retention_of_one_topic_for_all_its_neighbours() -> AbstractContextManager[Any]:
    """Every lane of a log goes by the settings of the topic that keeps its records shortest."""
    honest = TopicRegistry.residents

    def residents(self: TopicRegistry, folder: str) -> dict[int, Resident]:
        found = dict(honest(self, folder))
        shortest = min(
            found.values(), key=lambda row: row.topic.settings.retention_ms, default=None
        )
        return found if shortest is None else dict.fromkeys(found, shortest)

    return patch.object(TopicRegistry, "residents", residents)


def reclaiming_that_takes_the_living_for_dead() -> AbstractContextManager[Any]:
    """An object is rewritten without a lane that a topic still has."""
    return patch.object(reclaim, "is_alive", lambda span, _: span.lane % 2 == 0)


# Topics that move.


def seal_that_the_writer_ignores() -> AbstractContextManager[Any]:
    """The old place goes on taking records when its topic has moved away."""
    return patch.object(ProducerTable, "is_sealed", property(lambda _: False))


def move_that_forgets_producers() -> AbstractContextManager[Any]:
    """The new place does not know what producers sent before."""
    honest = Log.adopt

    def adopt(log: Log, number: int, header: BatchHeader, data: memoryview) -> Any:
        with patch.object(ProducerTable, "remember", lambda *_: None):
            return honest(log, number, header, data)

    return patch.object(Log, "adopt", adopt)


def move_that_leaves_the_last_records_behind() -> AbstractContextManager[Any]:
    """The controller names the new place while the copy has only nearly caught up."""
    honest = Moves._decide

    async def decide(
        self: Moves, topic: Topic, home: TopicDescriptor, move: Move, said: Any
    ) -> None:
        done = {folder: msgspec.structs.replace(row, state="done") for folder, row in said.items()}
        await honest(self, topic, home, move, done)

    return patch.object(Moves, "_decide", decide)


def move_that_is_called_off_too_late() -> AbstractContextManager[Any]:
    """The topic stays where it is, though lanes may be sealed."""
    honest = changes._sent_to

    def sent_to(topic: TopicDescriptor, asked: tuple[Layout, int], place: Any) -> TopicDescriptor:
        if asked == (topic.layout, topic.logs):
            return msgspec.structs.replace(topic, moving=None)
        return honest(topic, asked, place)

    return patch.object(changes, "_sent_to", sent_to)


# Topics that come again.


def name_that_is_given_away_while_its_old_logs_are_open() -> AbstractContextManager[Any]:
    """A broker that has not heard of the deletion goes on with the old topic."""

    async def end_nothing(*_: Any) -> None:
        pass

    return patch.object(end_of_topic, "end_topic", end_nothing)


def end_that_is_said_but_not_at_the_tail() -> AbstractContextManager[Any]:
    """A broker that opens the log sees its end; a broker that has it open does not."""

    async def leave_it(*_: Any) -> bool:
        return True

    return patch.object(end_of_log, "_take_the_tail", leave_it)


# Transactions.


def transaction_that_is_done_too_early() -> AbstractContextManager[Any]:
    """Rule T6: the row is done while partitions lack their marker."""
    honest = Endings._mark

    async def mark(self: Endings, name: str, row: Any, missing: Any) -> Any:
        await honest(self, name, row, sorted(missing)[:1])
        return set(missing)

    return patch.object(Endings, "_mark", mark)


def gate_that_asks_no_row() -> AbstractContextManager[Any]:
    """Rule T2: a batch is stored whether its partition is registered or not."""

    async def verified(_: Any, __: str, ___: Any, places: Any, *____: Any) -> Any:
        return list(places)

    stack = ExitStack()
    stack.enter_context(patch.object(Coordinator, "register", verified))
    stack.enter_context(patch.object(Coordinator, "verify", verified))
    return stack


def owner_that_aborts_what_a_row_claims() -> AbstractContextManager[Any]:
    """Rule T7: an owner ends open transactions without a look at their row."""
    honest = Unclaimed._judge

    async def judge(self: Unclaimed, _: Any, *args: Any) -> None:
        await honest(self, None, *args)

    return patch.object(Unclaimed, "_judge", judge)


def broker_that_does_not_say_what_it_holds() -> AbstractContextManager[Any]:
    """Rules B1 and B2: records wait in the memory of a broker, and the row names no session."""
    return patch.object(coordinator, "_new_sessions", lambda *_: [])


def offsets_that_are_forgotten() -> AbstractContextManager[Any]:
    """Rule T15: a transaction is done without its offsets."""

    async def offsets(*_: Any) -> Any:
        return [], []

    return patch.object(Endings, "_offsets", offsets)


def reader_that_sees_open_transactions() -> AbstractContextManager[Any]:
    """Rule T10: the last stable offset is the end of the partition."""
    return patch.object(LaneTransactions, "first_open", lambda _: None)


def manifest_that_forgets_transactions() -> AbstractContextManager[Any]:
    """Rule T11: a manifest does not hand on what is open or aborted."""
    return patch.object(LaneTransactions, "marks", lambda *_: None)


def instance_that_does_not_fence() -> AbstractContextManager[Any]:
    """Rule T14: a new instance gets the epoch of the old one."""
    honest = machine._next_instance

    def next_instance(row: Any, *args: Any) -> Any:
        return msgspec.structs.replace(honest(row, *args), epoch=row.epoch)

    def decided(row: Any, state: Any, *args: Any, raises: bool) -> Any:
        return honest_decided(row, state, *args, raises=False)

    honest_decided = machine._decided
    stack = ExitStack()
    stack.enter_context(patch.object(machine, "_next_instance", next_instance))
    stack.enter_context(patch.object(machine, "_decided", decided))
    return stack
