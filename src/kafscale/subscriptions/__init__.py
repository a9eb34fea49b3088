"""A subscription as a state machine: which consumer gets which messages, and what is acknowledged.

Next door: where it is kept and what feeds it (engine/subscriptions), consumer groups (groups).
Never here: a clock, a socket, a store, the bytes of a message, a protocol's words.
"""
