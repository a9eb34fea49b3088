"""Which broker owns which log and group: a pure function of one key, the same in every process.

Here: rendezvous hashing of logs and groups over the members. Every name gives every broker a
score and belongs to the highest: a broker that comes takes its share from all others evenly, one
that goes leaves its share to all, and nothing else moves.
Next door: who writes the members (controller.py), what follows for one broker (fleet_state.py).
Never here: clocks, stores, the builtin hash(), which differs from process to process.
"""

from hashlib import blake2b
from typing import Final

from kafscale.metadata.keys import MemberList, MemberRow

NO_BROKER: Final = -1  # Kafka's "no broker"
_MOST_REMEMBERED: Final = 200_000  # topics come and go, and clients may ask for any group
_WORD: Final = (1 << 64) - 1


class Placement:
    """The members of one generation and the owner of each name; answers are remembered."""

    __slots__ = (
        "_groups",
        "_incarnations",
        "_logs",
        "_seeds",
        "generation",
        "previous",
        "transaction_version",
    )

    def __init__(self, members: MemberList) -> None:
        self.generation = members.generation
        self.previous = members.previous
        self.transaction_version = members.transaction_version
        self._incarnations = {row.broker_id: row.incarnation for row in members.brokers}
        self._seeds = [(who, _number(f"broker {who}")) for who in self._incarnations]
        self._logs: dict[str, int] = {}
        self._groups: dict[str, int] = {}

    @property
    def brokers(self) -> tuple[MemberRow, ...]:
        """The members, by id."""
        return tuple(MemberRow(*row) for row in sorted(self._incarnations.items()))

    def has(self, broker_id: int, incarnation: int) -> bool:
        """Whether this very incarnation of a broker counts."""
        return self._incarnations.get(broker_id) == incarnation

    def names(self, broker_id: int) -> bool:
        """Whether any incarnation of a broker counts."""
        return broker_id in self._incarnations

    def owner(self, folder: str) -> int:
        """The broker that a log belongs to; NO_BROKER if there are none."""
        owner = self._logs.get(folder)
        if owner is None:
            owner = self._best(f"log {folder}")
            _remember(self._logs, folder, owner)
        return owner

    def coordinator(self, group_id: str) -> int:
        """The broker that a group belongs to; NO_BROKER if there are none."""
        coordinator = self._groups.get(group_id)
        if coordinator is None:
            coordinator = self._best(f"group {group_id}")
            _remember(self._groups, group_id, coordinator)
        return coordinator

    def _best(self, name: str) -> int:
        number = _number(name)
        best = max(((_mixed(number ^ seed), who) for who, seed in self._seeds), default=None)
        return NO_BROKER if best is None else best[1]


def _remember(answers: dict[str, int], name: str, answer: int) -> None:
    if len(answers) >= _MOST_REMEMBERED:
        answers.clear()
    answers[name] = answer


def _number(text: str) -> int:
    """64 bits that depend on every character."""
    raw = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(raw, digest_size=8).digest(), "big")


def _mixed(word: int) -> int:
    """Spread 64 bits over 64 bits: every input bit moves about half of the output's."""
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 & _WORD
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB & _WORD
    return word ^ (word >> 31)
