import http from 'node:http';
import https from 'node:https';
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ReadyProbe } from '../../domain/template-commands.ts';
import { DriverError } from '../driver.ts';
import type { AgentClient } from './agent-client.ts';

/**
 * Probes a sandbox until it is ready, with the meaning Kubernetes gives the times.
 * @throws {DriverError} `not_ready` after `failureThreshold` failures in a row.
 */
export async function whenProbeSucceeds(
  probe: ReadyProbe,
  sandbox: { address: string; agent: AgentClient },
  signal: AbortSignal,
): Promise<void> {
  await sleep(probe.initialDelaySeconds * 1000, undefined, { signal });
  for (let failures = 0; ; ) {
    const next = performance.now() + probe.periodSeconds * 1000;
    const attempt = AbortSignal.any([signal, AbortSignal.timeout(Math.ceil(probe.timeoutSeconds * 1000))]);
    if (await succeeds(probe, sandbox, attempt)) return;
    signal.throwIfAborted();
    failures += 1;
    if (failures >= probe.failureThreshold) {
      throw new DriverError('not_ready', `The sandbox was not ready after ${failures} ${probe.type} probes`);
    }
    await sleep(Math.max(0, next - performance.now()), undefined, { signal });
  }
}

async function succeeds(
  probe: ReadyProbe,
  sandbox: { address: string; agent: AgentClient },
  signal: AbortSignal,
): Promise<boolean> {
  try {
    if (probe.type === 'exec') return (await sandbox.agent.probe(probe.command, probe.timeoutSeconds, signal)) === 0;
    if (probe.type === 'httpGet') return await answers(probe, sandbox.address, signal);
    return await accepts(sandbox.address, probe.port, signal);
  } catch {
    // Whatever goes wrong with a probe is that the sandbox is not ready.
    return false;
  }
}

function answers(
  probe: Extract<ReadyProbe, { type: 'httpGet' }>,
  address: string,
  signal: AbortSignal,
): Promise<boolean> {
  const target = { host: address, port: probe.port, path: probe.path, agent: false as const, signal };
  const request =
    probe.scheme === 'HTTPS' ? https.request({ ...target, rejectUnauthorized: false }) : http.request(target);
  return new Promise((resolve, reject) => {
    request.once('response', ({ statusCode = 0 }) => {
      request.destroy();
      resolve(statusCode >= 200 && statusCode < 400);
    });
    request.once('error', reject);
    request.end();
  });
}

function accepts(address: string, port: number, signal: AbortSignal): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const socket = net.connect({ host: address, port, signal });
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', reject);
  });
}
