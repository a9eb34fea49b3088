"""What a seed means: how many of everything, how bad the world is, what happens when.

In this room: drawing a scenario, swarm-wise: each seed switches most faults off and few on.
Next door: carrying it out (runner.py).
Never here: anything that runs.
"""

import dataclasses
import random
from dataclasses import dataclass

import msgspec

from kafscale.settings.config import Config
from kafscale.settings.sections import (
    CacheSection,
    ConsumerSection,
    EtcdSection,
    PulsarSection,
    S3Section,
    StorageSection,
)
from kafscale.settings.values import PositiveSize, Seconds, Size
from kafscale.testing.simulated.network import NetworkFaults
from kafscale.testing.simulated.remote import RemoteFaults
from tests.simulation.places import KINDS
from tests.simulation.pulsar_producers import PORT as PULSAR_PORT

# What the nemesis can do, to a broker where it says so; see also `_deaf`.
BLOWS = (
    "crash",
    "pause",
    "suspend",
    "partition",
    "cut",
    "store cut",
    "etcd cut",
    "leave",
    "clock",
    "store down",
    "etcd down",
    "member",
)


@dataclass(frozen=True, slots=True)
class Blow:
    """One thing that happens."""

    at_s: float
    kind: str
    broker: int
    for_s: float


@dataclass(frozen=True, slots=True)
class Scenario:
    """All that a run depends on."""

    seed: int
    brokers: int
    partitions: int
    kinds: tuple[str, ...]  # of topics, one for each place that is written to
    has_neighbours: bool  # topics come and go in the shared logs meanwhile
    is_moving: bool  # topics move from one layout to another
    producers: int
    members: int
    records: int  # per producer and partition
    pause_s: float  # longest pause of a producer
    skews_ms: tuple[int, ...]
    store_skew_ms: int
    config: Config
    store: RemoteFaults
    etcd: RemoteFaults
    relist_chance: float
    network: NetworkFaults
    blows: tuple[Blow, ...]
    wander_chance: float  # a producer asks another broker for the leader, without need
    transactors: int = 0  # transactional ids, each with an epoch for each transaction or without
    transactions: int = 0  # of each

    @property
    def has_pulsar(self) -> bool:
        """Whether a producer of Pulsar takes part."""
        return self.config.pulsar.enabled

    @property
    def one_truth(self) -> bool:
        """Whether a partition has one broker at a time that serves it.

        Brokers that do not know of each other keep every record, but not what they say of the end.
        """
        return self.brokers == 1 or bool(self.config.etcd.endpoints)


def draw(seed: int) -> Scenario:
    """The scenario of a seed: three of five have a theme."""
    made = _of_kinds(_themed(seed), random.Random(f"{seed}/kinds"))
    made = _deaf(made, random.Random(f"{seed}/deaf"))
    return _with_pulsar(made) if random.Random(f"{seed}/pulsar").random() < 0.3 else made


def _with_pulsar(made: Scenario) -> Scenario:
    """A producer of Pulsar takes part, and its topics store no sequence id twice."""
    door = PulsarSection(port=PULSAR_PORT, deduplication=True)
    config = msgspec.structs.replace(made.config, pulsar=door)
    return dataclasses.replace(made, config=config)


def draw_transactional(seed: int) -> Scenario:
    """The same world, in which clients make transactions over all kinds of topics."""
    made = draw(seed)
    dice = random.Random(f"{seed}/transactions")
    made = dataclasses.replace(
        made,
        producers=1,
        records=10,
        members=0,
        has_neighbours=False,
        transactors=dice.choice((1, 2, 3)),
        transactions=dice.choice((8, 15)),
        pause_s=dice.choice((0.1, 0.5, 2.0)),
    )
    if made.one_truth:
        return made
    etcd = EtcdSection(endpoints=["simulated:2379"], lease_ttl=Seconds(4.0))
    return dataclasses.replace(made, config=msgspec.structs.replace(made.config, etcd=etcd))


def _deaf(made: Scenario, dice: random.Random) -> Scenario:
    """Brokers that hear late of topics which come and go in their fleet."""
    if not (made.has_neighbours and made.one_truth and made.brokers > 1):
        return made
    deaf = tuple(
        Blow(dice.random() * 20, "deaf", dice.randrange(made.brokers), dice.random() * 8)
        for _ in range(dice.choice((0, 2, 4, 8)))
    )
    return dataclasses.replace(made, blows=made.blows + deaf)


