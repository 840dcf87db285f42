# Generated (see clients/README.md). Do not edit.
from __future__ import annotations

from typing import Any, Literal, TypedDict, Union

from typing_extensions import NotRequired

class BarData(TypedDict):
    label: str
    group: str
    value: str


class BoxWhiskerData(TypedDict):
    label: str
    min: float
    firstQuartile: float
    median: float
    thirdQuartile: float
    max: float
    outliers: list[float]


class Chart(TypedDict):
    type: str
    title: str
    elements: list["ChartElement"]
    extra: dict[str, str]


class Chart2D(TypedDict):
    xLabel: str
    yLabel: str
    xUnit: str
    yUnit: str
    chart: NotRequired["Chart"]


class ChartElement(TypedDict):
    pointData: NotRequired["PointData"]
    barData: NotRequired["BarData"]
    pieData: NotRequired["PieData"]
    boxWhiskerData: NotRequired["BoxWhiskerData"]
    nestedChart: NotRequired["Chart"]


class CloseStdinRequest(TypedDict):
    process: NotRequired["ProcessSelector"]


class CloseStdinResponse(TypedDict):
    pass


class ConnectRequest(TypedDict):
    process: NotRequired["ProcessSelector"]


class ConnectResponse(TypedDict):
    event: NotRequired["ProcessEvent"]


class Context(TypedDict):
    id: str
    language: str
    cwd: str
    createdAt: NotRequired[str]
    envVars: dict[str, str]


class CreateContextRequest(TypedDict):
    language: str
    cwd: str


class CreateWatcherRequest(TypedDict):
    path: str
    recursive: bool
    includeEntry: NotRequired[bool]


class CreateWatcherResponse(TypedDict):
    watcherId: str


class DestroyContextRequest(TypedDict):
    contextId: str


class DestroyContextResponse(TypedDict):
    success: bool


class EntryInfo(TypedDict):
    name: str
    type: "FileType"
    path: str
    size: str
    mode: int
    permissions: str
    owner: str
    group: str
    modifiedTime: NotRequired[str]
    symlinkTarget: NotRequired[str]
    metadata: dict[str, str]


EventType = Literal["EVENT_TYPE_UNSPECIFIED", "EVENT_TYPE_CREATE", "EVENT_TYPE_WRITE", "EVENT_TYPE_REMOVE", "EVENT_TYPE_RENAME", "EVENT_TYPE_CHMOD"]

class ExecuteRequest(TypedDict):
    contextId: str
    code: str
    language: str
    envVars: dict[str, str]


class ExecuteResponse(TypedDict):
    stdout: NotRequired["ExecuteResponseOutput"]
    stderr: NotRequired["ExecuteResponseOutput"]
    result: NotRequired["Result"]
    error: NotRequired["ExecuteResponseError"]


class ExecuteResponseError(TypedDict):
    name: str
    value: str
    traceback: str


class ExecuteResponseOutput(TypedDict):
    content: str


FileType = Literal["FILE_TYPE_UNSPECIFIED", "FILE_TYPE_FILE", "FILE_TYPE_DIRECTORY"]

class FilesystemEvent(TypedDict):
    name: str
    type: "EventType"
    entry: NotRequired["EntryInfo"]


class GetWatcherEventsRequest(TypedDict):
    watcherId: str


class GetWatcherEventsResponse(TypedDict):
    events: list["FilesystemEvent"]


class ListDirRequest(TypedDict):
    path: str
    depth: int


class ListDirResponse(TypedDict):
    entries: list["EntryInfo"]


class ListRequest(TypedDict):
    pass


class ListResponse(TypedDict):
    processes: list["ProcessInfo"]


class MakeDirRequest(TypedDict):
    path: str


class MakeDirResponse(TypedDict):
    entry: NotRequired["EntryInfo"]


class MoveRequest(TypedDict):
    source: str
    destination: str


class MoveResponse(TypedDict):
    entry: NotRequired["EntryInfo"]


class PTY(TypedDict):
    size: NotRequired["PTYSize"]


class PTYSize(TypedDict):
    cols: int
    rows: int


class PieData(TypedDict):
    label: str
    angle: float
    radius: float


class Point(TypedDict):
    xStr: NotRequired[str]
    xNum: NotRequired[float]
    yStr: NotRequired[str]
    yNum: NotRequired[float]


