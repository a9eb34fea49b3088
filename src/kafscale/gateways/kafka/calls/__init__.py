"""A request and what its handler may use: its order, its threads, fetch sessions, error codes."""
