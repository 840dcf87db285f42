import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { loadAllYaml } from '@kubernetes/client-node';
import { kubernetesPrograms } from '../../ops/setup/toolchain/locations.mjs';
import { loadSettings } from '../../platform/config/settings.ts';
import { KubernetesCluster } from './support/kubernetes-cluster.ts';

/** Tests the chart against a real API server without nodes, Postgres or Temporal, so no pod of the chart runs. */
const run = promisify(execFile);
const chart = path.resolve(import.meta.dirname, '../../ops/helm/sandbox-platform');

const needed = {
  image: { repository: 'registry.test/sandbox-platform' },
  url: 'https://api.example.com',
  baseDomain: 'sandbox.example.com',
  secret: 'platform',
  gateway: { tlsSecret: 'gateway-tls' },
  temporal: { address: 'temporal.example.com:7233' },
};

const everything = {
  ...needed,
  settings: { PLATFORM_REGION: 'eu', PLATFORM_RATE_LIMIT_PER_KEY: 100, PLATFORM_TRUST_PROXY: true },
  migrations: { ownerSecret: 'owner' },
  temporal: {
    address: 'name.account.tmprl.cloud:7233',
    namespace: 'name.account',
    prepareNamespace: false,
    tls: { enabled: true, caSecret: 'temporal-ca', clientSecret: 'temporal-client', serverName: 'name.account' },
    apiKeySecret: { name: 'temporal-key' },
  },
  registry: {
    address: 'harbor.example.com/sandboxes',
    username: 'platform',
    passwordSecret: 'registry',
    caSecret: 'registry-ca',
  },
  api: { ingress: { enabled: true, className: 'nginx', tlsSecret: 'api-tls' } },
  worker: { deployment: 'platform', previousTags: ['v0.0.9_rc.1'] },
  lastHop: { gatewayTokenSecret: 'join-token', authoritySecret: 'authority' },
  sandboxes: {
    enabled: true,
    hostId: 'cluster-one',
    // The namespace of a role must exist even for a server-side dry run.
    namespace: 'default',
    createNamespace: false,
    replicas: 2,
    agentImage: 'registry.test/agent:1',
    s3fsImage: 'registry.test/s3fs:1',
    templateImages: { 'code-interpreter': 'registry.test/code-interpreter:1' },
    podNetwork: '10.244.0.0/16',
    closedRanges: ['203.0.113.0/24'],
    pullSecret: 'pull',
    storageClass: 'fast',
    runtimeClass: 'gvisor',
    udp: {
      ports: '30100-30199',
      publicAddress: '192.0.2.1',
      service: 'LoadBalancer',
      loadBalancerClass: 'example.com/one',
      annotations: { 'example.com/shared': 'a "name", or two' },
    },
  },
  host: { enabled: true, tolerations: [{ key: 'sandboxes', operator: 'Exists' }] },
  networkPolicies: { metricsFrom: [{ namespaceSelector: { matchLabels: { name: 'monitoring' } } }] },
};

let cluster: KubernetesCluster;

beforeAll(async () => {
  cluster = await KubernetesCluster.start({ kind: 'api-only' });
}, 300_000);

afterAll(async () => {
  await cluster?.stop();
}, 120_000);

function valuesFile(name: string, values: object): string {
  const file = path.join(cluster.place.folder, `${name}.json`);
  fs.writeFileSync(file, JSON.stringify(values));
  return file;
}

const helm = async (...words: string[]) => (await run(kubernetesPrograms().helm, words)).stdout;

interface Rendered {
  kind: string;
  metadata: { name: string };
  data: Record<string, string>;
  spec: {
    template: {
      spec: {
        automountServiceAccountToken?: boolean;
        serviceAccountName?: string;
        containers: { env: { name: string; value?: string }[]; envFrom: object[] }[];
        initContainers?: object[];
        volumes?: { name: string }[];
      };
    };
  };
}

