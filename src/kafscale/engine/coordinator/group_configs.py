"""Settings of single groups: kept in the metadata store, known to every broker.

Here: the rows and their changes. A group need not exist to have settings, and it keeps them when it
is deleted, as in Kafka.
Next door: which settings there are (model/configs/group_configs.py), how rows are kept
(access/watched_rows.py), the group's coordinator (groups.py), owners of partitions that share
groups read (engine/subscriptions).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from kafscale.engine.access.watched_rows import WatchedRows
from kafscale.metadata import keys
from kafscale.metadata.store import MetadataStore
from kafscale.model.configs.group_configs import GroupSettings, check_group_configs
from kafscale.model.errors import CorruptObject, InvalidGroupConfig

MOST_GROUPS: Final = 10_000  # every broker holds all of them in memory
_NONE: Final = GroupSettings({})

OwnConfigs = Mapping[str, str]


class GroupConfigs:
    """The settings of all groups that have some."""

    def __init__(self, metadata: MetadataStore) -> None:
        self.rows: WatchedRows[OwnConfigs] = WatchedRows(
            metadata, keys.GROUP_CONFIGS, _decode, msgspec.json.encode
        )
        self._parsed: dict[str, GroupSettings] = {}
        self._on_change: Callable[[str], None] | None = None
        self.rows.listen(self._changed)

    def listen(self, on_change: Callable[[str], None]) -> None:
        """Have `on_change` called with the id of a group whose settings change."""
        self._on_change = on_change

    def _changed(self, name: str, old: OwnConfigs | None, new: OwnConfigs | None) -> None:
        group_id = keys.text_of(name)
        if new:
            self._parsed[group_id] = GroupSettings(new)
        else:
            self._parsed.pop(group_id, None)
        if self._on_change is not None:
            self._on_change(group_id)

    def of(self, group_id: str) -> GroupSettings:
        """What holds for a group."""
        return self._parsed.get(group_id, _NONE)

    def __iter__(self) -> Iterator[str]:
        """The groups that have settings of their own."""
        return iter(sorted(self._parsed))

    async def change(
        self, group_id: str, change: Callable[[OwnConfigs], OwnConfigs], *, only_check: bool
    ) -> None:
        """Give a group other settings. Raises InvalidGroupConfig, and then changes nothing."""
        check_group_configs(change(self.of(group_id).own))
        if group_id not in self._parsed and len(self._parsed) >= MOST_GROUPS:
            raise InvalidGroupConfig(f"settings of more than {MOST_GROUPS} groups are not kept")
        if only_check:
            return

        def checked(old: OwnConfigs | None) -> OwnConfigs | None:
            new = change(old or {})
            check_group_configs(new)
            return new or None

        await self.rows.change(keys.segment(group_id), checked)


def _decode(raw: bytes) -> OwnConfigs:
    try:
        return msgspec.json.decode(raw, type=dict[str, str])
    except (msgspec.DecodeError, UnicodeDecodeError) as bad:
        raise CorruptObject(f"the settings of a group are not readable: {bad}") from bad
