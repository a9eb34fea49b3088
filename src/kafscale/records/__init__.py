"""The currency: record batches as bytes. Every room trades in them, none owns them."""
