// Generated (see clients/README.md). Do not edit.

export interface BarData {
  label: string;
  group: string;
  value: string;
}

export interface BoxWhiskerData {
  label: string;
  min: number;
  firstQuartile: number;
  median: number;
  thirdQuartile: number;
  max: number;
  outliers: number[];
}

export interface Chart {
  type: string;
  title: string;
  elements: ChartElement[];
  extra: Record<string, string>;
}

export interface Chart2D {
  xLabel: string;
  yLabel: string;
  xUnit: string;
  yUnit: string;
  chart?: Chart;
}

export interface ChartElement {
  pointData?: PointData;
  barData?: BarData;
  pieData?: PieData;
  boxWhiskerData?: BoxWhiskerData;
  nestedChart?: Chart;
}

export interface CloseStdinRequest {
  process?: ProcessSelector;
}

export type CloseStdinResponse = Record<string, never>;

export interface ConnectRequest {
  process?: ProcessSelector;
}

export interface ConnectResponse {
  event?: ProcessEvent;
}

export interface Context {
  id: string;
  language: string;
  cwd: string;
  createdAt?: string;
  envVars: Record<string, string>;
}

export interface CreateContextRequest {
  language: string;
  cwd: string;
}

export interface CreateWatcherRequest {
  path: string;
  recursive: boolean;
  includeEntry?: boolean;
}

export interface CreateWatcherResponse {
  watcherId: string;
}

export interface DestroyContextRequest {
  contextId: string;
}

export interface DestroyContextResponse {
  success: boolean;
}

export interface EntryInfo {
  name: string;
  type: FileType;
  path: string;
  size: string;
  mode: number;
  permissions: string;
  owner: string;
  group: string;
  modifiedTime?: string;
  symlinkTarget?: string;
  metadata: Record<string, string>;
}

export type EventType =
  | 'EVENT_TYPE_UNSPECIFIED'
  | 'EVENT_TYPE_CREATE'
  | 'EVENT_TYPE_WRITE'
  | 'EVENT_TYPE_REMOVE'
  | 'EVENT_TYPE_RENAME'
  | 'EVENT_TYPE_CHMOD';

export interface ExecuteRequest {
  contextId: string;
  code: string;
  language: string;
  envVars: Record<string, string>;
}

export interface ExecuteResponse {
  stdout?: ExecuteResponseOutput;
  stderr?: ExecuteResponseOutput;
  result?: Result;
  error?: ExecuteResponseError;
}

export interface ExecuteResponseError {
  name: string;
  value: string;
  traceback: string;
}

export interface ExecuteResponseOutput {
  content: string;
}

export type FileType = 'FILE_TYPE_UNSPECIFIED' | 'FILE_TYPE_FILE' | 'FILE_TYPE_DIRECTORY';

export interface FilesystemEvent {
  name: string;
  type: EventType;
  entry?: EntryInfo;
}

export interface GetWatcherEventsRequest {
  watcherId: string;
}

export interface GetWatcherEventsResponse {
  events: FilesystemEvent[];
}

export interface ListDirRequest {
  path: string;
  depth: number;
}

export interface ListDirResponse {
  entries: EntryInfo[];
}

export type ListRequest = Record<string, never>;

export interface ListResponse {
  processes: ProcessInfo[];
}

export interface MakeDirRequest {
  path: string;
}

export interface MakeDirResponse {
  entry?: EntryInfo;
}

export interface MoveRequest {
  source: string;
  destination: string;
}

export interface MoveResponse {
  entry?: EntryInfo;
}

export interface PTY {
  size?: PTYSize;
}

export interface PTYSize {
  cols: number;
  rows: number;
}

export interface PieData {
  label: string;
  angle: number;
  radius: number;
}

export interface Point {
  xStr?: string;
  xNum?: number;
  yStr?: string;
  yNum?: number;
}

export interface PointChart {
  xTicks: string[];
  xTickLabels: string[];
  xScale: string;
  yTicks: string[];
  yTickLabels: string[];
  yScale: string;
  chart2d?: Chart2D;
}

export interface PointData {
  label: string;
  points: Point[];
}

export interface ProcessConfig {
  cmd: string;
  args: string[];
  envs: Record<string, string>;
  cwd?: string;
}

export interface ProcessEvent {
  start?: ProcessEventStartEvent;
  data?: ProcessEventDataEvent;
  end?: ProcessEventEndEvent;
  keepalive?: ProcessEventKeepAlive;
}

export interface ProcessEventDataEvent {
  stdout?: string;
  stderr?: string;
  pty?: string;
}

export interface ProcessEventEndEvent {
  exitCode: number;
  exited: boolean;
  status: string;
  error?: string;
}

