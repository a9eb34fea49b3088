"""One file per Kafka API: its versions on top, its answer below."""
