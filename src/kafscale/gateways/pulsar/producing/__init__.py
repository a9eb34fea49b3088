"""The producers of a connection: their commands, messages into the log, receipts."""
