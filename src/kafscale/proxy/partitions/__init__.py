"""Physical partitions that this proxy has opened: appending, reading, the newest batches."""
