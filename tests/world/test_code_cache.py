"""Generated code survives the process, and a cache that is damaged, unsafe or unusable is as good as none."""

import os
import stat
from pathlib import Path

import pytest

from coordinator.world.code_cache import CodeCache, cache_folder

KEY = b"version 1"
VALUE = ("text", 7, compile("1 + 1", "x.py", "eval"))


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "caches" / "code"


@pytest.fixture
def cache(folder) -> CodeCache:
    stored = CodeCache(folder)
    assert stored.store("a", KEY, VALUE)
    return stored


def only_file(folder: Path) -> Path:
    [path] = folder.iterdir()
    return path


def test_another_process_finds_what_one_has_stored(cache, folder):
    loaded = CodeCache(folder).load("a", KEY)
    assert loaded == VALUE
    assert eval(loaded[2]) == 2


def test_another_name_or_key_finds_nothing(cache):
    assert cache.load("b", KEY) is None
    assert cache.load("a", b"version 2") is None


def test_only_the_user_can_read_or_write_what_is_stored(folder):
    """Even if the process's umask would let everybody write."""
    mask = os.umask(0)
    try:
        CodeCache(folder).store("a", KEY, VALUE)
    finally:
        os.umask(mask)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(only_file(folder).stat().st_mode) == 0o600


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 60])
def test_a_truncated_file_is_no_hit_and_is_replaced(cache, folder, size):
    path = only_file(folder)
    os.truncate(path, size)
    assert cache.load("a", KEY) is None
    assert cache.store("a", KEY, VALUE)
    assert cache.load("a", KEY) == VALUE


def test_a_file_with_any_changed_byte_is_no_hit(cache, folder):
    path = only_file(folder)
    content = path.read_bytes()
    for at in range(len(content)):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        assert cache.load("a", KEY) is None


def test_a_file_under_the_name_of_another_is_no_hit(cache, folder):
    """The content is bound to its key, not only to the name of its file."""
    first = only_file(folder)
    content = first.read_bytes()
    first.unlink()
    cache.store("a", b"version 2", "other")
    only_file(folder).write_bytes(content)
    assert cache.load("a", b"version 2") is None


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
def test_a_folder_to_which_others_may_write_is_not_used(cache, folder, mode):
    folder.chmod(mode)
    assert cache.load("a", KEY) is None
    assert not CodeCache(folder).store("b", KEY, VALUE)
    assert len(list(folder.iterdir())) == 1


def test_a_file_to_which_others_may_write_is_not_read(cache, folder):
    only_file(folder).chmod(0o606)
    assert cache.load("a", KEY) is None


def test_a_folder_or_file_of_another_user_is_not_used(cache, folder, monkeypatch):
    """Root's are, which may execute what it wants anyway."""
    owner = folder.stat().st_uid
    other = owner + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    assert (cache.load("a", KEY) == VALUE) == (owner == 0)
    monkeypatch.undo()
    real = os.fstat
    for is_foreign in (stat.S_ISDIR, stat.S_ISREG):

        def foreign(descriptor: int, is_foreign=is_foreign) -> os.stat_result:
            status = real(descriptor)
            return os.stat_result((*status[:4], other, *status[5:])) if is_foreign(status.st_mode) else status

        monkeypatch.setattr(os, "fstat", foreign)
        assert cache.load("a", KEY) is None


def test_a_link_or_a_pipe_in_place_of_a_file_is_not_read(cache, folder, tmp_path):
    path = only_file(folder)
    path.rename(tmp_path / "moved")
    path.symlink_to(tmp_path / "moved")
    assert cache.load("a", KEY) is None
    path.unlink()
    os.mkfifo(path, 0o600)
    assert cache.load("a", KEY) is None


def test_without_a_usable_folder_nothing_is_kept_and_nothing_fails(tmp_path):
    file = tmp_path / "file"
    file.write_text("not a folder")
    for folder in (None, file, file / "below", Path("/proc/nowhere/code")):
        cache = CodeCache(folder)
        assert not cache.store("a", KEY, VALUE)
        assert cache.load("a", KEY) is None


def test_a_write_that_fails_leaves_no_file_and_is_not_tried_again(folder, monkeypatch):
    cache = CodeCache(folder)

    def full(*_arguments, **_named) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", full)
    assert not cache.store("a", KEY, VALUE)
    assert list(folder.iterdir()) == []
    monkeypatch.undo()
    assert not cache.store("a", KEY, VALUE)
    assert CodeCache(folder).store("a", KEY, VALUE)


def test_processes_that_write_the_same_file_leave_one_whole_file(folder):
    """Each writes a file of its own and renames it."""
    children = []
    for number in range(4):
        pid = os.fork()
        if pid == 0:
            cache = CodeCache(folder)
            for _ in range(50):
                stored = cache.store("a", KEY, (number, "x" * 50_000))
                loaded = cache.load("a", KEY)
                if not stored or loaded is None or loaded[1] != "x" * 50_000:
                    os._exit(1)
            os._exit(0)
        children.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0, 0, 0, 0]
    assert only_file(folder).name.startswith("a.")


def test_the_folder_is_the_variables_or_the_users():
    home = Path.home()
    assert cache_folder({}) == home / ".cache" / "kafka-group-coordinator"
    assert cache_folder({"XDG_CACHE_HOME": "/x"}) == Path("/x/kafka-group-coordinator")
    assert cache_folder({"XDG_CACHE_HOME": "relative"}) == home / ".cache" / "kafka-group-coordinator"
    assert cache_folder({"COORDINATOR_CACHE_DIR": "/c", "XDG_CACHE_HOME": "/x"}) == Path("/c")
    assert cache_folder({"COORDINATOR_CACHE_DIR": "off"}) is None


def test_a_user_without_a_home_has_no_folder(monkeypatch):
    """As in a container that runs as a number without a name."""
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert cache_folder({}) is None
