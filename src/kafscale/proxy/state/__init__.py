"""What a physical partition holds, as pure functions of its batches: tags, lanes, checkpoints."""
