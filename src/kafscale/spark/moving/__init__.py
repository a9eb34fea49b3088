"""What replay, mirror and convert share: other origins, rewritten slices, maps of offsets."""
