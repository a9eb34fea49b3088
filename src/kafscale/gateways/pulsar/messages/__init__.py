"""Messages as records: what producers send is stored as record batches, and comes out again."""
