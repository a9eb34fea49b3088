"""One run of a scenario: build the world, run clients, carry out faults, heal, check.

In this room: one run from seed to report.
Next door: what a seed means (scenario.py), the checker (notes.py), many seeds (__main__.py).
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from kafscale.testing.simulated.broker import PORT, SimulatedBroker, SimulatedWorld
from kafscale.testing.simulated.clock import wall_ms
from kafscale.testing.simulated.isolation import isolated
from kafscale.testing.simulated.loop import SimulatedLoop, SimulatedProcess, SimulationStuck
from kafscale.testing.simulated.metadata import SimulatedEtcd
from kafscale.testing.simulated.network import NetworkFaults, SimulatedNetwork
from kafscale.testing.simulated.remote import RemoteFaults
from kafscale.testing.simulated.store import SimulatedBucket
from tests.faults import checker
from tests.faults.history import NOTHING, OK, History, Listed, Removed, Stored, Trouble
from tests.faults.transaction_checker import COMMIT, TransactionHistory, check_transactions
from tests.simulation.administration import Mover, Neighbour, be_known, create
from tests.simulation.cluster import Cluster
from tests.simulation.committed import CommittedReader, read_the_end
from tests.simulation.members import Member
from tests.simulation.places import Plan, places, plans
from tests.simulation.producers import Producer
from tests.simulation.pulsar_producers import PulsarProducer
from tests.simulation.readers import Reader, Watcher, read_all
from tests.simulation.scenario import Blow, Scenario, draw, draw_transactional
from tests.simulation.transactors import Transactor

TRANSFERS = "transfers"  # the topics that transactions write to
HEALED_S = 180.0  # how long producers may need after the last fault
QUIET = RemoteFaults(latency_s=0.001, jitter_s=0.002)


@dataclass(slots=True)
class Report:
    """What came of a seed."""

    seed: int
    problems: list[str]
    trace_hash: str
    virtual_s: float
    acknowledged: int = 0
    read: int = 0
    committed: int = 0
    neighbours: int = 0  # topics that came and went
    moves: int = 0  # of partitions, from one layout to another
    transactions: int = 0  # that were acknowledged as committed
    lines: list[str] = field(default_factory=list)


def run(seed: int, *, verbose: bool = False) -> Report:
    """Run one seed."""
    return run_scenario(draw(seed), verbose=verbose)


def run_transactional(seed: int, *, verbose: bool = False) -> Report:
    """Run one seed, with transactions."""
    return run_scenario(draw_transactional(seed), verbose=verbose)


def run_scenario(scenario: Scenario, *, verbose: bool = False) -> Report:
    """Run one scenario; the same one twice gives the same report."""
    loop = SimulatedLoop(scenario.seed)
    loop.lines = [] if verbose else None
    with isolated(loop.say if verbose else None):
        try:
            return _report(loop, scenario)
        finally:
            loop.close()


def _report(loop: SimulatedLoop, scenario: Scenario) -> Report:
    run_of = _Run(loop, scenario)
    try:
        problems = loop.run_until_complete(run_of.play())
    except SimulationStuck as stuck:
        problems = [f"stuck: {stuck}"]
    history = run_of.history
    return Report(
        scenario.seed,
        problems + [f"failure: {line}" for line in loop.failures],
        loop.trace_hash(),
        loop.time() - 1000.0,
        len(history.acknowledged()),
        len(history.polls),
        len(history.commits),
        history.lives,
        sum(one.value == NOTHING for one in history.found),
        sum(one.wanted == COMMIT and one.outcome == OK for one in run_of.transactions.transactions),
        loop.lines or [],
    )


def rewound(history: History) -> Iterator[checker.Finding]:
    """Our members only ever go forward, so that no commit may follow one of a higher offset."""
    done = [one for one in history.commits if one.outcome == OK]
    for later in done:
        for earlier in done:
            in_turn = earlier.ended_s < later.begun_s and earlier.partition == later.partition
            if in_turn and later.offset < earlier.offset:
                text = f"{later.partition}: {later.offset} was committed after {earlier.offset}"
                yield checker.Finding("commit undone", text)
                return


class _Run:
    def __init__(self, loop: SimulatedLoop, scenario: Scenario) -> None:
        self.scenario = scenario
        self.loop = loop
        self.places = places(scenario.kinds)
        self.history = History(len(self.places))
        self.transfers = places(scenario.kinds, TRANSFERS) if scenario.transactors else []
        self.transactions = TransactionHistory()
        seed, context = scenario.seed, loop.world.context()
        self.world = SimulatedWorld(
            seed,
            loop,
            SimulatedNetwork(loop, seed, scenario.network),
            SimulatedBucket(
                lambda: wall_ms(loop.time(), scenario.store_skew_ms),
                seed,
                scenario.store,
                context,
                loop.note,
            ),
            SimulatedEtcd(seed, scenario.etcd, context, loop.note),
        )
        self.world.etcd.relist_chance = scenario.relist_chance
        self.world.bucket.on_created = self._note_created
        self.world.bucket.on_deleted = self._note_deleted
        self.brokers = [
            SimulatedBroker(self.world, number, scenario.config, skew_ms)
            for number, skew_ms in enumerate(scenario.skews_ms)
        ]
        self.clients = loop.process("clients")
        self.members: list[SimulatedProcess] = []

    async def play(self) -> list[str]:
        """The whole run; gives what is wrong."""
        for broker in self.brokers:
            broker.start()
        for plan in self._plans():
            creator = self._cluster("creator")
            await self._as_client(create(creator, plan))
            await self._as_client(be_known(creator, plan))
        producing, following = self._start_clients()
        await asyncio.gather(*map(self._strike, self.scenario.blows))
        self._heal()
        _, late = await asyncio.wait(producing, timeout=HEALED_S)
        if late:
            self._trouble(f"{len(late)} producers have not finished")
        await asyncio.sleep(8.0 if self.scenario.members else 1.0)  # readers catch up
        for task in (*following, *late):
            task.cancel()
        await asyncio.wait([*producing, *following])
        for task in (*producing, *following):
            if not task.cancelled() and task.exception() is not None:
                raise RuntimeError("a client failed") from task.exception()
        return await self._check()

    def _plans(self) -> list[Plan]:
        """All topics."""
        kinds = self.scenario.kinds
        if not self.transfers:
            return plans(kinds)
        buffered = {"transactions.buffered": "true"} if self.scenario.seed // 2 % 2 else {}
        return plans(kinds) + plans(kinds, TRANSFERS, buffered)

    def _cluster(self, name: str) -> Cluster:
        hosts = [broker.host for broker in self.brokers]
        return Cluster(self.world.network, hosts, PORT, name, self.scenario.seed)

    async def _as_client(self, work: Any) -> Any:
        return await self.clients.start(work)

    def _start_clients(self) -> tuple[list[asyncio.Task[None]], list[asyncio.Task[None]]]:
        scenario, history = self.scenario, self.history
        producing = []
        for number in range(scenario.producers):
            producer = Producer(
                self._cluster(f"producer-{number}"),
                history,
                idempotent=number != 2,
                strict=scenario.one_truth,
                wander_chance=scenario.wander_chance,
            )
            work = producer.run(self.places, scenario.records, scenario.pause_s)
            producing.append(self.clients.start(work))
        if scenario.has_pulsar:
            sender = PulsarProducer(self._cluster("pulsar"), self.world.network, history)
            work = sender.run(self.places, scenario.records, scenario.pause_s)
            producing.append(self.clients.start(work))
        reader = Reader(self._cluster("reader"), history, strict=scenario.one_truth)
        watcher = Watcher(self._cluster("watcher"), history)
        following = [
            self.clients.start(reader.run(self.places)),
            self.clients.start(watcher.run(self.places)),
        ]
        if scenario.is_moving:
            mover = Mover(self._cluster("mover"), self._plans(), history)
            following.append(self.clients.start(mover.run()))
        if scenario.has_neighbours:
            for name in ("neighbour", "another"):
                coming = Neighbour(self._cluster(name), history, strict=scenario.one_truth)
                following.append(self.clients.start(coming.run()))
        producing += self._start_transactions(following)
        for number in range(scenario.members):
            cluster = self._cluster(f"member-{number}")
            member = Member(cluster, self.places, history)
            process = self.loop.process(f"member-{number}")
            self.members.append(process)
            following.append(process.start(member.run()))
        return producing, following

    def _start_transactions(self, following: list[asyncio.Task[None]]) -> list[asyncio.Task[None]]:
        scenario, history = self.scenario, self.transactions
        if not self.transfers:
            return []
        reader = CommittedReader(self._cluster("committed"), history)
        following.append(self.clients.start(reader.run(self.transfers)))
        begun = []
        for number in range(scenario.transactors):
            cluster = self._cluster(f"transactor-{number}")
            one = Transactor(cluster, history, raises_epoch=(scenario.seed + number) % 2 == 0)
            work = one.run(self.transfers, scenario.transactions, scenario.pause_s)
            begun.append(self.clients.start(work))
        return begun

    def _trouble(self, what: str) -> None:
        self.history.troubles.append(Trouble("runner", what, self.loop.time()))

    def _note_created(self, who: str, key: str, body: bytes) -> None:
        now_s, digest = self.loop.time(), blake2b(body, digest_size=8).hexdigest()
        self.history.stored.append(Stored(who, key, digest, now_s, now_s, OK))

    def _note_deleted(self, who: str, key: str) -> None:
        self.history.removed.append(Removed(who, key, self.loop.time()))

    # -- what goes wrong -----------------------------------------------------------------------

    async def _strike(self, blow: Blow) -> None:
        await asyncio.sleep(blow.at_s)
        broker, world = self.brokers[blow.broker % len(self.brokers)], self.world
        self.loop.note(f"blow {blow}")
        match blow.kind:
            case "store down":
                world.bucket.is_down = True
                await asyncio.sleep(blow.for_s)
                world.bucket.is_down = False
            case "etcd down":
                world.etcd.is_down = True
                await asyncio.sleep(blow.for_s)
                world.etcd.is_down = False
            case "member" if self.members:
                self.members[blow.broker % len(self.members)].pause(blow.for_s)
            case "clock":
                broker.turn_clock(int(blow.for_s * 1000))
            case _ if broker.is_up:
                await self._strike_broker(blow, broker)

    async def _strike_broker(self, blow: Blow, broker: SimulatedBroker) -> None:
        process, store, metadata = broker.process, broker.store, broker.metadata
        assert process is not None
        assert store is not None
        assert metadata is not None
        match blow.kind:
            case "crash":
                broker.crash()
                await self._come_back(broker, blow.for_s)
            case "leave":
                await broker.leave()
                await self._come_back(broker, blow.for_s)
            case "pause" | "suspend":
                process.pause(blow.for_s, suspended=blow.kind == "suspend")
            case "partition":
                self.world.network.partition(process, blow.for_s)
            case "cut":
                self.world.network.cut_some(process, 0.5)
            case "store cut" | "etcd cut":
                line = store if blow.kind == "store cut" else metadata
                line.is_cut = True
                await asyncio.sleep(blow.for_s)
                line.is_cut = False
            case "deaf":
                metadata.is_deaf = True
                await asyncio.sleep(blow.for_s)
                metadata.is_deaf = False

    async def _come_back(self, broker: SimulatedBroker, after_s: float) -> None:
        await asyncio.sleep(after_s)
        if not broker.is_up:
            broker.start()

    def _heal(self) -> None:
        """Every blow is over by now; from here on nothing goes wrong any more."""
        self.loop.note("healed")
        world = self.world
        world.bucket.faults = world.etcd.faults = QUIET
        world.network.faults = NetworkFaults()

    # -- what came of it -----------------------------------------------------------------------

    async def _check(self) -> list[str]:
        bucket = self.world.bucket.objects
        for broker in self.brokers:  # what counts is what is in the bucket
            broker.crash()
            broker.start()
        self.history.found += await self._as_client(read_all(self._cluster("auditor"), self.places))
        if self.scenario.members:
            await self._as_client(self._resume_all())
        if self.transfers:
            owners = [f"transactor-{number}" for number in range(self.scenario.transactors)]
            cluster = self._cluster("committed-auditor")
            work = read_the_end(cluster, self.transfers, owners, self.transactions)
            await self._as_client(work)
        self.history.listed += [
            Listed(row.key, blake2b(await bucket.read(row.key), digest_size=8).hexdigest())
            for row in await bucket.find("")
        ]
        return [
            f"{finding.kind}: {finding.text}" for finding in check_transactions(self.transactions)
        ] + [
            f"{finding.kind}: {finding.text}"
            for judge in (*checker.JUDGES, rewound)
            if self.scenario.one_truth or judge not in (checker.watermarks, checker.owners)
            for finding in judge(self.history)
        ]

    async def _resume_all(self) -> None:
        """Ask once more where the group has come to."""
        member = Member(self._cluster("last"), self.places, self.history)
        for place in self.places:
            await member.resume_at_last(place)
