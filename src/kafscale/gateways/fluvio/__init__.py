"""The Fluvio door: a control port and a data port on the same topics."""
