"""The Pulsar door: Pulsar's commands on one side, the verbs of the engine on the other.

Here: one connection (session.py), finding topics (topics.py), producers, consumers, and what
becomes of a message on its way into the log and out of it (entries_in.py, entries_out.py).
Next door: the bytes of the protocol (wire/pulsar), the other doors.
"""
