"""The Pulsar door: Pulsar's commands on one side, the verbs of the engine on the other.

Here: one connection (session.py), finding topics (topics.py), producers (producing), consumers
(consuming), what becomes of a message on its way into the log and out of it (messages), and the
admin API (admin).
Next door: the bytes of the protocol (wire/pulsar), the other doors.
"""
