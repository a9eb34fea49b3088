"""The process: configuration, wiring, signals, health and metrics."""