class PointChart(TypedDict):
    xTicks: list[str]
    xTickLabels: list[str]
    xScale: str
    yTicks: list[str]
    yTickLabels: list[str]
    yScale: str
    chart2d: NotRequired["Chart2D"]


class PointData(TypedDict):
    label: str
    points: list["Point"]


class ProcessConfig(TypedDict):
    cmd: str
    args: list[str]
    envs: dict[str, str]
    cwd: NotRequired[str]


class ProcessEvent(TypedDict):
    start: NotRequired["ProcessEventStartEvent"]
    data: NotRequired["ProcessEventDataEvent"]
    end: NotRequired["ProcessEventEndEvent"]
    keepalive: NotRequired["ProcessEventKeepAlive"]


class ProcessEventDataEvent(TypedDict):
    stdout: NotRequired[str]
    stderr: NotRequired[str]
    pty: NotRequired[str]


class ProcessEventEndEvent(TypedDict):
    exitCode: int
    exited: bool
    status: str
    error: NotRequired[str]


class ProcessEventKeepAlive(TypedDict):
    pass


class ProcessEventStartEvent(TypedDict):
    pid: int


class ProcessInfo(TypedDict):
    config: NotRequired["ProcessConfig"]
    pid: int
    tag: NotRequired[str]


class ProcessInput(TypedDict):
    stdin: NotRequired[str]
    pty: NotRequired[str]


class ProcessSelector(TypedDict):
    pid: NotRequired[int]
    tag: NotRequired[str]


class RemoveRequest(TypedDict):
    path: str


class RemoveResponse(TypedDict):
    pass


class RemoveWatcherRequest(TypedDict):
    watcherId: str


class RemoveWatcherResponse(TypedDict):
    pass


class Result(TypedDict):
    exitCode: int
    startedAt: NotRequired[str]
    finishedAt: NotRequired[str]
    text: str
    html: str
    markdown: str
    svg: str
    png: str
    jpeg: str
    pdf: str
    latex: str
    json: str
    javascript: str
    data: str
    chart: NotRequired["Chart"]
    executionCount: int
    isMainResult: bool
    extra: dict[str, str]


class SendInputRequest(TypedDict):
    process: NotRequired["ProcessSelector"]
    input: NotRequired["ProcessInput"]


class SendInputResponse(TypedDict):
    pass


class SendSignalRequest(TypedDict):
    process: NotRequired["ProcessSelector"]
    signal: "Signal"


class SendSignalResponse(TypedDict):
    pass


Signal = Literal["SIGNAL_UNSPECIFIED", "SIGNAL_SIGTERM", "SIGNAL_SIGKILL"]

class StartRequest(TypedDict):
    process: NotRequired["ProcessConfig"]
    pty: NotRequired["PTY"]
    tag: NotRequired[str]
    stdin: NotRequired[bool]


class StartResponse(TypedDict):
    event: NotRequired["ProcessEvent"]


class StatRequest(TypedDict):
    path: str


class StatResponse(TypedDict):
    entry: NotRequired["EntryInfo"]


class StreamInputRequest(TypedDict):
    start: NotRequired["StreamInputRequestStartEvent"]
    data: NotRequired["StreamInputRequestDataEvent"]
    keepalive: NotRequired["StreamInputRequestKeepAlive"]


class StreamInputRequestDataEvent(TypedDict):
    input: NotRequired["ProcessInput"]


class StreamInputRequestKeepAlive(TypedDict):
    pass


class StreamInputRequestStartEvent(TypedDict):
    process: NotRequired["ProcessSelector"]


class StreamInputResponse(TypedDict):
    pass


class UpdateRequest(TypedDict):
    process: NotRequired["ProcessSelector"]
    pty: NotRequired["PTY"]


class UpdateResponse(TypedDict):
    pass


class WatchDirRequest(TypedDict):
    path: str
    recursive: bool
    includeEntry: NotRequired[bool]


class WatchDirResponse(TypedDict):
    start: NotRequired["WatchDirResponseStartEvent"]
    filesystem: NotRequired["FilesystemEvent"]
    keepalive: NotRequired["WatchDirResponseKeepAlive"]


class WatchDirResponseKeepAlive(TypedDict):
    pass


class WatchDirResponseStartEvent(TypedDict):
    pass
