"""The Fluvio protocol as tables: frames, control and data messages, objects, error codes."""
