"""Topics as rows: the data source, batch and stream, its options and plans, and SQL on it."""
