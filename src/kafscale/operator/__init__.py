"""The Kubernetes operator: fleets of brokers, their etcd and their topics as custom resources.

Here: `kinds` (the resources and their schemas), `parts` (the objects that a cluster is made of),
`planning` (what should be there, and what state is told), `kube` (the API server), `brokers` and
`etcd` (what is asked of them), `loops` (the control loops), and the processes on top. `kinds`,
`parts` and `planning` are pure.
Never here: engine, doors, logs. An operator talks to brokers as any client does.
"""
