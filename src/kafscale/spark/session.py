"""A Spark session the way our work likes it, unless the caller brings one.

Here: settings measured to matter. Next door: what runs in it (units.py, source.py).
"""

import os
import sys
from collections.abc import Mapping
from typing import Final

from pyspark.sql import SparkSession

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


def open_session(
    name: str, master: str = "local[*]", conf: Mapping[str, str] | None = None
) -> SparkSession:
    """Start a session, or take the one that runs already.

    Workers run the interpreter that runs us: another one would not have our libraries.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
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
