"""The commit log of bare Parquet tables."""

from pathlib import Path

import pytest

from kafscale.log.protocol.commits import LostRace
from kafscale.model.errors import CorruptObject, InvalidRequest, ObjectExists
from kafscale.spark.lake.parquet import LOG, ParquetTable, committed_files, dataset
from kafscale.spark.lake.table_folder import TableFolder
from kafscale.spark.lake.writer import DataFile
from kafscale.spark.values import ddl

COLUMNS = ddl.parse("id bigint")


@pytest.fixture
def table(tmp_path: Path) -> ParquetTable:
    made = ParquetTable(TableFolder(str(tmp_path / "t")))
    made.prepare(COLUMNS, "none")
    return made


def file(number: int) -> DataFile:
    return DataFile(f"data/part-{number}.parquet", 1, 1, None, (0, 0), (number, number), None)


def test_readers_see_all_commits_and_read_few_objects(
    table: ParquetTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(120):
        table.commit([file(number)], {"t/0": number}, {"t/0": number + 1})
    reads: list[str] = []
    read = TableFolder.read

    def counted(place: TableFolder, name: str) -> bytes:
        reads.append(name)
        return read(place, name)

    monkeypatch.setattr(TableFolder, "read", counted)
    paths = [one.path for one in table.files()]
    assert paths == [file(number).path for number in range(120)]
    assert len(reads) <= 50
    assert committed_files(table.place.url)[7] == table.place.path("data/part-7.parquet")
    assert table.progress(["t/0", "t/1"]) == {"t/0": 120}


def test_a_commit_about_others_is_no_race(table: ParquetTable) -> None:
    other = ParquetTable(table.place)
    other.commit([file(0)], {"other/0": 0}, {"other/0": 5})
    table.commit([file(1)], {"t/0": 0}, {"t/0": 9})
    assert table.progress(["t/0", "other/0"]) == {"t/0": 9, "other/0": 5}
    with pytest.raises(LostRace, match="is at 9 in the table, not at 0"):
        other.commit([file(2)], {"t/0": 0}, {"t/0": 3})


def test_our_own_commit_whose_answer_was_lost_is_recognised(
    table: ParquetTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_new = TableFolder.put_new

    def answer_lost(place: TableFolder, name: str, body: bytes) -> None:
        put_new(place, name, body)
        raise ObjectExists(name)

    monkeypatch.setattr(TableFolder, "put_new", answer_lost)
    table.commit([file(0)], {"t/0": 0}, {"t/0": 1})
    monkeypatch.undo()
    assert [one.path for one in table.files()] == [file(0).path]


def test_a_spoilt_log_is_not_guessed_at(table: ParquetTable) -> None:
    table.place.put_new(f"{LOG}/{2:020d}.json", b"{")
    with pytest.raises(CorruptObject, match=r"00002\.json"):
        table.progress(["t/0"])


def test_where_there_is_no_table_there_is_nothing_to_read(tmp_path: Path) -> None:
    assert committed_files(str(tmp_path / "nothing")) == []
    with pytest.raises(InvalidRequest, match="no table"):
        dataset(str(tmp_path / "nothing"))
    assert not (tmp_path / "nothing").exists()
