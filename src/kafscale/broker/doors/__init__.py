"""The doors of a broker: its listeners, and how clients prove who they are."""
