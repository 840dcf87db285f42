import { KubeConfig } from '@kubernetes/client-node';
import type { SandboxId } from '../../../domain/ids.ts';
import type { DriverErrorCode, SandboxSpec } from '../../../runtime/driver.ts';
import { type KubernetesDriver, openKubernetesDriver } from '../../../runtime/kubernetes/driver.ts';
import type { WarmOptions } from '../../../runtime/kubernetes/options.ts';

/**
 * This program runs the driver in a separate process, like a host worker. It handles calls of its parent until it is
 * killed.
 */
export interface ProgramOptions {
  kubeConfigFile: string;
  namespace: string;
  agentImage: string;
  /** Undefined: the driver makes no warm pods. */
  warm?: WarmOptions;
}

export interface Call {
  id: number;
  method:
    | 'create'
    | 'pause'
    | 'resume'
    | 'restart'
    | 'stop'
    | 'remove'
    | 'inspect'
    | 'list'
    | 'reconcile'
    | 'countWarm'
    | 'close';
  argument: unknown;
}

/** A message to the parent. */
export type Message =
  | { ready: true }
  | { id: number; result: unknown }
  | { id: number; error: { message: string; code: DriverErrorCode | null; retryable: boolean } }
  | { ended: { sandboxId: SandboxId; run: number | null; reason: string } }
  | { warning: string };

const send = (message: Message) => process.send!(message);

async function open({ kubeConfigFile, namespace, agentImage, warm }: ProgramOptions): Promise<KubernetesDriver> {
  const config = new KubeConfig();
  config.loadFromFile(kubeConfigFile);
  const warn = (fields: object, message: string) => {
    const { err } = fields as { err?: Error };
    send({ warning: err ? `${message}: ${err.message}` : message });
  };
  const driver = await openKubernetesDriver({
    config,
    namespace,
    hostId: namespace,
    agentImage,
    resolveImage: (reference) => reference,
    storageClass: namespace,
    clientRanges: ['0.0.0.0/0'],
    podNetwork: '10.0.0.0/8',
    ...(warm && { warm }),
    logger: { debug: () => {}, info: () => {}, warn, error: warn },
  });
  driver.onEnd(({ sandboxId, run, reason }) => send({ ended: { sandboxId, run, reason } }));
  return driver;
}

async function answer(driver: KubernetesDriver, { id, method, argument }: Call): Promise<void> {
  try {
    const acts: Record<Call['method'], () => Promise<unknown>> = {
      create: () => driver.create(argument as SandboxSpec),
      resume: () => driver.resume(argument as SandboxSpec),
      restart: () => driver.restart(argument as SandboxSpec),
      pause: () => driver.pause(argument as SandboxId),
      stop: () => driver.stop(argument as SandboxId),
      remove: () => driver.remove(argument as SandboxId),
      inspect: () => driver.inspect(argument as SandboxId),
      list: () => driver.list(),
      reconcile: () => driver.reconcile(argument as SandboxId[]),
      countWarm: async () => driver.poolReady,
      close: () => driver.close(),
    };
    send({ id, result: (await acts[method]()) ?? null });
  } catch (error) {
    const { message, code, retryable } = error as Error & { code?: DriverErrorCode; retryable?: boolean };
    const { cause } = error as { cause?: Error };
    const text = cause ? `${message} (${cause.message})` : message;
    // An error without a code counts as retryable, and the caller repeats the call, as Temporal does.
    send({ id, error: { message: text, code: code ?? null, retryable: retryable ?? true } });
  }
}

const driver = await open(JSON.parse(process.argv[2]!));
process.on('message', (call: Call) => void answer(driver, call));
// The process ends together with its parent.
process.on('disconnect', () => process.exit());
send({ ready: true });
