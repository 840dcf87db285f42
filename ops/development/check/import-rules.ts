/** The allowed imports of a folder's files, from this project and from outside. A folder may always import itself. */
export interface ImportRule {
  /** Folders, or path prefixes of files in them. */
  from: readonly string[];
  /** Folders of which only types may be imported, so they are not loaded at run time. */
  typesFrom?: readonly string[];
  /** The only allowed packages. Absent: all packages. `node:` stands for all of Node's own modules. */
  packages?: readonly string[];
}

const everything = [
  ...[
    'activities',
    'agent',
    'api',
    'bench',
    'clients',
    'config',
    'db',
    'domain',
    'gateway',
    'last-hop',
    'mail',
    'monitoring',
    'ops',
    'payments',
    'receipts',
    'registry',
  ],
  ...['runtime', 'sandbox-agent-client', 'temporal', 'webhooks', 'worker', 'workflows'],
];

/**
 * Imports go in one direction (ARCHITECTURE.md): domain ← db ← activities ← worker; domain ← workflows; servers import
 * db. A folder that is not listed may not contain code.
 */
export const importRules: Readonly<Record<string, ImportRule>> = {
  domain: {
    from: [],
    packages: ['@zxcvbn-ts/language-common', 'big.js', 'ipaddr.js', 'luxon', 'node:crypto', 'node:zlib', 'zod'],
  },
  config: { from: ['domain/ids.ts'] },
  db: { from: ['config', 'domain'] },
  temporal: { from: ['config', 'domain'] },
  // Workflow code runs in a sandbox without I/O, so it may not import code with I/O.
  workflows: {
    from: ['domain', 'platform/temporal/search-attributes.ts'],
    typesFrom: ['activities'],
    packages: ['@temporalio/common', '@temporalio/workflow'],
  },
  // Figures of the processes, for Prometheus.
  monitoring: { from: ['domain'], packages: ['node:', 'prom-client'] },
  mail: { from: ['config', 'domain'] },
  registry: { from: ['config', 'domain'] },
  payments: { from: ['config', 'db', 'domain'] },
  receipts: { from: ['domain'] },
  'last-hop': { from: ['config', 'db', 'domain'] },
  webhooks: { from: ['config', 'domain'] },
  'sandbox-agent-client': { from: ['domain'] },
  runtime: { from: ['config', 'domain', 'registry', 'sandbox-agent-client'] },
  activities: {
    from: ['config', 'db', 'domain', 'mail', 'payments', 'registry', 'runtime/driver.ts', 'temporal', 'webhooks'],
  },
  worker: {
    from: [
      ...[
        'activities',
        'config',
        'db',
        'domain',
        'last-hop',
        'mail',
        'monitoring',
        'payments',
        'registry',
        'temporal',
        'webhooks',
        'workflows',
      ],
      ...['runtime/choose-driver.ts', 'runtime/driver.ts', 'runtime/host-driver.ts', 'runtime/disk'],
      'runtime/uptime.ts',
    ],
  },
  api: {
    from: [
      ...[
        'config',
        'db',
        'domain',
        'last-hop',
        'monitoring',
        'payments',
        'receipts',
        'registry',
        'sandbox-agent-client',
      ],
      ...['temporal', 'integrations/webhooks/keys.ts', 'workflows/sandboxes/life/messages.ts'],
    ],
    typesFrom: ['workflows'],
  },
  gateway: { from: ['config', 'db', 'domain', 'last-hop', 'monitoring'] },
  agent: { from: [] },
  // These programs run at users, where the platform's code does not exist.
  clients: { from: [], packages: ['@modelcontextprotocol/sdk', 'node:', 'zod'] },
  ops: {
    from: ['agent/proto/gen', 'config', 'db', 'domain', 'last-hop', 'payments', 'registry', 'runtime', 'temporal'],
  },
  bench: {
    from: [
      'test/support',
      'test/gateway/floods',
      'test/kubernetes/support',
      'test/runtime/local-host.ts',
      ...everything,
    ],
  },
  test: { from: everything },
};

/**
 * Folders that only the listed files and folders may import, including types. These rules take precedence over those
 * above. One file chooses a driver; only that file, tests and a bench import a driver's folder.
 */
export const closedFolders: Readonly<Record<string, readonly string[]>> = {
  'runtime/kubernetes': ['runtime/choose-driver.ts', 'bench/cluster', 'test'],
  'runtime/oci': ['runtime/choose-driver.ts', 'test', 'bench/metrics/samples-cost.ts'],
};