def _themed(seed: int) -> Scenario:
    dice = random.Random(f"{seed}/scenario")
    match seed % 5:
        case 2:
            return _moving(seed, dice)
        case 3:
            return _crowded(seed, dice)
        case 4:
            return _sleepy(seed, dice)
        case _:
            return _any(seed, dice)


def _of_kinds(made: Scenario, dice: random.Random) -> Scenario:
    """The topics of a seed: of four seeds one has ordinary topics only, the others shared logs."""
    among = dice.choice((("ordinary",), ("virtual",), ("shared", "shared-too"), tuple(KINDS)))
    shares = among != ("ordinary",)
    # A topic in a shared log needs another topic there.
    count = max(made.partitions, 2 if shares else 1)
    kinds = tuple(sorted(among[at % len(among)] for at in range(count)))
    if len(among) > count:
        kinds = tuple(sorted(dice.sample(among, count)))
    return dataclasses.replace(
        made,
        partitions=count,
        kinds=kinds,
        has_neighbours="shared" in among and dice.random() < 0.7,
        is_moving=made.one_truth and dice.random() < 0.4,
        config=msgspec.structs.replace(
            made.config,
            storage=msgspec.structs.replace(
                made.config.storage, shared_logs=dice.choice((0, 1, 1, 2))
            ),
        ),
    )


def _sleepy(seed: int, dice: random.Random) -> Scenario:
    """Writers without a fleet, all of the same log, that come back after names were deleted.

    No lease keeps them apart: the store alone prevents a broken promise.
    """
    made = _any(seed, dice)
    brokers, grace_s = dice.choice((2, 3)), 4.0
    storage = msgspec.structs.replace(
        made.config.storage,
        grace_period=Seconds(grace_s),
        housekeeping_interval=Seconds(1.0),
        rollup_objects=2,
    )
    return dataclasses.replace(
        made,
        brokers=brokers,
        partitions=1,
        records=dice.choice((20, 40)),
        pause_s=dice.choice((2.0, 6.0)),
        skews_ms=(0,) * brokers,
        wander_chance=0.3,
        config=msgspec.structs.replace(made.config, storage=storage, etcd=EtcdSection()),
        blows=tuple(
            Blow(dice.random() * 20, dice.choice(("pause", "suspend")), at % brokers, 2 * grace_s)
            for at in range(dice.randint(1, 3))
        ),
    )


def _moving(seed: int, dice: random.Random) -> Scenario:
    """A fleet that never comes to rest: what is owned changes hands all the time."""
    made = _any(seed, dice)
    brokers, lease_s = dice.choice((2, 3)), dice.choice((2.0, 4.0))
    kinds = ["leave", *(kind for kind in BLOWS if kind not in ("cut", "clock", "member"))]
    blows = []
    at_s = 1.0
    for _ in range(dice.randint(3, 8)):
        at_s += dice.random() * 2 * lease_s
        for_s = dice.random() * 3 * lease_s
        blows.append(Blow(at_s, dice.choice(kinds), dice.randrange(brokers), for_s))
    etcd = EtcdSection(endpoints=["simulated:2379"], lease_ttl=Seconds(lease_s))
    return dataclasses.replace(
        made,
        brokers=brokers,
        partitions=dice.choice((1, 3)),
        records=100,
        pause_s=dice.choice((0.3, 1.0)),
        skews_ms=tuple(dice.randint(-5_000, 5_000) for _ in range(brokers)),
        store=dataclasses.replace(
            made.store,
            jitter_s=dice.choice((0.05, 0.5, 1.0)),
            late_chance=dice.choice((0.0, 0.05)),
        ),
        config=msgspec.structs.replace(made.config, etcd=etcd),
        blows=tuple(blows),
    )


def _crowded(seed: int, dice: random.Random) -> Scenario:
    """A group whose members are away for longer than the group waits for them."""
    made = _any(seed, dice)
    members = dice.choice((2, 3))
    away = tuple(
        Blow(4 + dice.random() * 20, "member", dice.randrange(members), 5 + dice.random() * 10)
        for _ in range(dice.randint(1, 4))
    )
    return dataclasses.replace(
        made, members=members, producers=1, records=60, blows=made.blows[:2] + away
    )


