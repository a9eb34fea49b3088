"""Commands that work on the bucket without a broker: segments, snapshots, pipeline, sql."""
