"""Records and silences belong to the fault they fell into."""

from tests.faults import report
from tests.faults.checker import Finding
from tests.faults.history import NOTHING, OK, Fault, Found, History, Poll, Send
from tests.faults.places import KIND_OF


def told() -> History:
    """One record a second, answered at once; during the kill, from 10 to 14, answers wait."""
    history = History(partitions=1)
    history.faults.append(Fault("kill", "broker-0", 10.0, 14.0))
    for number in range(30):
        begun_s = float(number)
        ended_s = 14.5 if 10 <= number <= 14 else begun_s + 0.1
        send = Send("p", 0, number, begun_s, ended_s, OK, number)
        history.sends.append(send)
        history.polls.append(Poll("r", 0, 0, number, send.value, ended_s))
    return history


def test_each_record_is_counted_where_it_fell() -> None:
    history = told()
    lost, doubled = history.sends[12], history.sends[2]
    findings = [Finding("lost", "", lost), Finding("duplicate", "", doubled)]
    peace, kill = report.rows(history, findings)
    assert (peace.nemesis, kill.nemesis) == (report.PEACE, "kill")
    assert (peace.times, kill.times) == (0, 1)
    # 10 to 14, and what came within 2 s after it.
    assert (peace.acknowledged, kill.acknowledged) == (23, 7)
    assert (peace.read, kill.read) == (23, 7)
    assert (peace.lost, kill.lost) == (0, 1)
    assert (peace.duplicates, kill.duplicates) == (1, 0)


def test_the_longest_silence_is_that_of_the_worst_partition() -> None:
    peace, kill = report.rows(told(), [])
    assert round(peace.silence_s, 3) == 1.0
    assert round(kill.silence_s, 3) == 5.4


def test_a_table_has_a_line_per_nemesis() -> None:
    lines = report.table(report.rows(told(), [])).splitlines()
    assert [line.split("|")[1].strip() for line in lines] == [
        *("nemesis", "-" * 9, "peace", "kill"),
    ]


def test_records_are_counted_by_the_kind_of_their_topic() -> None:
    history = told()
    history.sends[3].partition = KIND_OF.index("shared")
    history.lives = 4
    history.moves = 3
    history.found.append(Found(0, 7, NOTHING))
    assert report.by_kind(history) == (
        "acknowledged by topics that began as: ordinary 29, virtual 0, shared 1; 3 moves asked "
        "for, 1 moves of partitions; 4 neighbours created, used and deleted"
    )


def test_findings_are_counted_and_the_first_are_told() -> None:
    many = [Finding("lost", f"record {number}") for number in range(9)]
    text = report.summary([*many, Finding("gap", "here")])
    assert text.splitlines()[0] == "9 x lost, 1 x gap"
    assert "record 4" in text
    assert "record 5" not in text
    assert report.summary([]) == "every promise was kept"
