"""The control port (SC): which topics, partitions and brokers there are."""
