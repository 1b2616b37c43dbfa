"""`dutiful audit`: what it says of a log, and its exit code."""

from __future__ import annotations

from click.testing import CliRunner

from dutiful.cli.main import cli
from dutiful.httpd.audit import AuditLog, verify
from dutiful.testing import VirtualClock


def written(path, *ids):
    log = AuditLog(VirtualClock("2026-03-02T09:00:00+00:00"), path)
    for id_ in ids:
        log.record("r", "ada", "delete", schedule_id=id_)
    log.close()
    return str(path)


def run(*arguments):
    result = CliRunner().invoke(cli, ["audit", *arguments])
    return result.exit_code, result.output


def test_a_whole_log_is_reported_with_its_last_hash(tmp_path):
    path = written(tmp_path / "audit.jsonl", "a", "b")
    assert run(path) == (0, f"2 lines follow each other; the hash of the last is {verify([path]).last}\n")


def test_a_file_that_begins_anew_is_named(tmp_path):
    files = written(tmp_path / "old", "a"), written(tmp_path / "new", "b")
    code, output = run(*files)
    assert (code, output.splitlines()[0]) == (0, f"{files[1]} goes on from no other file")


def test_a_log_without_its_beginning_is_told(tmp_path):
    path = tmp_path / "audit.jsonl"
    written(path, "a", "b", "c")
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
    told = f"{path} goes on from a file that is not named here, or lines at its beginning were taken out"
    code, output = run(str(path))
    assert (code, output.splitlines()) == (
        0,
        [told, f"2 lines follow each other; the hash of the last is {verify([path]).last}"],
    )


def test_a_log_whose_first_record_was_cut_off_has_its_beginning(tmp_path):
    path = tmp_path / "audit.jsonl"
    path.write_bytes(b'{"at": "2026')
    code, output = run("--repair", str(path))
    assert (code, output.splitlines()[0]) == (
        0,
        f"{path}, line 1: a record that was cut off after 12 bytes, marked as such",
    )


def test_a_line_taken_out_is_found(tmp_path):
    path = tmp_path / "audit.jsonl"
    written(path, "a", "b", "c")
    first, _, third = path.read_text().splitlines(keepends=True)
    path.write_text(first + third)
    reason = "a line before it was changed, added or taken out"
    assert run(str(path)) == (1, f"Error: {path}, line 2: {reason}\n")


def test_a_file_that_is_not_there_is_named(tmp_path):
    code, output = run(str(tmp_path / "none"))
    assert (code, output.endswith("none': cannot be read: No such file or directory\n")) == (2, True)


def test_a_record_that_a_crash_cut_off_is_told_from_a_changed_line_and_can_be_marked(tmp_path):
    path = written(tmp_path / "audit.jsonl", "a", "b")
    with open(path, "ab") as file:
        file.write(b'{"at": "2026')
    code, output = run(path)
    assert code == 1
    assert f"{path}, line 3: the record was cut off after 12 bytes, by a crash or a full disk" in output
    code, output = run("--repair", path)
    assert (code, output.splitlines()[0]) == (
        0,
        f"{path}, line 3: a record that was cut off after 12 bytes, marked as such",
    )
    assert run(path) == (0, output)
    assert run("--repair", path) == (0, output)


def test_a_changed_line_is_not_repaired(tmp_path):
    path = tmp_path / "audit.jsonl"
    written(path, "a", "b")
    spoilt = path.read_bytes().replace(b'"a"', b'"x"') + b'{"at": "2026'
    path.write_bytes(spoilt)
    code, output = run("--repair", str(path))
    assert (code, "line 2: a line before it was changed" in output) == (1, True)
    assert path.read_bytes() == spoilt
