"""The bytes of a log and the names of its objects. Pure: no store, no clock, no event loop."""
