"""The nouns that all rooms share. Imports no other room.

Here: `configs` (settings of topics, groups, brokers and tables), `metrics` (counters and the names
of series), `security` (who may do what, secrets, what is audited), and topics with their names,
endpoints, errors, clocks.
"""
