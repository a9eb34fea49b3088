"""Requests that the proxy answers itself, or passes on with changes: one file per matter."""
