/** One of the agent's procedures for the reference. */
export interface AgentOperation {
  /**
   * For example `Filesystem/Stat`. Its messages are `StatRequest` and `StatResponse` unless the operation names others.
   */
  procedure: string;
  input?: string;
  output?: string;
  summary: string;
  description: string;
  stream?: 'server' | 'client';
  /** The stream of the example does not end. */
  isEndless?: true;
  withoutToken?: true;
  /** The messages that a client sends. Only a client stream has more than one. */
  requests: readonly object[];
  /** The reply, or the messages of a reply stream. */
  replies: readonly object[];
}

const entry = {
  ...{ name: 'a.txt', type: 'FILE_TYPE_FILE', path: '/tmp/example/a.txt', size: '6', mode: 420 },
  ...{ permissions: '-rw-r--r--', owner: 'root', group: 'root', modifiedTime: '2026-05-04T14:05:00.123456Z' },
};
const folder = {
  ...{ ...entry, name: 'example', type: 'FILE_TYPE_DIRECTORY', path: '/tmp/example', size: '4096', mode: 493 },
  permissions: 'drwxr-xr-x',
};

/** An id in the examples. A real sandbox returns another one. */
export const exampleWatcherId = '7f9c2ba4e88f827d61604550';
export const exampleContextId = 'ctx-5k2vq8m3w7xj4r6t';

