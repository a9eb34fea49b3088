"""Celery: tasks are messages of a topic; results go to files."""

import os
from pathlib import Path

from celery import Celery

app = Celery("tasks", broker=f"confluentkafka://{os.environ['BOOTSTRAP']}")
app.conf.task_default_queue = "celery"


@app.task
def write(number: int) -> None:
    Path(os.environ["RESULTS"], str(number)).write_text("done")
