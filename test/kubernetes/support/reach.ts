import type { V1Pod } from '@kubernetes/client-node';

/** What a pod can or cannot do to an address. */
export interface Target {
  host: string;
  port: number;
  /** What it says; undefined: an open connection is enough. */
  word?: string;
}

/** Runs a command in a pod. @returns what it printed */
export type Run = (command: string[]) => Promise<string>;

/** What a listener says. */
export const word = 'reached';
const dialer = ['/.platform/bin/node', '/.platform/kubernetes/isolation-dialer.cjs'];
const listenerPort = 7070;
/** A command that answers on that port, in any pod that has the agent. */
export const listenWords = [dialer[0]!, '/.platform/kubernetes/isolation-listener.cjs', `${listenerPort}`, word];

/** @returns what was not as it has to be; `shut` has to fail in the first try and in the next two. */
export async function tries(run: Run, { open, shut }: Record<'open' | 'shut', Record<string, Target>>) {
  const named = (targets: Record<string, Target>, wanted: string) =>
    Object.entries(targets).map(([name, target]) => [name, { ...target, wanted }]);
  const targets = Object.fromEntries([...named(open, 'reached'), ...named(shut, 'closed')]);
  const said = JSON.parse(await run([...dialer, '/dev/stdout', JSON.stringify(targets)]));
  const isRight = (name: string) => (name in open ? said[name].reached : said[name].lastMs === null);
  return Object.keys(targets).filter((name) => !isRight(name));
}

/** A pod that no policy closes, which answers on a port. @param image the one that brings the agent in */
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

/** What reaches a pod that runs `listenWords`. */
export const listeningAt = ({ status }: V1Pod): Target => ({ host: status!.podIP!, port: listenerPort, word });
