"""What any broker pays at least: receive, checksum, write, and nothing else.

    python -m benchmarks.limit

A child process takes frames over loopback into one buffer, computes the checksum of each and
appends it to one file. It looks at no record and answers nothing. Measured right before a produce
row, it shows how much of that row is this machine's memory and file system at that moment.
"""

import os
import socket
import subprocess
import sys
import tempfile

from benchmarks.raw import BATCH_BYTES
from tests.support.maven import ROOT

_WORKER = """
import os, socket, sys, time
from crc32c import crc32c
size, path = int(sys.argv[1]), sys.argv[2]
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
taken, _ = listener.accept()
buffer = memoryview(bytearray(size))
target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
began = time.process_time()
done = filled = 0
while count := taken.recv_into(buffer[filled:]):
    filled += count
    if filled == size:
        crc32c(buffer)
        os.write(target, buffer)
        done, filled = done + size, 0
print((time.process_time() - began) / done * 1e9)
"""


def cpu_s_per_gb(total_bytes: int) -> float:
    """CPU-seconds of the bare program per GB, over so many bytes."""
    frame = bytes(range(256)) * (BATCH_BYTES // 256)
    with tempfile.TemporaryDirectory(prefix="limit-") as folder:
        command = [sys.executable, "-c", _WORKER, str(BATCH_BYTES), os.path.join(folder, "file")]
        worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert worker.stdout is not None
        port = int(worker.stdout.readline())
        with socket.create_connection(("127.0.0.1", port)) as sock:
            for _ in range(max(1, total_bytes // BATCH_BYTES)):
                sock.sendall(frame)
        figure = float(worker.stdout.read())
        worker.stdout.close()
        if worker.wait():
            raise RuntimeError("the bare program has failed")
    return figure


if __name__ == "__main__":
    print(f"{cpu_s_per_gb(400_000_000):.2f} CPU-s/GB")