def _any(seed: int, dice: random.Random) -> Scenario:
    brokers = dice.choice((1, 1, 2, 3))
    grace_s = dice.choice((6.0, 20.0, 60.0))
    return Scenario(
        seed=seed,
        brokers=brokers,
        partitions=dice.choice((1, 1, 2, 3)),
        kinds=(),
        has_neighbours=False,
        is_moving=False,
        producers=dice.choice((1, 2, 2, 3)),
        members=dice.choice((0, 0, 1, 2, 3)),
        records=dice.choice((10, 30, 60)),
        pause_s=dice.choice((0.1, 0.5, 2.0)),
        skews_ms=tuple(dice.choice((0, dice.randint(-20_000, 20_000))) for _ in range(brokers)),
        store_skew_ms=dice.randint(-2_000, 2_000),
        config=_config(dice, grace_s, is_fleet=brokers > 1 or dice.random() < 0.5),
        store=_remote_faults(dice, 0.05, latest_s=grace_s),
        etcd=_remote_faults(dice, 0.02, latest_s=5.0),
        relist_chance=dice.choice((0.0, 0.0, 0.2)),
        network=_network_faults(dice),
        blows=_blows(dice, brokers, grace_s),
        wander_chance=dice.choice((0.0, 0.0, 0.05)),
    )


def _config(dice: random.Random, grace_s: float, *, is_fleet: bool) -> Config:
    return Config(
        s3=S3Section(bucket="simulated"),
        etcd=EtcdSection(
            endpoints=["simulated:2379"] if is_fleet else [],
            lease_ttl=Seconds(dice.choice((2.0, 4.0, 10.0))),
        ),
        storage=StorageSection(
            flush_interval_ms=dice.choice((0, 20, 100, 500)),
            flush_messages=dice.choice((0, 3, 10_000)),
            flush_bytes=PositiveSize(dice.choice((200, 4 << 20))),
            segment_bytes=PositiveSize(dice.choice((1 << 10, 100 << 20))),
            rollup_objects=dice.choice((2, 5, 20, 500)),
            grace_period=Seconds(grace_s),
            housekeeping_interval=Seconds(dice.choice((1.0, 3.0, 30.0))),
        ),
        cache=CacheSection(tail_cache_size=Size(dice.choice((2000, 256 << 20)))),
        consumer=ConsumerSection(initial_rebalance_delay_ms=dice.choice((0, 500))),
        pulsar=PulsarSection(enabled=False),
    )


def _remote_faults(dice: random.Random, often: float, latest_s: float) -> RemoteFaults:
    return RemoteFaults(
        latency_s=dice.choice((0.001, 0.02)),
        jitter_s=dice.choice((0.002, 0.05, 0.5)),
        fail_chance=dice.choice((0.0, 0.0, often)),
        lost_answer_chance=dice.choice((0.0, 0.0, often)),
        late_chance=dice.choice((0.0, 0.0, often / 2)),
        latest_s=latest_s,
    )


def _network_faults(dice: random.Random) -> NetworkFaults:
    return NetworkFaults(
        latency_s=0.0003,
        jitter_s=dice.choice((0.0005, 0.005, 0.2)),
        pieces=dice.choice((1, 1, 3)),
        cut_chance=dice.choice((0.0, 0.0, 0.01)),
        silent_death_chance=dice.choice((0.0, 0.5)),
    )


def _blows(dice: random.Random, brokers: int, grace_s: float) -> tuple[Blow, ...]:
    kinds = [kind for kind in BLOWS if dice.random() < 0.4]
    blows = []
    at_s = 1.0
    for _ in range(dice.randint(0, 6) if kinds else 0):
        at_s += dice.random() * 5
        longest_s = dice.choice((0.5, 3.0, 10.0, 2 * grace_s if dice.random() < 0.3 else 1.0))
        kind = dice.choice(kinds)
        blows.append(Blow(at_s, kind, dice.randrange(brokers), dice.random() * longest_s))
    return tuple(blows)
