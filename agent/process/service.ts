import { Code } from '@connectrpc/connect';
import { Process, type ProcessInput } from '../proto/gen/sandboxagent_pb.js';
import { ConnectError } from '../rpc/connect-error.ts';
import { keepaliveMs } from '../rpc/keepalive.ts';
import { type AgentCall, type AgentService, agentService } from '../rpc/service.ts';
import type { ProcessEventInit } from './attachment.ts';
import { dataFrames } from './data-frames.ts';
import { decodeInput } from './decode-input.ts';
import { type ProcessTable, type StartOptions, terminalSize } from './process-table.ts';
import type { RunningProcess } from './running-process.ts';
import { isSignal } from './signals.ts';

/** How clients see the service. */
interface ProcessFace {
  name?: string;
  /** What the headers of a start say. */
  readOptions?: (call: AgentCall) => StartOptions;
  /** The exit code of a process that a signal ended. Without it: 128 and the signal's number. */
  signalExitCode?: number;
}

/** `sandboxagent.Process`, or the same service under another name. */
export function processServices(
  table: ProcessTable,
  { name, readOptions = startOptions, signalExitCode }: ProcessFace = {},
): AgentService[] {
  return [
    agentService(
      Process,
      {
        list: () => ({ processes: table.list().map(({ config, pid, tag }) => ({ config, pid, tag })) }),

        start(request, call) {
          const interval = keepaliveMs(call);
          return follow(table.start(request, readOptions(call)), interval, call, signalExitCode);
        },

        connect({ process }, call) {
          const interval = keepaliveMs(call);
          return follow(table.findToFollow(process), interval, call, signalExitCode);
        },

        update({ process, pty }) {
          const running = table.find(process);
          if (pty) {
            const { columns, rows } = terminalSize(pty);
            running.resize(columns, rows);
          }
          return {};
        },

        async streamInput(requests) {
          let running: RunningProcess | undefined;
          for await (const { event } of requests) {
            if (event.case === 'start') running = table.find(event.value.process);
            else if (event.case === 'data') {
              if (!running) throw new ConnectError('data before start', Code.InvalidArgument);
              await send(running, event.value.input);
            }
          }
          return {};
        },

        async sendInput({ process, input }) {
          await send(table.find(process), input);
          return {};
        },

        sendSignal({ process, signal }) {
          const running = table.find(process);
          if (!isSignal(signal)) throw new ConnectError('signal must be given', Code.InvalidArgument);
          running.signal(signal);
          return {};
        },

        async closeStdin({ process }) {
          await table.find(process).closeStdin();
          return {};
        },
      },
      {
        name,
        fast: { start: { frames: dataFrames }, connect: { frames: dataFrames }, sendInput: { decode: decodeInput } },
      },
    ),
  ];
}

/** @throws {ConnectError} `invalid_argument` */
function startOptions(call: AgentCall): StartOptions {
  const endsWith = call.header('process-ends-with') || 'group';
  if (endsWith !== 'group' && endsWith !== 'leader') {
    throw new ConnectError('Process-Ends-With must be group or leader', Code.InvalidArgument);
  }
  return { endsWith, user: namedUser(call) };
}

/**
 * The user of `Authorization: Basic base64("user:")`, as clients of such agents send it. Other authorizations name no
 * user.
 */
export function namedUser(call: AgentCall): string | undefined {
  const [, credentials] = /^basic +([a-z0-9+/]+=*)$/i.exec(call.header('authorization') ?? '') ?? [];
  const user = credentials && Buffer.from(credentials, 'base64').toString('utf8').split(':', 1)[0];
  return user || undefined;
}

/** Writes input to the process. The next message is read only after the process has taken this one. */
async function send(process: RunningProcess, input: ProcessInput | undefined): Promise<void> {
  if (!input?.input.case) throw new ConnectError('input must hold stdin or pty', Code.InvalidArgument);
  await process.write(input.input.case, input.input.value);
}

function withSignalExitCode(init: ProcessEventInit, exitCode: number): ProcessEventInit {
  const { event } = init;
  if (event?.case !== 'end' || event.value.exited) return init;
  return { event: { case: 'end', value: { ...event.value, exitCode } } };
}

/**
 * A process's events for one client, `start` first, with a `keepalive` after each `intervalMs` of silence. The process
 * continues when the client leaves.
 */
async function* follow(
  started: RunningProcess | Promise<RunningProcess>,
  intervalMs: number,
  call: AgentCall,
  signalExitCode: number | undefined,
): AsyncGenerator<{ event: ProcessEventInit }> {
  const process = await started;
  const attachment = process.attach();
  const leave = () => attachment.close();
  call.signal.addEventListener('abort', leave);
  // The client may have left while the process was being started.
  if (call.signal.aborted) leave();
  try {
    yield { event: { event: { case: 'start', value: { pid: process.pid } } } };
    for (let event = attachment.next(); event !== null; event = attachment.next()) {
      if (event) yield { event: signalExitCode === undefined ? event : withSignalExitCode(event, signalExitCode) };
      else if (!(await attachment.within(intervalMs))) yield { event: { event: { case: 'keepalive', value: {} } } };
    }
  } finally {
    call.signal.removeEventListener('abort', leave);
    attachment.close();
  }
}
