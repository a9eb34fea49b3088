"""Consumer groups as a state machine: events in, effects out, time and ids as arguments.

Next door: waiting calls, timers and persistence (engine/coordinator/groups.py).
Never here: sockets, clocks, dice, what an assignment means.
"""
