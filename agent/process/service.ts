import { Code, ConnectError } from '@connectrpc/connect';
import type { AgentEnvironment } from '../boot/environment.ts';
import { Process, type ProcessSelector, Signal, type StartRequest } from '../proto/gen/sandboxagent_pb.js';
import { type AgentCall, type AgentService, agentService } from '../rpc/service.ts';
import { keepaliveMs } from './keepalive.ts';
import { ProcessTable } from './process-table.ts';
import type { ProcessEventInit, RunningProcess } from './running-process.ts';
import { signalOfNumber } from './signals.ts';

/** `sandboxagent.Process` (sections 4.12 and 6.3). */
export function processServices(environment: AgentEnvironment): AgentService[] {
  const table = new ProcessTable(environment);
  return [
    agentService(Process, {
      list: () => ({ processes: table.list().map(({ config, pid, tag }) => ({ config, pid, tag })) }),
      async *start(request: StartRequest, call) {
        const interval = keepaliveMs(call);
        yield* follow(await table.start(request), interval, call);
      },
      sendSignal({ process, signal }) {
        const running = table.find(selected(process));
        const name = signal === Signal.UNSPECIFIED ? undefined : signalOfNumber(signal);
        if (!name) throw new ConnectError('signal must be given', Code.InvalidArgument);
        running.signal(name);
        return {};
      },
    }),
  ];
}

function selected(selector: ProcessSelector | undefined): ProcessSelector['selector'] {
  if (!selector?.selector.case) throw new ConnectError('process must be given by pid or tag', Code.InvalidArgument);
  return selector.selector;
}

/** A process's events for one client, `start` first; the process goes on when the client leaves. */
async function* follow(
  process: RunningProcess,
  intervalMs: number,
  call: AgentCall,
): AsyncGenerator<{ event: ProcessEventInit }> {
  const attachment = process.attach();
  const leave = () => attachment.close();
  call.signal.addEventListener('abort', leave);
  try {
    yield { event: { event: { case: 'start', value: { pid: process.pid } } } };
    for await (const event of attachment.events(intervalMs)) yield { event };
  } finally {
    call.signal.removeEventListener('abort', leave);
    attachment.close();
  }
}
