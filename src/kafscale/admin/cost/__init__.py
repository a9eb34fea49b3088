"""What topics cost: a metrics page and stored bytes, turned into money."""
