"""The API server: requests, caches that follow it, election, a queue of keys."""