async function rendered(name: string, values: object): Promise<{ text: string; objects: Rendered[] }> {
  const text = await helm('template', 'platform', chart, '--values', valuesFile(name, values));
  return { text, objects: (loadAllYaml(text) as Rendered[]).filter(Boolean) };
}

test.each([
  ['needed', needed],
  ['everything', everything],
  ['node helper', { ...needed, nodeHelper: { enabled: true, sandboxNamespace: 'default' } }],
  ['mount helper', { ...needed, mountHelper: { enabled: true, sandboxNamespace: 'default' } }],
])('the linter and the API server accept the chart with these values: %s', async (name, values) => {
  await helm('lint', '--strict', chart, '--values', valuesFile(name, values));
  const { text, objects } = await rendered(name, values);
  const file = path.join(cluster.place.folder, `${name}.yaml`);
  fs.writeFileSync(file, text);
  const kubectl = ['--kubeconfig', cluster.kubeConfigFile, 'apply', '--server-side', '--dry-run=server'];
  const { stdout } = await run(kubernetesPrograms().kubectl, [...kubectl, '--validate=strict', '--filename', file]);
  expect(stdout.trim().split('\n')).toHaveLength(objects.length);
});

test('the processes know all settings of the chart, and the chart contains only references to secrets', async () => {
  const { text, objects } = await rendered('settings', everything);
  const { data } = objects.find(({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === 'platform-settings')!;
  const secrets = { PLATFORM_SECRET_KEY: Buffer.alloc(32, 1).toString('base64'), DATABASE_URL: 'postgres://x' };
  const settings = loadSettings({ ...data, ...secrets }) as unknown as Record<string, unknown>;
  // The processes would ignore a setting with a wrong name.
  for (const name of Object.keys(data)) expect(Object.keys(settings)).toContain(name);
  expect(settings).toMatchObject({
    TEMPORAL_TLS: true,
    TEMPORAL_TLS_CA_FILE: '/secrets/temporal-ca/ca.crt',
    PLATFORM_API_HOST: '0.0.0.0',
    PLATFORM_REGION: 'eu',
    PLATFORM_RATE_LIMIT_PER_KEY: 100,
    PLATFORM_TRUST_PROXY: true,
    PLATFORM_WORKER_METRICS_PORT: 9464,
    PLATFORM_WORKER_DEPLOYMENT: 'platform',
  });
  const workloads = objects.filter(({ kind }) => ['Deployment', 'DaemonSet', 'Job'].includes(kind));
  const ofCluster = workloads.find(({ metadata }) => metadata.name === 'platform-sandboxes')!;
  const { env } = ofCluster.spec.template.spec.containers[0]!;
  const given = Object.fromEntries(env.map(({ name, value }) => [name, value ?? '']));
  const { HOME: _home, ...own } = given;
  const host = loadSettings({ ...data, ...secrets, ...own }) as unknown as Record<string, unknown>;
  for (const name of Object.keys(own)) expect(Object.keys(host)).toContain(name);
  expect(host).toMatchObject({
    PLATFORM_DRIVER: 'kubernetes',
    PLATFORM_HOST_ID: 'cluster-one',
    PLATFORM_HOST_LEASE_SECONDS: 60,
    PLATFORM_WARM_POOL_SIZE: 2,
    PLATFORM_WARM_POOL_MAX_SIZE: 16,
    PLATFORM_KUBERNETES_CLIENT_RANGES: ['10.244.0.0/16'],
    PLATFORM_KUBERNETES_S3FS_IMAGE: 'registry.test/s3fs:1',
    PLATFORM_KUBERNETES_TEMPLATE_IMAGES: { 'code-interpreter': ['registry.test/code-interpreter:1'] },
    PLATFORM_UDP_PORTS: { first: 30_100, last: 30_199 },
    PLATFORM_HOST_PUBLIC_ADDRESS: '192.0.2.1',
    PLATFORM_KUBERNETES_UDP_SERVICE: 'LoadBalancer',
    PLATFORM_KUBERNETES_UDP_TRAFFIC_POLICY: 'Cluster',
    PLATFORM_KUBERNETES_UDP_LOAD_BALANCER_CLASS: 'example.com/one',
    PLATFORM_KUBERNETES_UDP_ANNOTATIONS: { 'example.com/shared': 'a "name", or two' },
  });
  expect(workloads.map(({ metadata }) => metadata.name).sort()).toEqual(
    ['api', 'gateway', 'host', 'migrations', 'sandboxes', 'worker-0-1-0', 'worker-v0-0-9-rc-1'].map(
      (part) => `platform-${part}`,
    ),
  );
  for (const { metadata, spec } of workloads) {
    const [container] = spec.template.spec.containers;
    expect(container!.env.map(({ name }) => name)).toContain('TEMPORAL_API_KEY');
    expect(container!.envFrom).toContainEqual({ secretRef: { name: 'platform' } });
    // Only migrations may act as the owner of the tables.
    expect(JSON.stringify(spec).includes('"owner"')).toBe(metadata.name === 'platform-migrations');
    // Only the cluster's host worker calls the API server.
    const { automountServiceAccountToken: token, serviceAccountName: account } = spec.template.spec;
    expect([token, account]).toEqual(
      metadata.name === 'platform-sandboxes' ? [undefined, 'platform-sandboxes'] : [false, undefined],
    );
    // Only control workers may issue certificates.
    expect(JSON.stringify(spec).includes('"authority"')).toBe(metadata.name.startsWith('platform-worker'));
    expect(spec.template.spec.initContainers).toBeUndefined();
  }
  expect(text).not.toContain('kind: Secret\n');
});

test('admission policies limit the helpers to pods of their own node, unless `ownNodeOnly` is false', async () => {
  const renderPolicies = async (ownNodeOnly: boolean) => {
    const helper = { enabled: true, sandboxNamespace: 'default', ownNodeOnly };
    const { objects } = await rendered('own-node', { ...needed, nodeHelper: helper, mountHelper: helper });
    const policies = objects.filter(({ kind }) => kind.startsWith('ValidatingAdmissionPolicy'));
    return policies.map(({ kind, metadata }) => `${kind} ${metadata.name}`).sort();
  };
  expect(await renderPolicies(true)).toEqual(
    ['ValidatingAdmissionPolicy', 'ValidatingAdmissionPolicyBinding'].flatMap((kind) =>
      ['mount', 'node'].map((helper) => `${kind} default-platform-${helper}-helper-own-node`),
    ),
  );
  expect(await renderPolicies(false)).toEqual([]);
});

test('UDP ports need a public address, and without UDP ports the host worker has no right to Services', async () => {
  const { sandboxes } = everything;
  const withUdp = (udp: object) => valuesFile('udp', { ...everything, sandboxes: { ...sandboxes, udp } });
  const nowhere = helm('template', 'platform', chart, '--values', withUdp({ ports: '30100-30199' }));
  await expect(nowhere).rejects.toThrow("at '/sandboxes/udp/publicAddress'");
  const renderRights = async (udp: object) => {
    const { objects } = await rendered('udp', { ...everything, sandboxes: { ...sandboxes, udp } });
    const role = objects.find(({ kind, metadata }) => kind === 'Role' && metadata.name === 'platform-sandboxes');
    return (role as unknown as { rules: { resources: string[] }[] }).rules.flatMap(({ resources }) => resources);
  };
  expect(await renderRights({})).not.toContain('services');
  expect(await renderRights(sandboxes.udp)).toContain('services');
});

test('the host worker may create and delete Secrets only if sandboxes can have mounts, and may never read them', async () => {
  const renderRules = async (s3fsImage: string) => {
    const values = { ...everything, sandboxes: { ...everything.sandboxes, s3fsImage } };
    const { objects } = await rendered('mounts', values);
    const role = objects.find(({ kind, metadata }) => kind === 'Role' && metadata.name === 'platform-sandboxes');
    const { rules } = role as unknown as { rules: { resources: string[]; verbs: string[] }[] };
    return rules.filter(({ resources }) => resources.includes('secrets')).map(({ verbs }) => verbs);
  };
  expect(await renderRules('')).toEqual([]);
  expect(await renderRules('registry.test/s3fs:1')).toEqual([['create', 'delete']]);
});

test('by default a separate account reads the figures of nodes, and `api-server` is an option', async () => {
  const of = async (nodeFigures: object) => {
    const values = { ...everything, sandboxes: { ...everything.sandboxes, nodeFigures } };
    const { text, objects } = await rendered('figures', values);
    const worker = objects.find(
      ({ kind, metadata }) => kind === 'Deployment' && metadata.name === 'platform-sandboxes',
    )!;
    const { containers, volumes } = worker.spec.template.spec;
    const settings = containers[0]!.env.filter(({ name }) => /NODE_FIGURES|KUBELET/.test(name));
    const volume = volumes!.find(({ name }) => name === 'kubelet-ca');
    return { rights: text.match(/nodes\/\w+/g), settings: settings.map(({ value }) => value), volume };
  };
  const account = 'default/platform-kubelet-reader';
  expect(await of({})).toEqual({ rights: ['nodes/stats'], settings: [account, 'kubelet'], volume: undefined });
  expect(await of({ caSecret: 'kubelets' })).toEqual({
    rights: ['nodes/stats'],
    settings: [account, '/secrets/kubelet-ca/ca.crt', 'kubelet'],
    volume: { name: 'kubelet-ca', secret: { secretName: 'kubelets', defaultMode: 288 } },
  });
  const { rights, settings } = await of({ from: 'api-server' });
  expect([rights, settings]).toEqual([['nodes/proxy'], ['api-server']]);
});

test('the chart names a missing required value', async () => {
  const failed = helm('template', 'platform', chart, '--values', valuesFile('without', { ...needed, secret: '' }));
  await expect(failed).rejects.toThrow("at '/secret'");
});

test('the chart has a ServiceMonitor only if it is enabled', async () => {
  const wanted = { ...needed, metrics: { serviceMonitor: { enabled: true, tokenSecret: 'metrics-token' } } };
  const { objects } = await rendered('monitor', wanted);
  const monitor = objects.find(({ kind }) => kind === 'ServiceMonitor') as unknown as { spec: { endpoints: object[] } };
  expect(monitor.spec.endpoints).toEqual([
    { port: 'metrics', interval: '15s', authorization: { credentials: { name: 'metrics-token', key: 'token' } } },
  ]);
  expect((await rendered('plain', needed)).objects.map(({ kind }) => kind)).not.toContain('ServiceMonitor');
});

test('workers of previous tags run next to those of the new tag, in Deployments of their own', async () => {
  const { objects } = await rendered('versions', everything);
  const workers = (kind: string) =>
    objects.filter((each) => each.kind === kind && each.metadata.name.includes('worker-'));
  interface Versioned {
    spec: {
      selector: { matchLabels: Record<string, string> };
      template: { spec: { containers: { image: string }[] } };
    };
  }
  const deployments = workers('Deployment') as unknown as Versioned[];
  expect(deployments.map(({ spec }) => spec.template.spec.containers[0]!.image)).toEqual([
    'registry.test/sandbox-platform:0.1.0',
    'registry.test/sandbox-platform:v0.0.9_rc.1',
  ]);
  const versions = ['0.1.0', 'v0.0.9_rc.1'];
  for (const each of [deployments, workers('PodDisruptionBudget') as unknown as Versioned[]]) {
    expect(each.map(({ spec }) => spec.selector.matchLabels['sandbox-platform/version'])).toEqual(versions);
  }
  const { objects: plain } = await rendered('plain-workers', needed);
  expect(plain.filter(({ metadata }) => metadata.name.startsWith('platform-worker')).map(({ kind }) => kind)).toEqual(
    expect.arrayContaining(['Deployment', 'PodDisruptionBudget', 'NetworkPolicy']),
  );
});
