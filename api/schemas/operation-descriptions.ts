/** What the reference says of an operation beside its summary, by its id. How things behave is described in `docs/`. */
export const operationDescriptions: Readonly<Record<string, string>> = {
  createSandbox:
    'All fields may be left out. The reply is 201 also for a sandbox that has `failed`: read `status` and `failure`. It has `sandbox_domain` and ' +
    '`envd_access_token`, with which the agent in the sandbox is called.',
  listSandboxes: 'Users see their own sandboxes, account roots those of the account. Filters can be combined.',
  getSandboxStats:
    'Counts what the list shows, by status, with the average use of the last minute; null where nothing was measured.',
  getSandbox: 'Every field, also of a sandbox that has ended. One that was deleted is 404 once its data is gone.',
  updateSandbox:
    'Takes a longer timeout alone; one that is not longer is `timeout_not_raised`. `POST …/timeout` also shortens.',
  deleteSandbox:
    'From every status. Ends what is under way and removes the disk; then the sandbox is 404 and in no list.',
  getSandboxStatus: 'The cheap way to poll.',
  getSandboxMetrics:
    'Without `start` and `end` the last five minutes in steps of five seconds. The step is made larger where the reply would have more than ' +
    '10,080 items. There are no samples of times when the sandbox did not run.',
  getSandboxMetricsChart:
    'The lines of `…/metrics` as an option for ECharts, with the limits of the sandbox for reference.',
  setSandboxTimeout:
    'Counts from the start of the running phase. One that has passed already is `timeout_already_passed`. For a sandbox that does not run it holds ' +
    'from the next phase on.',
  connectSandbox:
    'Waits for what is under way, resumes a paused sandbox, and answers when it runs. `timeout` counts from now.',
  pauseSandbox: 'Freezes all processes. Memory, open files and disk stay; the time does not count as running.',
  resumeSandbox:
    'Processes go on where they stood. Where they are gone, as after a restart of the host, it is a cold start on the same disk. It is admitted ' +
    'like a create.',
  terminateSandbox:
    'From every status. Ends what is under way and removes the disk; the sandbox stays readable. One that has ended is 200.',
  switchSandboxProject: 'Both projects are those of the sandbox’s user.',
  listSandboxPorts: 'The ports of its template and its own.',
  addSandboxPort:
    'A declared port is public unless `is_protected`; it is reached at `<port>-<sandbox_domain>`. A UDP port gets a port of the host (`host_port`).',
  removeSandboxPort: 'It takes no new requests; those under way go on. A port of the template cannot be removed.',
  getWebrtcTurnCredential:
    'For browsers and other peers that connect to the WEBRTC ports of the sandbox through the TURN server.',
  startExec:
    'Runs it with `bash -c`, one at a time. Without `wait` the reply names the stream of its output; with `wait` it is the result. More commands at ' +
    'once, and terminals, are the agent’s.',
  cancelExec: 'Kills the command and what it started; answers when it has ended.',
  streamExec:
    'Server-sent events: `ready`, `start`, `stdout` and `stderr` (`data_b64`), `keepalive`, then `end` or `error`. With `Last-Event-ID` the stream goes ' +
    'on behind that event.',
  getActiveExec: 'The command of another user is shown as none.',
  batchDeleteSandboxes:
    'Each id has its own result. Those that count as concurrent are refused unless `force` is true.',
  batchTerminateSandboxes:
    'Each id has its own result. Those that are on the way to another status are refused unless `force` is true.',
  batchPauseSandboxes: 'Each id has its own result, as the single route gives it.',
  batchResumeSandboxes: 'Each id has its own result, as the single route gives it.',
};
