"""What the configuration says about new topics: limits, defaults and layouts.

Next door: creating topics (lifecycle.py), the arithmetic of layouts (virtual/).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafscale.model.errors import InvalidPartitionCount, InvalidTopicConfig
from kafscale.model.topics import Layout, TopicDefaults, TopicDescriptor, validate_configs
from kafscale.virtual.rules import LayoutRules


@dataclass(frozen=True, slots=True)
class TopicRules:
    """Rules for all topics of a namespace."""

    namespace: str
    defaults: TopicDefaults
    default_partitions: int
    max_partitions: int  # where each has its own log; else the most logs
    max_virtual_partitions: int
    layouts: LayoutRules = field(default_factory=LayoutRules)
    shared_logs: int = 0  # how many there are to be; 0: one per broker
    namespaces_on_demand: bool = True  # a topic makes its tenant and namespace

    def check(self, name: str, partitions: int, configs: Mapping[str, str | None]) -> None:
        """Raise what is wrong with the numbers and settings of a new topic."""
        validate_configs(configs)
        logs = self._logs_of(name, partitions, configs)
        uses_shared_logs = self._uses_shared_logs(name, configs)
        if uses_shared_logs and int(configs.get("physical.partitions") or -1) != -1:
            raise InvalidTopicConfig("physical.partitions: a topic in shared logs has none")
        self.check_count(partitions, is_virtual=logs is not None or uses_shared_logs)
        if logs is not None and logs > min(partitions, self.max_partitions):
            raise InvalidTopicConfig(
                f"physical.partitions: {logs} logs are more than {partitions} partitions "
                f"or the limit of {self.max_partitions}"
            )

    def check_count(self, partitions: int, *, is_virtual: bool) -> None:
        """Raise InvalidPartitionCount for too many partitions or none."""
        most = self.max_virtual_partitions if is_virtual else self.max_partitions
        if not 1 <= partitions <= most:
            raise InvalidPartitionCount(f"a topic has 1 to {most} partitions, not {partitions}")

    def partition_count(self, name: str, asked: int) -> int:
        """-1 means: as many as the configuration says."""
        if asked != -1:
            return asked
        return self.layouts.layout_of(name).virtual_partitions or self.default_partitions

    def lay_out(self, name: str, partitions: int, configs: dict[str, str]) -> int | None:
        """How many logs a new topic's partitions share; None: each partition has its own log.

        Completes `configs`, so that a topic's own settings say what it is made of.
        """
        if self._uses_shared_logs(name, configs):
            configs["storage.placement"] = "shared"
            return None
        logs = self._logs_of(name, partitions, configs)
        if logs is not None:
            configs["physical.partitions"] = str(logs)
            configs.setdefault("offset.range", str(self.layouts.layout_of(name).offset_range))
        return logs

    def laid_out(
        self, topic: TopicDescriptor, configs: Mapping[str, str], *, as_new: bool
    ) -> tuple[Layout, int]:
        """The layout, and the number of own logs, that new settings of a topic ask for.

        Where they say nothing the topic is laid out as a new one if `as_new`, else as it is now.
        """
        partitions = topic.partitions
        layout, now = _wanted_now(topic)
        own = int(configs.get("physical.partitions", "-1"))
        if as_new:
            uses_shared_logs = self._uses_shared_logs(topic.name, configs)
            logs = self._logs_of(topic.name, partitions, configs) or -1
        else:
            placement = configs.get("storage.placement")
            uses_shared_logs = (
                placement == "shared" if placement else layout == "shared" and own == -1
            )
            is_kept = layout == "virtual" and "physical.partitions" not in configs
            logs = now if is_kept else own
        if uses_shared_logs:
            if own != -1:
                raise InvalidTopicConfig("physical.partitions: a topic in shared logs has none")
            self.check_count(partitions, is_virtual=True)
            return "shared", 0
        if logs == -1:
            self.check_count(partitions, is_virtual=False)
            return "ordinary", partitions
        if logs > min(partitions, self.max_partitions):
            raise InvalidTopicConfig(
                f"physical.partitions: {logs} logs are more than {partitions} partitions "
                f"or the limit of {self.max_partitions}"
            )
        return "virtual", logs

    def default_place(self, topic: TopicDescriptor) -> dict[str, str]:
        """The settings of a topic's place by default, if the topic set none itself."""
        rest = {name: value for name, value in topic.configs.items() if name != "storage.placement"}
        uses_shared_logs = self._uses_shared_logs(topic.name, rest)
        planned = self.layouts.layout_of(topic.name).physical_partitions
        return {
            "storage.placement": "shared" if uses_shared_logs else "dedicated",
            "physical.partitions": str(-1 if planned is None else min(planned, topic.partitions)),
        }

    def _uses_shared_logs(self, name: str, configs: Mapping[str, str | None]) -> bool:
        """The topic's own setting decides, then whether it is virtual, then the default."""
        placement = configs.get("storage.placement")
        if placement is not None:
            return placement == "shared"
        has_own_logs = int(configs.get("physical.partitions") or -1) != -1
        planned = self.layouts.layout_of(name).physical_partitions is not None
        return self.defaults.placement == "shared" and not has_own_logs and not planned

    def _logs_of(self, name: str, partitions: int, configs: Mapping[str, str | None]) -> int | None:
        if self._uses_shared_logs(name, configs):
            return None
        asked = int(configs.get("physical.partitions") or -1)
        if asked != -1:
            return asked
        planned = self.layouts.layout_of(name).physical_partitions
        return None if planned is None else min(planned, max(partitions, 1))


def place_of_topic(topic: TopicDescriptor) -> dict[str, str]:
    """The settings of a topic's place as they are; of a topic that moves, where it goes."""
    layout, logs = _wanted_now(topic)
    return {
        "storage.placement": "shared" if layout == "shared" else "dedicated",
        "physical.partitions": str(logs if layout == "virtual" else -1),
    }


def _wanted_now(topic: TopicDescriptor) -> tuple[Layout, int]:
    there = topic.after_move()
    then = topic.moving.then if topic.moving is not None else None
    return then or (there.layout, there.logs)
