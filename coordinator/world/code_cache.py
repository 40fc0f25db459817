"""A folder of generated code, kept between runs as Python keeps bytecode in __pycache__.

What is in the folder is executed, so it must belong to this user or to root, and nobody else may write to it; the same goes for
each file. Otherwise the folder is not used. A folder that this process creates is private (0700).

A file has the digest of its key and its content in front. The key covers everything that the content depends on, so a file of
another version of the generator or of Python is never read, and one that is truncated or damaged is written again. A writer
renames a complete file into place: concurrent processes may write the same one. Nothing here raises: without a usable folder
every load misses.
"""

import marshal
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

FOLDER_VARIABLE = "COORDINATOR_CACHE_DIR"
OFF = "off"
"""As the value of the variable: no folder is used."""

_ROOT = 0
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_DIGEST_BYTES = 16


def cache_folder(environment: Mapping[str, str]) -> Path | None:
    """The folder that COORDINATOR_CACHE_DIR names, or one in the user's cache folder (XDG); None if there is neither."""
    named = environment.get(FOLDER_VARIABLE)
    if named:
        return None if named == OFF else Path(named).absolute()
    # An XDG path that is not absolute is invalid, and without a home directory "~" stays as it is.
    caches = (Path(environment.get("XDG_CACHE_HOME") or ""), Path(os.path.expanduser("~"), ".cache"))  # noqa: PTH111
    return next((path / "kafka-group-coordinator" for path in caches if path.is_absolute()), None)


class CodeCache:
    """Values that `marshal` can write, such as code objects, by name and key."""

    def __init__(self, folder: Path | None) -> None:
        """None: every load misses and nothing is stored."""
        self.folder = folder
        self._is_writable = folder is not None

    def load(self, name: str, key: bytes) -> Any:
        """Returns the value that was stored with this name and key, or None."""
        digest = _digest(key)
        try:
            with self._open_folder() as folder:
                content = _read(_file_name(name, digest), folder)
        except OSError:
            return None
        if content[:_DIGEST_BYTES] != _digest(digest, content[_DIGEST_BYTES:]):
            return None
        return marshal.loads(content[_DIGEST_BYTES:])  # noqa: S302 - only this user and root can have written it

    def store(self, name: str, key: bytes, value: Any) -> bool:
        """Stores the value and returns True, or returns False if the folder cannot be used."""
        if not self._is_writable:
            return False
        digest = _digest(key)
        encoded = marshal.dumps(value)
        try:
            self._make_folder()
            with self._open_folder() as folder:
                _replace(_file_name(name, digest), _digest(digest, encoded) + encoded, folder)
        except OSError:
            self._is_writable = False
            return False
        return True

    def _make_folder(self) -> None:
        assert self.folder is not None
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        self.folder.mkdir(mode=0o700, exist_ok=True)

    @contextmanager
    def _open_folder(self) -> Iterator[int]:
        """A descriptor of the folder. Raises OSError if there is none, or if somebody else could have put code into it."""
        if self.folder is None:
            raise FileNotFoundError
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _require_trusted(os.fstat(descriptor))
            yield descriptor
        finally:
            os.close(descriptor)


def _require_trusted(status: os.stat_result) -> None:
    if status.st_uid not in {os.geteuid(), _ROOT} or status.st_mode & _WRITABLE_BY_OTHERS:
        raise PermissionError


def _read(name: str, folder: int) -> bytes:
    """Reads a regular file of the folder that only this user or root can have written. Raises OSError."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe must not block
    with open(name, "rb", buffering=0, opener=_opener(folder, flags)) as file:
        status = os.fstat(file.fileno())
        _require_trusted(status)
        if not stat.S_ISREG(status.st_mode):
            raise PermissionError
        return file.read()


def _replace(name: str, content: bytes, folder: int) -> None:
    """Writes a file and renames it into place. Raises OSError."""
    temporary = f".{name}.{os.urandom(8).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        with open(temporary, "wb", opener=_opener(folder, flags)) as file:
            file.write(content)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        _remove(temporary, folder)
        raise


def _opener(folder: int, flags: int) -> Callable[[str, int], int]:
    """An opener that uses its own flags. Files are private; the process's umask cannot make them less so."""

    def opener(name: str, _flags: int) -> int:
        return os.open(name, flags, 0o600, dir_fd=folder)

    return opener


def _remove(name: str, folder: int) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except OSError:
        return


def _file_name(name: str, digest: bytes) -> str:
    return f"{name}.{digest.hex()}.code"


_digest_of = partial(blake2b, digest_size=_DIGEST_BYTES)


def _digest(*parts: bytes) -> bytes:
    return _digest_of(b"".join(parts)).digest()


CODE_CACHE = CodeCache(cache_folder(os.environ))
"""The cache of this process."""
