"""Commands that write and read records: produce, consume."""
