from __future__ import annotations

import os
import stat
import tarfile
import time
from dataclasses import dataclass
from typing import Any, BinaryIO, Callable, Iterable, Iterator, Mapping

from .errors import SandboxError
from .local_files import create_file, remove_if_there, staged_name
from .values import CopyProgress, CopyResult, NewFile

_BLOCK = 512
_PIECE = 256 * 1024
# Bounds of what a sandbox sends.
_MAX_PAX = 64 * 1024
_MAX_SECONDS = 2.0**40


class CopyCounts:
    """Counts the entries of a copy, and tells ``on_progress`` after each entry and during large files."""

    def __init__(self, on_progress: Callable[[CopyProgress], Any] | None) -> None:
        self._counts = {"files": 0, "folders": 0, "links": 0, "skipped": 0, "bytes": 0}
        self._on_progress = on_progress

    def add(self, kind: str, number: int = 1) -> None:
        self._counts[kind] += number

    def tell(self, name: str) -> None:
        if self._on_progress is not None:
            self._on_progress(CopyProgress(name=name, **self._counts))

    def result(self) -> CopyResult:
        return CopyResult(**self._counts)


def pack_folder(folder: str | os.PathLike[str], counts: CopyCounts) -> Iterator[bytes]:
    """A tar of a local folder and everything below it, which is read meanwhile. Links are not followed.

    Sockets, pipes and devices are left out. Raises OSError.
    """
    top = os.fspath(folder)
    if not stat.S_ISDIR(os.stat(top).st_mode):
        raise NotADirectoryError(f"{top} is not a folder")
    yield from _gathered(_pack_tree(top, counts))


def _pack_tree(top: str, counts: CopyCounts) -> Iterator[bytes]:
    yield from _pack_entry("./", top, os.stat(top), counts)
    yield from _pack_children("", top, counts)
    yield bytes(2 * _BLOCK)


