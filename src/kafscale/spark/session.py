"""A Spark session with the settings that the pipeline needs, unless the caller brings one.

Here: settings that were measured to matter. Next door: what runs in the session
(execution/units.py, source/source.py).
"""

import logging
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

from kafscale.spark.worker_python import use_this_python

LOCAL: Final = "local[*]"
REMOTE: Final = "sc://"  # a server of Spark Connect
DEFAULTS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "8",
}


@contextmanager
def quiet_jvm() -> Iterator[None]:
    """Start a JVM and hide what it prints: errors of a query come back as errors anyway.

    Hidden are warnings at the start, stack traces of failed tasks, and workers that find their
    pipe closed because a LIMIT was satisfied. If the JVM does not start, all of it is shown.
    """
    logging.disable(logging.CRITICAL)  # PySpark logs errors that it raises as well
    ours = os.dup(2)
    with tempfile.TemporaryFile() as file:
        sys.stderr.flush()
        os.dup2(file.fileno(), 2)
        try:
            yield
        except BaseException:
            file.seek(0)
            os.write(ours, file.read())
            raise
        finally:
            os.dup2(ours, 2)
            os.close(ours)


def open_session(
    name: str, master: str = LOCAL, conf: Mapping[str, str] | None = None
) -> SparkSession:
    """Start a session, or take the one that runs already.

    Workers run the same interpreter as this process: another one may not have the libraries.
    """
    use_this_python()
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    if master.startswith(REMOTE):
        return _remote_session(master, conf or {})
    settings = dict(DEFAULTS)
    if not master.startswith("local"):
        # A cluster's executors must find the driver: its own address is for Spark to choose.
        settings.pop("spark.driver.host")
        settings.pop("spark.driver.bindAddress")
    settings.update(conf or {})
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _remote_session(server: str, conf: Mapping[str, str]) -> SparkSession:
    """A session of Spark Connect; what is not about SQL is the server's to set."""
    builder = SparkSession.builder.remote(server)
    settings = {name: value for name, value in DEFAULTS.items() if name.startswith("spark.sql.")}
    for key, value in (settings | dict(conf)).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