export type ProcessEventKeepAlive = Record<string, never>;

export interface ProcessEventStartEvent {
  pid: number;
}

export interface ProcessInfo {
  config?: ProcessConfig;
  pid: number;
  tag?: string;
}

export interface ProcessInput {
  stdin?: string;
  pty?: string;
}

export interface ProcessSelector {
  pid?: number;
  tag?: string;
}

export interface RemoveRequest {
  path: string;
}

export type RemoveResponse = Record<string, never>;

export interface RemoveWatcherRequest {
  watcherId: string;
}

export type RemoveWatcherResponse = Record<string, never>;

export interface Result {
  exitCode: number;
  startedAt?: string;
  finishedAt?: string;
  text: string;
  html: string;
  markdown: string;
  svg: string;
  png: string;
  jpeg: string;
  pdf: string;
  latex: string;
  json: string;
  javascript: string;
  data: string;
  chart?: Chart;
  executionCount: number;
  isMainResult: boolean;
  extra: Record<string, string>;
}

export interface SendInputRequest {
  process?: ProcessSelector;
  input?: ProcessInput;
}

export type SendInputResponse = Record<string, never>;

export interface SendSignalRequest {
  process?: ProcessSelector;
  signal: Signal;
}

export type SendSignalResponse = Record<string, never>;

export type Signal = 'SIGNAL_UNSPECIFIED' | 'SIGNAL_SIGTERM' | 'SIGNAL_SIGKILL';

export interface StartRequest {
  process?: ProcessConfig;
  pty?: PTY;
  tag?: string;
  stdin?: boolean;
}

export interface StartResponse {
  event?: ProcessEvent;
}

export interface StatRequest {
  path: string;
}

export interface StatResponse {
  entry?: EntryInfo;
}

export interface StreamInputRequest {
  start?: StreamInputRequestStartEvent;
  data?: StreamInputRequestDataEvent;
  keepalive?: StreamInputRequestKeepAlive;
}

export interface StreamInputRequestDataEvent {
  input?: ProcessInput;
}

export type StreamInputRequestKeepAlive = Record<string, never>;

export interface StreamInputRequestStartEvent {
  process?: ProcessSelector;
}

export type StreamInputResponse = Record<string, never>;

export interface UpdateRequest {
  process?: ProcessSelector;
  pty?: PTY;
}

export type UpdateResponse = Record<string, never>;

export interface WatchDirRequest {
  path: string;
  recursive: boolean;
  includeEntry?: boolean;
}

export interface WatchDirResponse {
  start?: WatchDirResponseStartEvent;
  filesystem?: FilesystemEvent;
  keepalive?: WatchDirResponseKeepAlive;
}

export type WatchDirResponseKeepAlive = Record<string, never>;

export type WatchDirResponseStartEvent = Record<string, never>;

/** One message, one reply. */
export interface Calls {
  'Filesystem/Stat': { input: StatRequest; output: StatResponse };
  'Filesystem/MakeDir': { input: MakeDirRequest; output: MakeDirResponse };
  'Filesystem/Move': { input: MoveRequest; output: MoveResponse };
  'Filesystem/ListDir': { input: ListDirRequest; output: ListDirResponse };
  'Filesystem/Remove': { input: RemoveRequest; output: RemoveResponse };
  'Filesystem/CreateWatcher': { input: CreateWatcherRequest; output: CreateWatcherResponse };
  'Filesystem/GetWatcherEvents': { input: GetWatcherEventsRequest; output: GetWatcherEventsResponse };
  'Filesystem/RemoveWatcher': { input: RemoveWatcherRequest; output: RemoveWatcherResponse };
  'Process/List': { input: ListRequest; output: ListResponse };
  'Process/Update': { input: UpdateRequest; output: UpdateResponse };
  'Process/SendInput': { input: SendInputRequest; output: SendInputResponse };
  'Process/SendSignal': { input: SendSignalRequest; output: SendSignalResponse };
  'Process/CloseStdin': { input: CloseStdinRequest; output: CloseStdinResponse };
  'ContextService/CreateContext': { input: CreateContextRequest; output: Context };
  'ContextService/DestroyContext': { input: DestroyContextRequest; output: DestroyContextResponse };
}

/** Streams. */
export interface Streams {
  'Filesystem/WatchDir': { input: WatchDirRequest; output: WatchDirResponse };
  'Process/Connect': { input: ConnectRequest; output: ConnectResponse };
  'Process/Start': { input: StartRequest; output: StartResponse };
  'Process/StreamInput': { input: StreamInputRequest; output: StreamInputResponse };
  'ExecutionService/Execute': { input: ExecuteRequest; output: ExecuteResponse };
}
