"""The consumers of a connection: their commands as verbs of subscriptions."""
