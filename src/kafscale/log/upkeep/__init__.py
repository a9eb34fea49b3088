"""Rewriting and deleting old objects of a log: roll-up, retention, sweeping."""