def _gathered(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Joins small pieces, so that each is not sent alone."""
    gathered = bytearray()
    for piece in pieces:
        gathered += piece
        if len(gathered) >= _PIECE:
            yield bytes(gathered)
            gathered.clear()
    yield bytes(gathered)


def pack_files(files: Iterable[tuple[str, NewFile]]) -> Iterator[bytes]:
    """A tar of files with the given names."""
    for name, file in files:
        data = file["data"].encode() if isinstance(file["data"], str) else file["data"]
        info = tarfile.TarInfo(name)
        info.mode = file.get("mode", 0o644)
        info.mtime = time.time()
        info.size = len(data)
        yield _header(info) + data + bytes(-len(data) % _BLOCK)
    yield bytes(2 * _BLOCK)


def _pack_children(name: str, folder: str, counts: CopyCounts) -> Iterator[bytes]:
    with os.scandir(folder) as found:
        entries = list(found)
    for entry in entries:
        below = f"{name}{entry.name}"
        try:
            facts = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        if stat.S_ISDIR(facts.st_mode):
            yield from _pack_entry(f"{below}/", entry.path, facts, counts)
            yield from _pack_children(f"{below}/", entry.path, counts)
        else:
            yield from _pack_entry(below, entry.path, facts, counts)


def _pack_entry(name: str, path: str, facts: os.stat_result, counts: CopyCounts) -> Iterator[bytes]:
    info = tarfile.TarInfo(name)
    info.mode = stat.S_IMODE(facts.st_mode)
    info.mtime = facts.st_mtime
    if stat.S_ISDIR(facts.st_mode):
        info.type = tarfile.DIRTYPE
        yield _header(info)
        counts.add("folders", name != "./")
    elif stat.S_ISLNK(facts.st_mode):
        info.type = tarfile.SYMTYPE
        info.linkname = os.readlink(path)
        yield _header(info)
        counts.add("links")
    elif stat.S_ISREG(facts.st_mode):
        with open(path, "rb") as file:
            info.size = os.fstat(file.fileno()).st_size
            yield _header(info)
            left = info.size
            while left > 0:
                piece = file.read(min(_PIECE, left))
                if not piece:
                    raise OSError(f"{path} became shorter while it was read")
                left -= len(piece)
                yield piece
                counts.add("bytes", len(piece))
                if left > 0:
                    counts.tell(name)
        yield bytes(-info.size % _BLOCK)
        counts.add("files")
    else:
        counts.add("skipped")
    counts.tell(name)


def _header(info: tarfile.TarInfo) -> bytes:
    try:
        return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")
    except UnicodeEncodeError as error:
        raise ValueError(f"{info.name!r} is not UTF-8") from error


@dataclass
class _Entry:
    names: list[str]
    mode: int
    #: Seconds since 1970. None: no time that can be set.
    modified: float | None


class Unpacker:
    """Unpacks a tar from a sandbox into a local folder, which is made.

    The tar is hostile: nothing outside of the folder is written, also not through links. Each file gets its name when
    it is complete. Feed it the bytes, then call ``finish``; after an error call ``abort``. Raises ``bad_reply`` and
    ``copy_failed``, and OSError of the local files.
    """

    def __init__(self, folder: str | os.PathLike[str], counts: CopyCounts) -> None:
        self._root = os.fspath(folder)
        self._is_new = not os.path.lexists(self._root)
        os.makedirs(self._root, exist_ok=True)
        self._counts = counts
        # The beginning of a header.
        self._block = bytearray()
        # The bytes of an entry that are still to come, with what they are.
        self._left = 0
        self._kind = "ignored"
        self._padding = 0
        self._pax_block = bytearray()
        self._pax: Mapping[str, str] = {}
        self._file: BinaryIO | None = None
        self._entry: _Entry | None = None
        self._staged = ""
        # The folder that was checked last. It stays a folder: only entries of the archive change the tree.
        self._checked: list[str] = []
        # Folders that may still get entries, innermost last. Entries change their times.
        self._open: list[_Entry] = []
        self._is_ended = False

    def feed(self, data: bytes) -> None:
        view = memoryview(data)
        while view and not self._is_ended:
            if self._left > 0:
                piece = view[: self._left]
                view = view[len(piece) :]
                self._left -= len(piece)
                self._take(piece)
            else:
                piece = view[: _BLOCK - len(self._block)]
                view = view[len(piece) :]
                self._block += piece
                if len(self._block) == _BLOCK:
                    block = bytes(self._block)
                    self._block.clear()
                    self._begin(block)

    def finish(self) -> None:
        if not self._is_ended:
            raise SandboxError("bad_reply", "The archive of the sandbox has no end")
        self._leave_folders(None)

    def abort(self) -> None:
        """Removes what is incomplete."""
        if self._file is not None:
            self._file.close()
            self._file = None
            remove_if_there(self._staged)

    def _take(self, piece: memoryview) -> None:
        if self._kind == "pax":
            self._pax_block += piece
        elif self._kind == "file" and self._file is not None and self._entry is not None:
            self._file.write(piece)
            self._counts.add("bytes", len(piece))
            if self._left > 0:
                self._counts.tell("/".join(self._entry.names))
        if self._left == 0:
            self._end_content()

    def _end_content(self) -> None:
        kind, self._kind = self._kind, "ignored"
        self._left, self._padding = self._padding, 0
        if kind == "pax":
            self._pax = _pax_records(bytes(self._pax_block))
        elif kind == "file":
            self._end_file()

    def _begin(self, block: bytes) -> None:
        if not any(block):
            self._is_ended = True
            return
        try:
            info = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except (tarfile.TarError, ValueError) as error:
            raise SandboxError("bad_reply", f"The sandbox sent no tar: {error}") from error
        pax: Mapping[str, str] = {}
        if info.type != tarfile.XHDTYPE:
            pax, self._pax = self._pax, {}
        size = _number(pax.get("size"), info.size)
        if not 0 <= size < 2**62:
            raise SandboxError("bad_reply", "The sandbox sent a file with an impossible size")
        self._left, self._padding = int(size), -int(size) % _BLOCK
        self._kind = "ignored"
        if info.type == tarfile.XHDTYPE:
            if size > _MAX_PAX:
                raise SandboxError("bad_reply", "The sandbox sent a name that is too long")
            self._pax_block.clear()
            self._kind = "pax"
        elif info.type not in (tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK):
            self._add(info, pax)
        if self._left == 0:
            self._end_content()

    def _add(self, info: tarfile.TarInfo, pax: Mapping[str, str]) -> None:
        if "SANDBOX.error" in pax:
            raise SandboxError("copy_failed", pax["SANDBOX.error"])
        names = _names_of(pax.get("path", info.name))
        modified = _number(pax.get("mtime"), info.mtime)
        entry = _Entry(names, info.mode & 0o777, modified if abs(modified) <= _MAX_SECONDS else None)
        self._leave_folders(names)
        self._counts.add("skipped", max(int(_number(pax.get("SANDBOX.skipped"), 0)), 0))
        if info.isdir():
            # The content of a folder is empty, even if its header has a size.
            self._left = self._padding = 0
            if not names:
                if self._is_new:
                    self._open.insert(0, entry)
            else:
                if self._make_folder(names, entry.mode | 0o700):
                    self._open.append(entry)
                self._counts.add("folders")
            self._counts.tell(f"{'/'.join(names) or '.'}/")
        elif info.issym() or info.type in tarfile.REGULAR_TYPES and info.type != tarfile.GNUTYPE_SPARSE:
            if not names:
                raise SandboxError("bad_reply", "The sandbox sent a file without a name")
            self._make_folder(names[:-1], 0o777)
            target = self._path(names)
            self._staged = staged_name(target)
            if info.issym():
                self._link(pax.get("linkpath", info.linkname), target, entry)
            else:
                self._file = create_file(self._staged, entry.mode)
                self._entry = entry
                self._kind = "file"
        else:
            self._counts.add("skipped")
            self._counts.tell("/".join(names))

    def _link(self, linkname: str, target: str, entry: _Entry) -> None:
        if not linkname or "\0" in linkname:
            raise SandboxError("bad_reply", "The sandbox sent a link to no name")
        os.symlink(linkname, self._staged)
        try:
            if entry.modified is not None and os.utime in os.supports_follow_symlinks:
                os.utime(self._staged, (entry.modified, entry.modified), follow_symlinks=False)
            os.replace(self._staged, target)
        except BaseException:
            remove_if_there(self._staged)
            raise
        self._counts.add("links")
        self._counts.tell("/".join(entry.names))

    def _end_file(self) -> None:
        file, entry = self._file, self._entry
        if file is None or entry is None:
            return
        file.close()
        self._file = None
        try:
            if entry.modified is not None:
                os.utime(self._staged, (entry.modified, entry.modified))
            os.replace(self._staged, self._path(entry.names))
        except BaseException:
            remove_if_there(self._staged)
            raise
        self._counts.add("files")
        self._counts.tell("/".join(entry.names))

    def _path(self, names: list[str]) -> str:
        return os.path.join(self._root, *names)

    def _make_folder(self, names: list[str], mode: int) -> bool:
        """Makes a folder and those above it, and follows no link. Returns whether the folder is new."""
        is_new = False
        common = 0
        while common < min(len(names), len(self._checked)) and names[common] == self._checked[common]:
            common += 1
        for count in range(common + 1, len(names) + 1):
            path = self._path(names[:count])
            try:
                os.mkdir(path, mode if count == len(names) else 0o777)
                is_new = True
                continue
            except FileExistsError:
                is_new = False
            if os.path.islink(path):
                raise SandboxError("copy_failed", f"{path} is a link, which could lead out of the target")
            if not os.path.isdir(path):
                raise SandboxError("copy_failed", f"{path} exists and is not a folder")
        self._checked = names
        return is_new

    def _leave_folders(self, names: list[str] | None) -> None:
        """Sets modes and times of the folders that do not contain ``names``. With None: of all."""
        while self._open:
            last = self._open[-1]
            if names is not None and len(names) > len(last.names) and names[: len(last.names)] == last.names:
                return
            self._open.pop()
            path = self._path(last.names)
            # The mode that it was made with is limited by the umask.
            made = stat.S_IMODE(os.lstat(path).st_mode) & 0o777
            if made & last.mode != made:
                os.chmod(path, made & last.mode)
            if last.modified is not None:
                os.utime(path, (last.modified, last.modified))


def _names_of(entry: str) -> list[str]:
    """The names on the way from the root of an archive to an entry. Raises ``bad_reply`` if they could lead out."""
    names = [each for each in entry.split("/") if each not in ("", ".")]
    separators = "\0" if os.sep == "/" else "\0\\:"
    if entry.startswith("/") or ".." in names or any(each in name for name in names for each in separators):
        raise SandboxError("bad_reply", f"The sandbox sent {entry!r}, which is no path below the folder")
    return names


def _number(text: str | None, plain: float) -> float:
    try:
        number = plain if text is None else float(text)
    except ValueError as error:
        raise SandboxError("bad_reply", f"The sandbox sent {text!r}, which is no number") from error
    if number != number or number in (float("inf"), float("-inf")):
        raise SandboxError("bad_reply", f"The sandbox sent {text!r}, which is no number")
    return number


def _pax_records(block: bytes) -> Mapping[str, str]:
    records: dict[str, str] = {}
    at = 0
    while at < len(block):
        space = block.find(b" ", at, at + 10)
        digits = block[at:space] if space > 0 else b""
        end = at + int(digits) if digits.isdigit() else at
        key, equals, value = block[space + 1 : end - 1].partition(b"=")
        if not equals or end > len(block) or block[end - 1 : end] != b"\n":
            raise SandboxError("bad_reply", "The sandbox sent a header that is no header")
        records[key.decode("utf-8", "replace")] = value.decode("utf-8", "surrogateescape")
        at = end
    return records
