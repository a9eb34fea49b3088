"""The data port (SPU): records in, records out, offsets."""
