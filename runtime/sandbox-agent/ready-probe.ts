import type net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import tls from 'node:tls';
import type { ReadyProbe } from '../../domain/templates/commands.ts';
import { canConnect, fetchStatus } from '../../platform/agent-client/sandbox-exchange.ts';
import { DriverError, type SandboxSpec } from '../driver.ts';
import { type AgentClient, AgentError } from './agent-client.ts';

/** Without a ready command, a template's command must run, or end with 0, for this time. */
const commandRunsMs = 300;
const commandPollMs = 20;

type Started = Pick<SandboxSpec, 'sandboxId' | 'run' | 'command' | 'readyProbe'>;
interface Probed {
  address: string;
  agent: AgentClient;
}

/**
 * Waits until a sandbox with a booted agent is ready.
 * @throws {DriverError} `runtime_exited` when the template's command fails before that; `not_ready`
 */
export async function whenReady(spec: Started, sandbox: Probed, signal: AbortSignal): Promise<void> {
  const { readyProbe, command } = spec;
  const requireCommand = async () => {
    if (command) await requireNotFailed(spec, sandbox.agent, signal);
  };
  if (readyProbe) return whenProbeSucceeds(readyProbe, sandbox, requireCommand, signal);
  for (const end = performance.now() + commandRunsMs; command && performance.now() < end; ) {
    await sleep(commandPollMs, undefined, { signal });
    await requireCommand();
  }
}

async function requireNotFailed({ sandboxId, run }: Started, agent: AgentClient, signal: AbortSignal): Promise<void> {
  const failed = await agent.failedCommand(signal).catch((error) => {
    // An agent that does not answer now is asked again, or its sandbox has ended.
    if (error instanceof AgentError) return null;
    throw error;
  });
  if (!failed) return;
  const { exitCode, output } = failed;
  const exit = { sandboxId, run, exitCode, outOfMemory: false, commandOutput: output };
  throw new DriverError('runtime_exited', `The command of the template ended with ${exitCode}`, { exit });
}

/**
 * Probes a sandbox until it is ready. The times have the meaning of Kubernetes probes.
 * @throws {DriverError} `not_ready` after `failureThreshold` consecutive failures, and the errors of `requireCommand`
 */
async function whenProbeSucceeds(
  probe: ReadyProbe,
  sandbox: Probed,
  requireCommand: () => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  await sleep(probe.initialDelaySeconds * 1000, undefined, { signal });
  for (let failures = 0; ; ) {
    const next = performance.now() + probe.periodSeconds * 1000;
    const attempt = AbortSignal.any([signal, AbortSignal.timeout(Math.ceil(probe.timeoutSeconds * 1000))]);
    if (await succeeds(probe, sandbox, attempt)) return;
    signal.throwIfAborted();
    await requireCommand();
    failures += 1;
    if (failures >= probe.failureThreshold) {
      throw new DriverError('not_ready', `The sandbox was not ready after ${failures} ${probe.type} probes`);
    }
    await sleep(Math.max(0, next - performance.now()), undefined, { signal });
  }
}

async function succeeds(probe: ReadyProbe, sandbox: Probed, signal: AbortSignal): Promise<boolean> {
  const { address } = sandbox;
  const deadlineMs = Math.ceil(probe.timeoutSeconds * 1000);
  try {
    if (probe.type === 'exec') return (await sandbox.agent.probe(probe.command, probe.timeoutSeconds, signal)) === 0;
    const { port } = probe;
    let server: net.Socket | null = null;
    if (!(await canConnect({ address, port }, deadlineMs, signal))) {
      // The server may listen only on loopback.
      server = await sandbox.agent.connectLoopback(port, deadlineMs, signal);
      if (!server) return false;
    }
    if (probe.type === 'tcpSocket') {
      server?.destroy();
      return true;
    }
    const { path, scheme } = probe;
    const isTls = scheme === 'HTTPS';
    const openTunnel = server
      ? () => (isTls ? tls.connect({ socket: server, rejectUnauthorized: false }) : server)
      : undefined;
    return (await fetchStatus({ address, port, method: 'GET', path, isTls, openTunnel, deadlineMs, signal })) < 400;
  } catch {
    // Any error of a probe means that the sandbox is not ready.
    return false;
  }
}
