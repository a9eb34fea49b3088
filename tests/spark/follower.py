"""A streaming query in a process of its own, to be killed: `python -m tests.spark.follower`."""

import sys
from pathlib import Path

from kafscale.spark.session import open_session
from tests.spark.test_stream import stream, write


def main(store: str, topic: str, folder: str) -> None:
    spark = open_session("follower", "local[2]", {"spark.driver.memory": "1g"})
    limited = stream(spark, store, topic, maxOffsetsPerTrigger=500)
    write(limited, Path(folder), processingTime="0 seconds").awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
