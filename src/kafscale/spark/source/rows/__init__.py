"""In a worker: the bytes of a task become rows with the columns of the query."""
