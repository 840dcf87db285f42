/** One of the agent's procedures, as the reference shows it. */
export interface AgentOperation {
  /** `Filesystem/Stat`; its messages are `StatRequest` and `StatResponse` unless they are named. */
  procedure: string;
  input?: string;
  output?: string;
  summary: string;
  description: string;
  stream?: 'server' | 'client';
  /** Nothing of the example ends the stream. */
  isEndless?: true;
  withoutToken?: true;
  /** Messages that a client sends; one, but for a client stream. */
  requests: readonly object[];
  /** What comes back: a message, or those of a stream. */
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

/** Ids that the examples name; a real sandbox gives others. */
export const exampleWatcherId = '7f9c2ba4e88f827d61604550';
export const exampleContextId = 'ctx-5k2vq8m3w7xj4r6t';

/** In an order in which the examples work one after the other. */
export const agentOperations: readonly AgentOperation[] = [
  {
    procedure: 'Filesystem/MakeDir',
    summary: 'Make a folder',
    description: 'Makes the folder and its parents. One that exists is `already_exists`.',
    requests: [{ path: '/tmp/example/made' }],
    replies: [{ entry: { ...folder, name: 'made', path: '/tmp/example/made' } }],
  },
  {
    procedure: 'Filesystem/Stat',
    summary: 'What is at a path',
    description:
      'A link is shown itself, with the type of its target and `symlinkTarget`. Nothing there is `not_found`.',
    requests: [{ path: '/tmp/example/a.txt' }],
    replies: [{ entry }],
  },
  {
    procedure: 'Filesystem/ListDir',
    summary: 'List a folder',
    description: '`depth` levels, 1 for 0; at most 250,000 entries. What may not be read is left out.',
    requests: [{ path: '/tmp/example', depth: 1 }],
    replies: [{ entries: [entry] }],
  },
  {
    procedure: 'Filesystem/Move',
    summary: 'Move a file or folder',
    description: 'Replaces what is at the destination and makes its parents; also between file systems.',
    requests: [{ source: '/tmp/example/a.txt', destination: '/tmp/example/moved/a.txt' }],
    replies: [{ entry: { ...entry, path: '/tmp/example/moved/a.txt' } }],
  },
  {
    procedure: 'Filesystem/CreateWatcher',
    summary: 'Watch a folder, to be polled',
    description: 'From now on changes are kept for `GetWatcherEvents`, 65,536 at most. There may be 256 watchers.',
    requests: [{ path: '/tmp/example', recursive: true }],
    replies: [{ watcherId: exampleWatcherId }],
  },
  {
    procedure: 'Filesystem/GetWatcherEvents',
    summary: 'Take the changes since the last call',
    description:
      'Needs no token: the id cannot be guessed. Events that were lost are `data_loss`: list the folder again.',
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
      'The first message is `start`: the watch is set up. After a silence of 30 seconds comes a `keepalive`.',
    stream: 'server',
    isEndless: true,
    requests: [{ path: '/tmp/example', recursive: false }],
    replies: [{ start: {} }, { filesystem: { name: 'a.txt', type: 'EVENT_TYPE_CREATE' } }],
  },
  {
    procedure: 'Filesystem/Remove',
    summary: 'Remove a file or folder',
    description: 'With all that is in it. Links are not followed; nothing there is fine; `/` is refused.',
    requests: [{ path: '/tmp/example/moved' }],
    replies: [{}],
  },
  {
    procedure: 'Process/Start',
    summary: 'Start a process and follow it',
    description:
      'Runs a program in a session of its own; there is no shell unless you start one. The first event is `start` with the pid, ' +
      'the last `end`. With `pty` it runs on a terminal. It goes on when its client leaves: `Connect` finds it by pid or tag.',
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
    description: 'Those that were started through the agent and have not ended.',
    requests: [{}],
    replies: [{ processes: [{ config: { cmd: 'cat', args: [], envs: {} }, pid: 43, tag: 'example' }] }],
  },
  {
    procedure: 'Process/Connect',
    summary: 'Follow a process that runs',
    description:
      'Its output since the last client left comes first, up to 1 MiB. `not_found`: there is no such process.',
    stream: 'server',
    isEndless: true,
    requests: [{ process: { tag: 'example' } }],
    replies: [{ event: { start: { pid: 43 } } }, { event: { data: { stdout: 'bHMK' } } }],
  },
  {
    procedure: 'Process/SendInput',
    summary: 'Write to a process',
    description:
      'To its standard input (`stdin`) or its terminal (`pty`), in base64. Answers when the process has taken it.',
    requests: [{ process: { tag: 'example' }, input: { stdin: 'bHMK' } }],
    replies: [{}],
  },
  {
    procedure: 'Process/StreamInput',
    summary: 'Write to a process, as a stream',
    description: 'The first message names the process; `keepalive` may come at any time.',
    stream: 'client',
    requests: [{ start: { process: { tag: 'example' } } }, { data: { input: { stdin: 'bHMK' } } }],
    replies: [{}],
  },
  {
    procedure: 'Process/Update',
    summary: 'Resize a terminal',
    description: 'A process without a terminal is `failed_precondition`.',
    requests: [{ process: { tag: 'terminal' }, pty: { size: { cols: 120, rows: 40 } } }],
    replies: [{}],
  },
  {
    procedure: 'Process/SendSignal',
    summary: 'Send a signal',
    description: 'To the whole process group: `SIGNAL_SIGTERM` or `SIGNAL_SIGKILL`.',
    requests: [{ process: { tag: 'example' }, signal: 'SIGNAL_SIGTERM' }],
    replies: [{}],
  },
  {
    procedure: 'ContextService/CreateContext',
    output: 'Context',
    summary: 'Make a code context',
    description:
      'An interpreter that keeps its state. Languages: python, javascript, typescript, bash, and where the template has them r and java. ' +
      'A missing `cwd` is made. A language that the template lacks is `failed_precondition`, with what to install.',
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
      'An empty `contextId` is the default context of the language. Output and displayed values come as they are made; the last event ' +
      'is the main result or an error.',
    stream: 'server',
    requests: [{ contextId: exampleContextId, code: '6 * 7', language: 'javascript', envVars: {} }],
    replies: [{ result: { exitCode: 0, text: '42', executionCount: 1, isMainResult: true } }],
  },
  {
    procedure: 'ContextService/DestroyContext',
    summary: 'End a code context',
    description: 'Ends its interpreter and what it started. No such context is `not_found`.',
    requests: [{ contextId: exampleContextId }],
    replies: [{ success: true }],
  },
];
