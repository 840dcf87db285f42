import type { V1Pod } from '@kubernetes/client-node';

/** An address to which a pod may or may not connect. */
export interface Target {
  host: string;
  port: number;
  /** The text that the server sends. Undefined: an open connection is enough. */
  word?: string;
}

/** Runs a command in a pod. @returns its standard output */
export type Run = (command: string[]) => Promise<string>;

/** The text that listeners send. */
export const word = 'reached';
const dialer = ['/.platform/bin/node', '/.platform/kubernetes/isolation-dialer.cjs'];
const listenerPort = 7070;
/** A command that listens on this port, in any pod with the files of the agent image. */
export const listenWords = [dialer[0]!, '/.platform/kubernetes/isolation-listener.cjs', `${listenerPort}`, word];

/**
 * Connects from a pod to the targets. Connections to `open` must succeed, and three attempts to connect to `shut` must
 * fail.
 * @returns the names of the targets with another result
 */
export async function tries(run: Run, { open, shut }: Record<'open' | 'shut', Record<string, Target>>) {
  const named = (targets: Record<string, Target>, wanted: string) =>
    Object.entries(targets).map(([name, target]) => [name, { ...target, wanted }]);
  const targets = Object.fromEntries([...named(open, 'reached'), ...named(shut, 'closed')]);
  const said = JSON.parse(await run([...dialer, '/dev/stdout', JSON.stringify(targets)]));
  const isRight = (name: string) => (name in open ? said[name].reached : said[name].lastMs === null);
  return Object.keys(targets).filter((name) => !isRight(name));
}

/** A pod without a policy that listens on a port. @param image the agent image */
export function listeningPod(image: string, namespace: string, name = 'listener'): V1Pod {
  return {
    metadata: { name, namespace },
    spec: {
      containers: [
        {
          name: 'main',
          image,
          command: listenWords,
          readinessProbe: { tcpSocket: { port: listenerPort }, periodSeconds: 1 },
        },
      ],
      terminationGracePeriodSeconds: 0,
    },
  };
}

/** The target for connections to a pod that runs `listenWords`. */
export const listeningAt = ({ status }: V1Pod): Target => ({ host: status!.podIP!, port: listenerPort, word });
