/** The allowed imports of a folder's files, from this project and from outside. A folder may always import itself. */
export interface ImportRule {
  /** Folders, or path prefixes of files in them. */
  from: readonly string[];
  /** Folders of which only types may be imported, so they are not loaded at run time. */
  typesFrom?: readonly string[];
  /** The only allowed packages. Absent: all packages. `node:` stands for all of Node's own modules. */
  packages?: readonly string[];
}

/** Which subjects of a layer import which others: folders, or files in them, from the layer. */
export interface SubjectRules {
  /** Folders that every subject may import and that import none; `.` stands for the files beside the subjects. */
  shared: readonly string[];
  subjects: Readonly<Record<string, readonly string[]>>;
}

const everything = [
  ...[
    'activities',
    'agent',
    'api',
    'bench',
    'clients',
    'console',
    'db',
    'domain',
    'gateway',
    'integrations',
    'ops',
    'platform',
  ],
  ...['runtime', 'worker', 'workflows'],
];

/**
 * Imports go in one direction (ARCHITECTURE.md): domain ← db ← activities ← worker; domain ← workflows; servers import
 * db. The rule of the deepest folder applies to a file; a file without a rule is an offence.
 */
export const importRules: Readonly<Record<string, ImportRule>> = {
  domain: {
    from: [],
    packages: ['@zxcvbn-ts/language-common', 'big.js', 'ipaddr.js', 'luxon', 'node:crypto', 'node:zlib', 'zod'],
  },
  'platform/config': { from: ['domain/ids.ts'] },
  'platform/temporal': { from: ['domain', 'platform/config'] },
  // Figures of the processes, for Prometheus.
  'platform/monitoring': { from: ['domain'], packages: ['node:', 'prom-client'] },
  'platform/agent-client': { from: ['domain'] },
  db: { from: ['domain', 'platform/config'] },
  // Workflow code runs in a sandbox without I/O, so it may not import code with I/O.
  workflows: {
    from: ['domain', 'platform/temporal/search-attributes.ts'],
    typesFrom: ['activities'],
    packages: ['@temporalio/common', '@temporalio/workflow'],
  },
  'integrations/mail': { from: ['domain', 'platform/config'] },
  'integrations/payments': { from: ['db', 'domain', 'platform/config'] },
  'integrations/receipts': { from: ['domain'] },
  'integrations/registry': { from: ['domain', 'platform/config'] },
  'integrations/webhooks': { from: ['domain', 'platform/config'] },
  runtime: { from: ['domain', 'integrations/registry', 'platform/agent-client', 'platform/config'] },
  activities: {
    from: [
      ...['db', 'domain', 'integrations/mail', 'integrations/payments', 'integrations/registry'],
      ...['integrations/webhooks', 'platform/config', 'platform/temporal', 'runtime/driver.ts'],
    ],
  },
  worker: {
    from: [
      ...['activities', 'db', 'domain', 'gateway/last-hop', 'integrations/mail', 'integrations/payments'],
      ...['integrations/registry', 'integrations/webhooks', 'platform/config', 'platform/monitoring'],
      ...['platform/temporal', 'workflows', 'runtime/choose-driver.ts', 'runtime/driver.ts', 'runtime/host-driver.ts'],
      ...['runtime/disk', 'runtime/uptime.ts'],
    ],
  },
  api: {
    from: [
      ...['db', 'domain', 'gateway/last-hop', 'integrations/payments', 'integrations/receipts'],
      ...['integrations/registry', 'integrations/webhooks/keys.ts', 'platform', 'workflows/sandboxes/life/messages.ts'],
    ],
    typesFrom: ['workflows'],
  },
  gateway: { from: ['db', 'domain', 'platform/config', 'platform/monitoring'] },
  'gateway/last-hop': { from: ['db', 'domain', 'platform/config'] },
  agent: { from: [] },
  // These programs run at users, where the platform's code does not exist.
  clients: { from: [], packages: ['@modelcontextprotocol/sdk', 'node:', 'tar-stream', 'zod'] },
  // It runs in browsers and calls the public API.
  console: {
    from: [],
    packages: [
      '@tanstack/react-query',
      '@tanstack/react-router',
      'echarts',
      'marked',
      'node:',
      'react',
      'react-dom',
      'vite',
    ],
  },
  'clients/build.mjs': { from: [], packages: ['esbuild', 'fflate', 'node:', 'smol-toml'] },
  'clients/integrations': { from: [], packages: ['@computesdk/provider', '@sandbox-platform/client', 'ai', 'zod'] },
  ops: {
    from: [
      ...[
        'agent/proto/gen',
        'console/src/api/form-field.ts',
        'db',
        'domain',
        'gateway/last-hop',
        'integrations/payments',
        'integrations/registry',
      ],
      ...['platform/config', 'platform/temporal', 'runtime'],
    ],
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
 * In each of these folders, a sub-folder is a subject, which imports another one only if this table names it, or a file
 * of it. Files beside the subjects put them together, and no subject imports them, except `shared` ones. `db/core` is
 * shared, and imports no subject.
 */
export const subjectRules: Readonly<Record<string, SubjectRules>> = {
  domain: {
    // Every file beside the subjects.
    shared: ['.'],
    subjects: { billing: ['usage/types.ts'] },
  },
  db: {
    shared: ['core'],
    subjects: {
      accounts: ['billing/plans.ts', 'billing/subscriptions.ts', 'sandboxes/sandbox.entity.ts'],
      billing: ['accounts', 'usage/usage-sums.ts'],
      hosts: ['accounts/audit-events.ts', 'sandboxes/sandbox.entity.ts'],
      sandboxes: ['accounts', 'billing', 'hosts', 'upkeep/secret-keys.ts', 'usage'],
      templates: ['accounts', 'billing', 'sandboxes/sandbox.entity.ts', 'usage'],
      upkeep: ['accounts', 'billing/reconciliations.ts'],
      migrations: ['billing/usage-prices.ts'],
      usage: ['accounts', 'billing/usage-prices.ts', 'sandboxes/sandbox-events.ts', 'sandboxes/sandbox.entity.ts'],
      webhooks: ['accounts'],
    },
  },
  workflows: {
    shared: ['.'],
    subjects: { accounts: ['sandboxes/end-sandbox.ts'], hosts: ['sandboxes/life/messages.ts'] },
  },
  activities: {
    shared: ['.'],
    subjects: { sandboxes: ['hosts/host-work.ts'], templates: ['hosts/host-work.ts'] },
  },
  worker: { shared: ['.'], subjects: { hosts: ['sandboxes/facts.ts'] } },
  'api/routes': { shared: [], subjects: { accounts: ['sandboxes'], sandboxes: ['templates'] } },
};

/**
 * Folders, files and packages that only the listed files and folders may import, including types. These rules take precedence over those
 * above. One file chooses a driver; only that file, tests and a bench import a driver's folder.
 */
export const closedFolders: Readonly<Record<string, readonly string[]>> = {
  // SQL is written in db/ only. Programs of operators also speak to databases that are not the platform's.
  'db/core/query.ts': ['db', 'test', 'bench'],
  pg: [
    ...['db', 'ops/development', 'ops/local-stack/embedded', 'ops/operator/backup/cluster-copy.ts'],
    ...['ops/operator/temporal-role.ts', 'test', 'bench'],
  ],
  'runtime/kubernetes': ['runtime/choose-driver.ts', 'bench/cluster', 'test'],
  'runtime/oci': ['runtime/choose-driver.ts', 'test', 'bench/metrics/samples-cost.ts'],
};
