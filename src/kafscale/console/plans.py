"""Plans to move offsets that people have looked at and may still carry out.

Next door: making them and carrying them out (pages/groups/resets.py).
"""

from typing import Final

from kafscale.admin.groups.group_resets import PlannedOffset

_MOST_PLANS: Final = 200


class ResetPlans:
    """The plans of this process that people may still carry out."""

    def __init__(self) -> None:
        self._plans: dict[str, tuple[str, list[PlannedOffset]]] = {}

    def keep(self, name: str, group: str, planned: list[PlannedOffset]) -> None:
        """Keep a plan; the oldest goes if there are too many."""
        self._plans[name] = group, planned
        while len(self._plans) > _MOST_PLANS:
            del self._plans[next(iter(self._plans))]

    def find(self, name: str, group: str) -> list[PlannedOffset] | None:
        """The plan of this name, if it is the group's."""
        found = self._plans.get(name)
        return found[1] if found is not None and found[0] == group else None
