"""Questions about a cluster and changes to it, for every tool that administers one.

Here: functions that ask brokers (as any Kafka client does), the bucket, a metrics page or this
machine, and return data. Through brokers: client.py, topics.py, configs.py, offsets.py, groups.py,
group_resets.py, consuming.py, producing.py. In the bucket: bucket.py, holdings.py, verification.py,
checkpoint_view.py, pairing.py. Costs: metrics_page.py, spending.py, cost.py. This machine:
diagnosis.py.
Next door: the commands (cli/), which parse arguments and print.
Never here: printing, arguments of a command line, the engine of a broker.
"""
