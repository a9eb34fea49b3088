"""Object storage: one port, three adapters, wrappers with the same verbs."""