/** The order is one in which the examples work one after the other. */
export const agentOperations: readonly AgentOperation[] = [
  {
    procedure: 'Filesystem/MakeDir',
    summary: 'Make a folder',
    description: 'Creates the folder and missing parents. If the path exists, the error is `already_exists`.',
    requests: [{ path: '/tmp/example/made' }],
    replies: [{ entry: { ...folder, name: 'made', path: '/tmp/example/made' } }],
  },
  {
    procedure: 'Filesystem/Stat',
    summary: 'Describe the entry at a path',
    description:
      'The entry of a symbolic link describes the link itself, with the type of its target and ' +
      '`symlinkTarget`. A missing path is `not_found`.',
    requests: [{ path: '/tmp/example/a.txt' }],
    replies: [{ entry }],
  },
  {
    procedure: 'Filesystem/ListDir',
    summary: 'List a folder',
    description: 'Lists `depth` levels (0 means 1) and at most 250,000 entries. Unreadable folders are left out.',
    requests: [{ path: '/tmp/example', depth: 1 }],
    replies: [{ entries: [entry] }],
  },
  {
    procedure: 'Filesystem/Move',
    summary: 'Move a file or folder',
    description: 'Replaces an entry at the destination and creates missing parents. Also works between file systems.',
    requests: [{ source: '/tmp/example/a.txt', destination: '/tmp/example/moved/a.txt' }],
    replies: [{ entry: { ...entry, path: '/tmp/example/moved/a.txt' } }],
  },
  {
    procedure: 'Filesystem/CreateWatcher',
    summary: 'Watch a folder by polling',
    description: 'Records changes from now on for `GetWatcherEvents`, 65,536 at most. A sandbox may have 256 watchers.',
    requests: [{ path: '/tmp/example', recursive: true }],
    replies: [{ watcherId: exampleWatcherId }],
  },
  {
    procedure: 'Filesystem/GetWatcherEvents',
    summary: 'Get the changes since the last call',
    description:
      'Needs no token, because the id cannot be guessed. If events were lost, the error is `data_loss`: list ' +
      'the folder again.',
    withoutToken: true,
    requests: [{ watcherId: exampleWatcherId }],
    replies: [{ events: [{ name: 'a.txt', type: 'EVENT_TYPE_WRITE' }] }],
  },
  {
    procedure: 'Filesystem/RemoveWatcher',
    summary: 'End a watcher',
    description: 'Needs no token: the id cannot be guessed.',
    withoutToken: true,
    requests: [{ watcherId: exampleWatcherId }],
    replies: [{}],
  },
  {
    procedure: 'Filesystem/WatchDir',
    summary: 'Watch a folder, as a stream',
    description:
      'The first message is `start`, when the watch is set up. After 30 seconds without an event, a ' +
      '`keepalive` is sent.',
    stream: 'server',
    isEndless: true,
    requests: [{ path: '/tmp/example', recursive: false }],
    replies: [{ start: {} }, { filesystem: { name: 'a.txt', type: 'EVENT_TYPE_CREATE' } }],
  },
  {
    procedure: 'Filesystem/Remove',
    summary: 'Remove a file or folder',
    description:
      'Removes the path and all entries below it. Links are not followed; a missing path is no error; `/` is refused.',
    requests: [{ path: '/tmp/example/moved' }],
    replies: [{}],
  },
  {
    procedure: 'Process/Start',
    summary: 'Start a process and follow it',
    description:
      'Runs a program in a new session, without a shell unless you start one. The first event is `start` with ' +
      'the pid, ' +
      'the last is `end`. With `pty` it runs on a terminal. It continues when its client disconnects: ' +
      '`Connect` finds it by pid or tag. `Process-Ends-With: leader` makes the end come with that of the program ' +
      'itself; without it, the end waits for background processes of its group that hold its pipes. ' +
      '`Authorization: Basic` with the base64 of `user:` runs it as that user of the sandbox.',
    stream: 'server',
    requests: [{ process: { cmd: 'sh', args: ['-c', 'echo hello'], envs: { A: '1' }, cwd: '/tmp' }, tag: 'greeting' }],
    replies: [
      { event: { start: { pid: 42 } } },
      { event: { data: { stdout: 'aGVsbG8K' } } },
      { event: { end: { exitCode: 0, exited: true, status: 'exit status 0' } } },
    ],
  },
  {
    procedure: 'Process/List',
    summary: 'List processes',
    description: 'Lists the processes that were started through the agent and have not ended.',
    requests: [{}],
    replies: [{ processes: [{ config: { cmd: 'cat', args: [], envs: {} }, pid: 43, tag: 'example' }] }],
  },
  {
    procedure: 'Process/Connect',
    summary: 'Follow a running process',
    description:
      'First sends the output since the last client disconnected, up to 1 MiB. The last 64 processes that ended can be ' +
      'followed for 10 minutes. `not_found`: there is no such process.',
    stream: 'server',
    isEndless: true,
    requests: [{ process: { tag: 'example' } }],
    replies: [{ event: { start: { pid: 43 } } }, { event: { data: { stdout: 'bHMK' } } }],
  },
  {
    procedure: 'Process/SendInput',
    summary: 'Write to a process',
    description:
      'Writes base64 data to its standard input (`stdin`) or its terminal (`pty`). Replies when the process ' +
      'has read it.',
    requests: [{ process: { tag: 'example' }, input: { stdin: 'bHMK' } }],
    replies: [{}],
  },
  {
    procedure: 'Process/StreamInput',
    summary: 'Write to a process, as a stream',
    description: 'The first message names the process. `keepalive` messages are allowed at any time.',
    stream: 'client',
    requests: [{ start: { process: { tag: 'example' } } }, { data: { input: { stdin: 'bHMK' } } }],
    replies: [{}],
  },
  {
    procedure: 'Process/Update',
    summary: 'Resize a terminal',
    description: 'If the process has no terminal, the error is `failed_precondition`.',
    requests: [{ process: { tag: 'terminal' }, pty: { size: { cols: 120, rows: 40 } } }],
    replies: [{}],
  },
  {
    procedure: 'Process/SendSignal',
    summary: 'Send a signal',
    description: 'Signals the whole process group, with `SIGNAL_SIGTERM` or `SIGNAL_SIGKILL`.',
    requests: [{ process: { tag: 'example' }, signal: 'SIGNAL_SIGTERM' }],
    replies: [{}],
  },
  {
    procedure: 'Process/CloseStdin',
    summary: 'End the input of a process',
    description:
      'Its standard input ends after everything that was written. For a terminal the error is `failed_precondition`; ' +
      'send the byte 4 (Ctrl-D) as `pty`.',
    requests: [{ process: { tag: 'reader' } }],
    replies: [{}],
  },
  {
    procedure: 'ContextService/CreateContext',
    output: 'Context',
    summary: 'Make a code context',
    description:
      'A context is an interpreter that keeps its state. Languages: python, javascript, typescript, bash, and ' +
      'r and java if the template has them. ' +
      'A missing `cwd` is created. If the template lacks the language, the error is `failed_precondition` and ' +
      'names the packages to install.',
    requests: [{ language: 'javascript', cwd: '/tmp/example' }],
    replies: [
      {
        ...{ id: exampleContextId, language: 'javascript', cwd: '/tmp/example' },
        ...{ createdAt: '2026-05-04T14:05:00.123Z', envVars: {} },
      },
    ],
  },
  {
    procedure: 'ExecutionService/Execute',
    summary: 'Run code in a context',
    description:
      'An empty `contextId` is the default context of the language. Output and displayed values are sent ' +
      'immediately; the last event ' +
      'is the main result or an error. `data` of a result, a table as JSON, is filled if the request has the header ' +
      '`Accept-Result-Data: 1`. `json` is filled for JSON displays. Both keep every digit.',
    stream: 'server',
    requests: [{ contextId: exampleContextId, code: '6 * 7', language: 'javascript', envVars: {} }],
    replies: [{ result: { exitCode: 0, text: '42', executionCount: 1, isMainResult: true } }],
  },
  {
    procedure: 'ContextService/DestroyContext',
    summary: 'End a code context',
    description: "Ends its interpreter and the interpreter's processes. An unknown context is `not_found`.",
    requests: [{ contextId: exampleContextId }],
    replies: [{ success: true }],
  },
];
