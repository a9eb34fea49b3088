"""The tables of Pulsar's protocol: commands and metadata. Their names are Pulsar's."""
