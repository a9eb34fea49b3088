"""Groups as state machines: events in, effects out, time and ids as arguments.

Here: what all types of groups share. Next door: groups whose members assign partitions to each
other (classic), groups whose coordinator assigns them (consumer), waiting calls, timers and
persistence (engine/coordinator/groups.py).
Never here: sockets, clocks, dice.
"""
