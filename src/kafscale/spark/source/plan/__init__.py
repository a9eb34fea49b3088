"""On the driver: options, offsets and filters of a query become tasks."""
