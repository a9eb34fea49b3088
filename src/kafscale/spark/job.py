"""What every job is given and what it gives back.

Here: the context, the report. Next door: the jobs themselves, one file each (jobs/), the command
that runs them (cli/bucket/pipeline.py).
"""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession

from kafscale.model.topics import TopicDescriptor
from kafscale.spark.bucket import Bucket
from kafscale.spark.session import LOCAL, open_session, quiet_jvm

# what is being done, how much of it is done, how much there is in all, and its unit ("B", "")
JobProgress = Callable[[str, int, int, str], None]


def _silent(_what: str, _done: int, _total: int, _unit: str) -> None:
    """Show nothing."""


@dataclass(slots=True)
class Report:
    """What a job did, for people and for programs."""

    job: str
    facts: dict[str, Any] = field(default_factory=dict)  # name -> number or text, in order
    rows: list[dict[str, Any]] = field(default_factory=list)  # a table, one dict per line
    notes: list[str] = field(default_factory=list)
    exit_code: int = 0
    dry_run: bool = False


@dataclass
class Context:
    """Where a job works. The session starts when it is first needed: a dry run needs none."""

    bucket: Bucket
    topics: tuple[str, ...] = ()
    dry_run: bool = False
    master: str | None = None  # if not named: this machine, and little work without Spark
    conf: Mapping[str, str] = field(default_factory=dict)
    progress: JobProgress = _silent
    session: SparkSession | None = None
    quiet: bool = False  # hide what Spark prints besides errors

    @cached_property
    def spark(self) -> SparkSession:
        """The caller's session, else one that is started now."""
        with quiet_jvm() if self.quiet else nullcontext():
            return self.session or open_session("kafscale", self.master or LOCAL, self.conf)

    def chosen(self) -> list[TopicDescriptor]:
        """The topics the job is asked to work on; none named means all."""
        return self.bucket.select(self.topics)
