"""Questions about a cluster and changes to it, for every tool that administers one.

Here: functions that return data. `brokers/` asks brokers, as any Kafka client does, and so do
`groups/`, `records/` and `access/` about what their names say; `bucket/` reads the bucket without a
broker; `cost/` turns metrics and stored bytes into money; diagnosis.py checks a configuration on
this machine.
Next door: the commands (cli/), which parse arguments and print.
Never here: printing, arguments of a command line, the engine of a broker.
"""
