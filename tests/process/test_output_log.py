"""The output of runs in a folder: by key, bounded in number, safe to show."""

from __future__ import annotations

from dutiful.process.output_log import LEFT_OUT, OutputFolder, OutputLog, Shown, kept_in, shown


def write(folder, key, *chunks):
    log = folder.open(key)
    for chunk in chunks:
        log.write(chunk)
    log.close()


def test_the_output_of_a_run_is_found_by_its_key_and_attempts_share_it(tmp_path):
    folder = OutputFolder(tmp_path / "output")
    write(folder, "a", b"first\n")
    write(folder, "../b", b"other\n")
    write(folder, "a", b"again\n")
    assert folder.read("a") == Shown("first\nagain\n", truncated=False)
    assert folder.read("../b") == Shown("other\n", truncated=False)
    assert folder.read("c") is None
    assert {path.suffix for path in (tmp_path / "output").iterdir()} == {".log"}


def test_the_oldest_outputs_go_when_there_are_too_many(tmp_path):
    for number in range(60):
        write(OutputFolder(tmp_path, outputs=3), str(number), b"x")
    assert len([*tmp_path.iterdir()]) == 4
    assert OutputFolder(tmp_path).read("59") == Shown("x", truncated=False)


def test_of_much_output_the_end_is_shown_and_the_loss_is_reported():
    assert shown(b"abcdef", limit=3) == Shown("def", truncated=True)
    assert shown(LEFT_OUT + b"end") == Shown(LEFT_OUT.decode() + "end", truncated=True)
    assert shown(b"\x1b[2J<b>\xff\n") == Shown("\ufffd[2J<b>\ufffd\n", truncated=False)


def test_a_folder_that_cannot_be_written_costs_the_output_alone(tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert OutputFolder(tmp_path / "file").open("a") is None


def test_a_reader_that_follows_an_output_finds_every_byte_when_the_file_is_rotated(tmp_path):
    log = OutputLog(tmp_path / "1.log", 40)
    for line in (b"one " * 9 + b"\n", b"two " * 9 + b"\n"):
        log.write(line)
    with open(tmp_path / "1.log", "rb") as followed:
        log.write(b"three " * 6 + b"\n")
        log.close()
        assert followed.read() == b"two " * 9 + b"\n"
    assert kept_in(tmp_path / "1.log") == LEFT_OUT + b"three " * 6 + b"\n"
    assert {path.name for path in tmp_path.iterdir()} == {"1.log", "1.log.old"}


def test_a_note_begins_a_line_of_its_own(tmp_path):
    log = OutputLog(tmp_path / "1.log", 1000)
    log.write(b"no end of line")
    log.note(b"[done]")
    log.note(b"[again]")
    log.close()
    assert kept_in(tmp_path / "1.log") == b"no end of line\n[done]\n[again]\n"
