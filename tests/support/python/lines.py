"""Questions and answers by lines, for any Python from 2.7 on.

The format stands in ../clients/driven.py. A driver is a class whose methods are named like the
questions in small letters; what a method yields are the lines of the answer.
"""

import base64
import sys
import time

ANSWER_WITHIN_S = 120.0


def serve(driver):
    """Answer until standard input ends."""
    while True:
        line = sys.stdin.readline()
        if not line:
            return
        words = line.rstrip("\n").split(" ")
        try:
            for answer in getattr(driver, words[0].lower())(*words[1:]) or ():
                say(str(answer))
            say("OK")
        except Exception as refused:
            say("ERR " + repr(refused).replace("\n", " "))
        sys.stdout.flush()


def say(line):
    sys.stdout.write(line + "\n")


class Record:
    """What is to be written, read off standard input."""

    def __init__(self):
        words = sys.stdin.readline().rstrip("\n").split(" ")
        self.partition = int(words[0])
        self.key = raw(words[1])
        self.value = raw(words[2])


def records(count):
    return [Record() for _ in range(int(count))]


def stored(partition, offset, key, value, timestamp=None):
    """A line that tells of a record that was read."""
    time_ms = -1 if timestamp is None else timestamp
    return " ".join([str(partition), str(offset), word(key), word(value), str(time_ms)])


def raw(word):
    return None if word == "~" else base64.b64decode(word[1:])


def word(raw):
    return "~" if raw is None else "." + base64.b64encode(raw).decode("ascii")


def in_time():
    """True until the patience of a question is used up."""
    deadline = time.time() + ANSWER_WITHIN_S
    while time.time() < deadline:
        yield True
