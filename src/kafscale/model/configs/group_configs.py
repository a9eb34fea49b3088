"""The settings that a group can have of its own, by Kafka's names.

Here: name, default, legal values, and a group's settings as a value.
Next door: where they are kept (engine/coordinator/group_configs.py).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kafscale.model.configs.topic_configs import ConfigType
from kafscale.model.errors import InvalidGroupConfig

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
_BY_DURATION: Final = re.compile(
    r"by_duration:P(?:(\d{1,6})D)?(?:T(?:(\d{1,6})H)?(?:(\d{1,6})M)?(?:(\d{1,9}(?:\.\d{1,9})?)S)?)?"
)


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """One setting. A number has bounds, a text has words."""

    name: str
    default: str
    doc: str
    low: int = 0
    high: int = 0
    words: tuple[str, ...] = ()

    @property
    def type(self) -> ConfigType:
        """Its type as tools show it."""
        if self.words == ("true", "false"):
            return ConfigType.BOOLEAN
        return ConfigType.STRING if self.words else ConfigType.INT

    def check(self, value: str) -> None:
        """Raise InvalidGroupConfig unless the value is legal."""
        if self.words:
            is_legal = value in self.words or (
                self.name == AUTO_OFFSET_RESET and _BY_DURATION.fullmatch(value) is not None
            )
            expected = "one of " + ", ".join(self.words)
        else:
            is_legal = value.isdecimal() and len(value) < 10 and self.low <= int(value) <= self.high
            expected = f"a number from {self.low} to {self.high}"
        if not is_legal:
            raise InvalidGroupConfig(f"{self.name}: expected {expected}, not {value!r}")


AUTO_OFFSET_RESET: Final = "share.auto.offset.reset"
_ALL: Final = (
    GroupConfig(
        "consumer.session.timeout.ms",
        "45000",
        "How long a member of a consumer group may be silent.",
        45_000,
        60_000,
    ),
    GroupConfig(
        "consumer.heartbeat.interval.ms",
        "5000",
        "How often members of a consumer group send heartbeats.",
        5_000,
        15_000,
    ),
    GroupConfig(
        "share.session.timeout.ms",
        "45000",
        "How long a member of a share group may be silent.",
        45_000,
        60_000,
    ),
    GroupConfig(
        "share.heartbeat.interval.ms",
        "5000",
        "How often members of a share group send heartbeats.",
        5_000,
        15_000,
    ),
    GroupConfig(
        "share.record.lock.duration.ms",
        "30000",
        "How long a member has a record before another member gets it.",
        15_000,
        60_000,
    ),
    GroupConfig(
        "share.delivery.count.limit",
        "5",
        "How often a record is delivered that no member accepts.",
        2,
        10,
    ),
    GroupConfig(
        "share.partition.max.record.locks",
        "2000",
        "How many records of a partition members have at a time.",
        100,
        4_000,
    ),
    GroupConfig(
        AUTO_OFFSET_RESET,
        LATEST,
        "Where a share group begins to read a partition; by_duration:PT1H: one hour ago.",
        words=(EARLIEST, LATEST),
    ),
    GroupConfig(
        "share.isolation.level",
        "read_uncommitted",
        "Whether a share group gets records of transactions that are open or were aborted.",
        words=("read_uncommitted", "read_committed"),
    ),
    GroupConfig(
        "share.renew.acknowledge.enable",
        "true",
        "Whether members of a share group may keep a record for longer.",
        words=("true", "false"),
    ),
)
GROUP_CONFIGS: Final[dict[str, GroupConfig]] = {config.name: config for config in _ALL}


class GroupSettings:
    """What holds for one group: its own settings, and the defaults of the others."""

    __slots__ = ("own",)

    def __init__(self, own: Mapping[str, str]) -> None:
        self.own = own

    def text(self, name: str) -> str:
        """A setting as text."""
        return self.own.get(name, GROUP_CONFIGS[name].default)

    def number(self, name: str) -> int:
        """A setting as a number."""
        return int(self.text(name))

    def seconds(self, name: str) -> float | None:
        """A time that the group has of its own; None: the broker's holds."""
        return int(self.own[name]) / 1000 if name in self.own else None

    @property
    def start_before_ms(self) -> int | None:
        """How far in the past a share group begins; None: at one of the ends."""
        found = _BY_DURATION.fullmatch(self.text(AUTO_OFFSET_RESET))
        if found is None:
            return None
        days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
        return round((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)


def check_group_configs(configs: Mapping[str, str]) -> None:
    """Raise InvalidGroupConfig if one of them does not exist or has an illegal value."""
    for name, value in configs.items():
        if name not in GROUP_CONFIGS:
            raise InvalidGroupConfig(f"groups have no setting {name!r}")
        GROUP_CONFIGS[name].check(value)
    settings = GroupSettings(configs)
    for kind in ("consumer", "share"):
        if settings.number(f"{kind}.session.timeout.ms") <= settings.number(
            f"{kind}.heartbeat.interval.ms"
        ):
            raise InvalidGroupConfig("a session lasts longer than the interval of heartbeats")
