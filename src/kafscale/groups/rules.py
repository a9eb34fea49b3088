"""The configured limits of groups of all types."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupRules:
    """The configured limits of groups."""

    shortest_session_s: float = 6.0
    longest_session_s: float = 1800.0
    initial_delay_s: float = 3.0
    most_members: int = 1000
    most_metadata_bytes: int = 1 << 20
    # Of all members of a group together, before packing: much more does not fit into one value.
    most_group_bytes: int = 4 << 20
    most_assigned_bytes: int = 1 << 20
    most_bytes_in_all: int = 256 << 20  # of the members of all groups of a broker
    # Of consumer groups: the broker sets their times, not the client.
    consumer_session_s: float = 45.0
    consumer_heartbeat_s: float = 5.0
    share_session_s: float = 45.0
    share_heartbeat_s: float = 5.0
    most_share_members: int = 200
