from __future__ import annotations

import codecs
import json
import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypedDict

from typing_extensions import NotRequired

from ._generated.agent import Chart, EntryInfo, ExecuteResponseError, Result


@dataclass(frozen=True)
class CommandResult:
    #: 128 + n if signal n ended it.
    exit_code: int
    stdout: str
    stderr: str
    #: The beginning of the output was dropped.
    truncated: bool


@dataclass(frozen=True)
class Output:
    """A piece of output."""

    source: Literal["stdout", "stderr", "pty"]
    data: bytes


@dataclass(frozen=True)
class RunningProcess:
    pid: int
    #: The program with its arguments, or a single text for the shell.
    command: list[str]
    tag: str | None


@dataclass(frozen=True)
class GitFile:
    """A changed file. The states are the letters of ``git status --short``; a space means unchanged."""

    path: str
    #: The state in the index.
    staged: str
    #: The state in the folder.
    unstaged: str


@dataclass(frozen=True)
class GitStatus:
    #: None: the commit is on no branch.
    branch: str | None
    #: Commits that the branch upstream does not have, and the other way round.
    ahead: int
    behind: int
    files: list[GitFile]


@dataclass(frozen=True)
class FileInfo:
    name: str
    #: ``other``: sockets, pipes, devices, dangling links. A link has the type of its target.
    type: Literal["file", "directory", "other"]
    path: str
    size: int
    mode: int
    permissions: str
    owner: str
    group: str
    modified_at: datetime
    symlink_target: str | None


class NewFile(TypedDict):
    """A file for ``write_many``."""

    path: str
    data: str | bytes
    #: Permission bits, 0o644 by default.
    mode: NotRequired[int]


@dataclass(frozen=True)
class CopyResult:
    """The numbers of copied entries."""

    files: int
    folders: int
    links: int
    #: Sockets, pipes and devices, which are not copied.
    skipped: int
    #: The content of the files.
    bytes: int


@dataclass(frozen=True)
class CopyProgress(CopyResult):
    """The progress of a copy: the numbers so far, and the entry that is copied."""

    #: The path of the entry below the copied folder. Folders end with a slash.
    name: str


@dataclass(frozen=True)
class FileEvent:
    #: Relative to the watched folder.
    name: str
    type: Literal["create", "write", "remove", "rename", "chmod"]


@dataclass(frozen=True)
class CodeContext:
    id: str
    language: str
    cwd: str


@dataclass(frozen=True)
class CodeResult:
    """A value in each of its formats. Pictures and PDFs are base64."""

    is_main_result: bool
    text: str | None = None
    html: str | None = None
    markdown: str | None = None
    svg: str | None = None
    png: str | None = None
    jpeg: str | None = None
    pdf: str | None = None
    latex: str | None = None
    javascript: str | None = None
    json: Any = None
    #: A pandas DataFrame as ``{column: [values]}``. If it is None, ``extra["data_missing"]`` has the reason.
    data: Any = None
    #: The data of a plot.
    chart: Chart | None = None
    #: Other formats by MIME type.
    extra: dict[str, str] = field(default_factory=dict)


@dataclass
class Execution:
    #: The text of the main result.
    text: str | None = None
    results: list[CodeResult] = field(default_factory=list)
    stdout: str = ""
    stderr: str = ""
    #: The exception of the code.
    error: ExecuteResponseError | None = None
    exit_code: int = 0
    execution_count: int = 0


#: The default maximum length of one output, in characters.
MAX_OUTPUT = 8 * 1024 * 1024


class OutputText:
    """The output of a command as text with a maximum length. If it is longer, its beginning is dropped."""

    def __init__(self, max_length: int) -> None:
        self._max_length = max_length
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pieces: list[str] = []
        self._length = 0
        self.is_truncated = False

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._pieces)[-self._max_length :]

    def add(self, data: bytes) -> str:
        return self.add_text(self._decoder.decode(data))

    def finish(self) -> None:
        """Adds a replacement character if the output ends within a character."""
        self.add_text(self._decoder.decode(b"", True))
        self._cut()

    def add_text(self, text: str) -> str:
        self._pieces.append(text)
        self._length += len(text)
        if self._length > 2 * self._max_length:
            self._cut()
        return text

    def _cut(self) -> None:
        text = "".join(self._pieces)
        self.is_truncated = self.is_truncated or len(text) > self._max_length
        self._pieces = [text[-self._max_length :]]
        self._length = len(self._pieces[0])


def git_status(output: str) -> GitStatus:
    """Reads the output of ``git status --porcelain=v1 --branch -z``."""
    head, *entries = output.split("\0")
    found = re.fullmatch(r"## (?:No commits yet on )?(.*?)(?:\.\.\..*)?", head)
    name = found[1] if found else ""
    ahead, behind = (re.search(rf"{word} (\d+)", head) for word in ("ahead", "behind"))
    files: list[GitFile] = []
    rest = iter(entries)
    for entry in rest:
        if not entry:
            continue
        files.append(GitFile(entry[3:], entry[0], entry[1]))
        if entry[0] in "RC" or entry[1] in "RC":
            next(rest, None)  # The former name of a renamed or copied file.
    return GitStatus(
        None if name == "HEAD (no branch)" else name,
        int(ahead[1]) if ahead else 0,
        int(behind[1]) if behind else 0,
        files,
    )


_FILE_TYPES: dict[str, Literal["file", "directory"]] = {
    "FILE_TYPE_FILE": "file",
    "FILE_TYPE_DIRECTORY": "directory",
}


def file_info(entry: EntryInfo) -> FileInfo:
    # Python 3.10 can parse neither `Z` nor more than six decimals of a second.
    modified, _, fraction = entry.get("modifiedTime", "1970-01-01T00:00:00Z").rstrip("Z").partition(".")
    return FileInfo(
        name=entry["name"],
        type=_FILE_TYPES.get(entry["type"], "other"),
        path=entry["path"],
        size=int(entry["size"]),
        mode=entry["mode"],
        permissions=entry["permissions"],
        owner=entry["owner"],
        group=entry["group"],
        modified_at=datetime.fromisoformat(f"{modified}.{fraction[:6]:0<6}+00:00"),
        symlink_target=entry.get("symlinkTarget"),
    )


_TEXT_FORMATS = ("text", "html", "markdown", "svg", "png", "jpeg", "pdf", "latex", "javascript")


def code_result(result: Result) -> CodeResult:
    formats: dict[str, Any] = {name: result.get(name) or None for name in _TEXT_FORMATS}
    return CodeResult(
        is_main_result=result["isMainResult"],
        json=json.loads(result["json"]) if result["json"] else None,
        data=json.loads(result["data"]) if result["data"] else None,
        chart=result.get("chart"),
        extra=result["extra"],
        **formats,
    )
