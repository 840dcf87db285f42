/** A file of tests that were written for the local driver. */
export interface LocalTests {
  file: string;
  /** Tests that cannot pass on a cluster, by their titles, with the cause. They are not run there. */
  cannot?: Readonly<Record<string, string>>;
}

const noTurn = 'a cluster gives no TURN credentials';

/**
 * Files of which at least half of the tests use only what both drivers have. The other tests of sandboxes look at
 * processes, files, links, loop devices or firewall tables of the machine: `test/kubernetes/` has its own for pods.
 */
export const localTests: readonly LocalTests[] = [
  {
    file: 'test/runtime/sandbox-life.test.ts',
    cannot: {
      'a sandbox is created, runs commands, pauses, resumes, stops and is removed':
        "it expects an address of the local driver's network",
      'space of deleted files is freed on the host': "it reads the file of the local driver's disk",
      'a name that is a path is refused': "it also reads the local driver's folder",
    },
  },
  {
    file: 'test/e2e/sandboxes/sandbox.test.ts',
    cannot: { 'a sandbox has the requested limits': "it reads the size of `/`, which is the node's in a pod" },
  },
  { file: 'test/e2e/sandboxes/exec.test.ts' },
  {
    file: 'test/e2e/sandboxes/ports.test.ts',
    cannot: {
      'a UDP port answers at its host_port from the create, or from its addition, until its removal':
        "it expects the machine's own address; `platform.kube.ts` has the same test with the cluster's",
      'TURN a program inside gets the server and its own credentials, with and without internet access': noTurn,
      'TURN the service gives no other access to the host and serves no other clients': noTurn,
      'TURN the secret is nowhere inside': noTurn,
    },
  },
  {
    file: 'test/e2e/sandboxes/metrics.test.ts',
    cannot: {
      'a sandbox’s use is in its metrics within seconds, every five seconds':
        'a kubelet measures less often: figures are up to 15 seconds old',
    },
  },
  { file: 'test/e2e/operations.test.ts' },
  { file: 'test/e2e/sandboxes/agent.test.ts' },
  {
    file: 'test/e2e/templates/imported-images.test.ts',
    cannot: {
      'the command of an image starts with the sandbox, as its user and in its folder; its end does not end the sandbox':
        'a pod does not know the command of its image',
    },
  },
  { file: 'test/clients/typescript-client.test.ts' },
  { file: 'test/clients/python-client.test.ts' },
  { file: 'test/clients/mcp.test.ts' },
];
