"""The admin API over HTTP: paths, and the verbs of the engine behind them."""
