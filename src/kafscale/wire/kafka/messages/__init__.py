"""One file per API: its fields, its versions, both directions."""
