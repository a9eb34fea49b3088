"""Values with a meaning: from bytes to typed columns, for the source, SQL and export alike.

formats.py says how values are to be read and gives their reader: json_values.py, avro.py or
protobuf.py, with framed.py around it where values name their schema by a number of a registry
(registry.py). ddl.py and types.py are about columns, decoding.py about what does not parse.
"""
