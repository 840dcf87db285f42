import { loadSettings, SettingsError } from '../../../platform/config/settings.ts';
import { DriverError } from '../../../runtime/driver.ts';
import { imageNames, NamedImages } from '../../../runtime/kubernetes/cluster-images.ts';
import { LeaseWatch } from '../../../runtime/kubernetes/lease-watch.ts';
import { readNodeSummary } from '../../../runtime/kubernetes/node-summary.ts';
import { parseBytes, parseQuantity } from '../../../runtime/kubernetes/quantities.ts';
import { remainingQuota } from '../../../runtime/kubernetes/remaining-quota.ts';

const of = { namespace: 'sandboxes', containerName: 'sandbox', volumeName: 'disk' };

describe('a lease of another process', () => {
  const seconds = 10;

  test('has expired when it was not renewed for its length, and is valid again when it is renewed', () => {
    const watch = new LeaseWatch(4000);
    const read = (renewal: string, atMs: number) => watch.read({ renewal, seconds }, atMs);
    expect([0, 3000, 6000, 9000].map((atMs) => read('one', atMs))).toEqual([false, false, false, false]);
    expect(read('one', 10_000)).toBe(true);
    expect(read('two', 11_000)).toBe(false);
    expect([14_000, 17_000, 20_000, 21_000].map((atMs) => read('two', atMs))).toEqual([false, false, false, true]);
  });

  test('gets its whole length again after a gap in the readings', () => {
    const watch = new LeaseWatch(4000);
    const read = (atMs: number) => watch.read({ renewal: 'one', seconds }, atMs);
    expect([0, 4000, 8000, 60_000, 64_000, 68_000].map(read)).toEqual([false, false, false, false, false, false]);
    expect(read(70_000)).toBe(true);
  });

  test('has not expired before it exists', () => {
    const watch = new LeaseWatch(4000);
    expect([0, 4000, 8000, 12_000].map((atMs) => watch.read(null, atMs))).toEqual([false, false, false, false]);
  });
});

test('the summary of a node has the use of each pod of the namespace, without unreadable entries', () => {
  const container = {
    name: 'sandbox',
    startTime: '2026-01-01T00:00:00Z',
    cpu: { time: '2026-01-01T00:00:10.5Z', usageNanoCores: 5, usageCoreNanoSeconds: 2_500_000_000 },
    memory: { time: '2026-01-01T00:00:10Z', workingSetBytes: 1000, usageBytes: 5000 },
  };
  const pod = {
    podRef: { name: 'sbx-1', namespace: 'sandboxes', uid: 'one' },
    containers: [{ ...container, name: 'other' }, container],
    network: { name: 'eth0', rxBytes: 11, txBytes: 22 },
    volume: [
      { name: 'platform', usedBytes: 1, capacityBytes: 2 },
      { name: 'disk', usedBytes: 300, capacityBytes: 1024, pvcRef: { name: 'sbx-1', namespace: 'sandboxes' } },
    ],
  };
  const text = JSON.stringify({
    node: { nodeName: 'node-1', cpu: { usageNanoCores: 1_500_000_000 }, memory: { availableBytes: 4096 } },
    pods: [
      pod,
      { ...pod, podRef: { ...pod.podRef, uid: 'two' }, volume: [], network: undefined },
      { ...pod, podRef: { ...pod.podRef, uid: 'three', namespace: 'kube-system' } },
      { ...pod, podRef: { ...pod.podRef, uid: 'four' }, containers: [{ name: 'sandbox', startTime: 'no time' }] },
      'no pod',
    ],
  });
  const startMs = Date.parse('2026-01-01T00:00:00Z');
  const use = { atMs: startMs + 10_500, sinceMs: startMs, cpuSeconds: 2.5, memoryBytes: 1000 };
  const { node, pods } = readNodeSummary(text, of);
  expect(node).toEqual({ coresUsed: 1.5, availableBytes: 4096 });
  expect([...pods]).toEqual([
    ['one', { ...use, receivedBytes: 11, sentBytes: 22, disk: { name: 'disk', usedBytes: 300, capacityBytes: 1024 } }],
    ['two', { ...use, receivedBytes: 0, sentBytes: 0, disk: null }],
  ]);
  expect(() => readNodeSummary('Forbidden', of)).toThrow();
});

test('quantities of Kubernetes are read as numbers', () => {
  expect(['2', '1500m', '1e3', '12Ki', '3Gi', '1.5G', '250000000n'].map(parseQuantity)).toEqual([
    2,
    1.5,
    1000,
    12_288,
    3 * 2 ** 30,
    1.5e9,
    0.25,
  ]);
  expect(parseBytes('128974848000m')).toBe(128_974_848);
  for (const wrong of ['', 'Gi', '1x', '1 Gi', '1mi']) expect(() => parseQuantity(wrong)).toThrow('is no quantity');
});

test('the smallest quota counts, and a request that is a share of the limit leaves capacity for more', () => {
  const quota = (hard: Record<string, string>, used: Record<string, string> = {}) => ({ status: { hard, used } });
  expect(remainingQuota([], 0.25)).toEqual({
    memoryBytes: Number.POSITIVE_INFINITY,
    storageBytes: Number.POSITIVE_INFINITY,
    count: Number.POSITIVE_INFINITY,
  });
  const quotas = [
    quota({ 'requests.memory': '4Gi', pods: '10' }, { 'requests.memory': '3Gi', pods: '4' }),
    quota(
      { 'limits.memory': '20Gi', 'requests.storage': '50Gi', persistentvolumeclaims: '5' },
      { persistentvolumeclaims: '9' },
    ),
  ];
  expect(remainingQuota(quotas, 0.25)).toEqual({ memoryBytes: 4 * 2 ** 30, storageBytes: 50 * 2 ** 30, count: 0 });
});

test('an image comes from the registry, from the operator or from its own reference; a template without one is refused', async () => {
  const images = { 'builtin:base': 'registry.example.com/base:1' };
  const resolveName = imageNames({ registry: 'registry.example.com:5000', builtin: images });
  const digest = `sha256:${'a'.repeat(64)}`;
  expect(resolveName(`registry:team/acc-1/tool@${digest}`)).toBe(`registry.example.com:5000/team/acc-1/tool@${digest}`);
  expect(resolveName('builtin:base')).toBe('registry.example.com/base:1');
  expect(resolveName('debian:12')).toBe('debian:12');
  expect(() => resolveName('builtin:code-interpreter')).toThrow(DriverError);

  const named = new NamedImages(['builtin:base', 'builtin:code-interpreter', 'builtin:other'], {
    ...images,
    'builtin:other': 'registry.example.com/other:1',
  });
  const states: unknown[] = [];
  named.onChange((state) => states.push(state));
  expect(named.names).toEqual(['builtin:code-interpreter', 'builtin:other']);
  expect(await Promise.all(named.names.map((name) => named.isMade(name)))).toEqual([false, true]);
  await named.get('builtin:other');
  await expect(named.get('builtin:code-interpreter')).rejects.toMatchObject({ code: 'image_refused' });
  expect(states).toEqual([
    { image: 'builtin:code-interpreter', status: 'failed', message: expect.stringContaining('no image') },
  ]);
});

describe('the settings of a host that is a cluster', () => {
  const least = {
    PLATFORM_SECRET_KEY: Buffer.alloc(32).toString('base64'),
    DATABASE_URL: 'postgres://localhost/platform',
    PLATFORM_DRIVER: 'kubernetes',
    PLATFORM_HOST_ID: 'cluster-eu-1',
    PLATFORM_SANDBOX_SUBNET: '10.244.0.0/16',
    PLATFORM_KUBERNETES_AGENT_IMAGE: 'registry.example.com/agent:1',
    PLATFORM_KUBERNETES_CLIENT_RANGES: '10.244.0.0/16, 192.0.2.0/24',
  };

  test('are read, with defaults', () => {
    expect(loadSettings({ ...least, PLATFORM_KUBERNETES_TEMPLATE_IMAGES: 'code-interpreter=a/b:1' })).toMatchObject({
      PLATFORM_DRIVER: 'kubernetes',
      PLATFORM_KUBERNETES_NAMESPACE: 'sandboxes',
      PLATFORM_KUBERNETES_CLIENT_RANGES: ['10.244.0.0/16', '192.0.2.0/24'],
      PLATFORM_KUBERNETES_CLIENT_NAMESPACES: [],
      PLATFORM_KUBERNETES_ISOLATION: 'required',
      PLATFORM_KUBERNETES_CLOSED_RANGES: [],
      PLATFORM_KUBERNETES_NODE_FIGURES: 'kubelet',
      PLATFORM_KUBERNETES_TEMPLATE_IMAGES: { 'code-interpreter': ['a/b:1'] },
      PLATFORM_KUBERNETES_CPU_REQUEST_SHARE: 1 / 16,
      PLATFORM_KUBERNETES_MEMORY_REQUEST_SHARE: 1 / 4,
      PLATFORM_KUBERNETES_HOST_USERS: true,
      PLATFORM_KUBERNETES_UDP_SERVICE: 'NodePort',
      PLATFORM_KUBERNETES_UDP_TRAFFIC_POLICY: 'Cluster',
      PLATFORM_KUBERNETES_UDP_ANNOTATIONS: {},
    });
    expect(loadSettings({ ...least, PLATFORM_DRIVER: '' }).PLATFORM_DRIVER).toBe('oci');
  });

  test('are refused by name when they are missing or wrong', () => {
    const wrong = (settings: Record<string, string>) => () => loadSettings({ ...least, ...settings });
    for (const name of Object.keys(least).slice(3)) {
      expect(wrong({ [name]: '' })).toThrow(new RegExp(`${name}: is needed with PLATFORM_DRIVER=kubernetes`));
    }
    for (const [name, value] of [
      ['PLATFORM_HOST_ID', 'Cluster_1'],
      ['PLATFORM_KUBERNETES_CLIENT_RANGES', '10.0.0.1'],
      ['PLATFORM_KUBERNETES_NAMESPACE', 'a/b'],
      ['PLATFORM_KUBERNETES_CLIENT_NAMESPACES', 'a,B'],
      ['PLATFORM_KUBERNETES_ISOLATION', 'none'],
      ['PLATFORM_KUBERNETES_NODE_FIGURES', 'proxy'],
      ['PLATFORM_KUBERNETES_KUBELET_ACCOUNT', 'kubelet-reader'],
      ['PLATFORM_KUBERNETES_MEMORY_REQUEST_SHARE', '2'],
      ['PLATFORM_KUBERNETES_TEMPLATE_IMAGES', 'base=a/b'],
      ['PLATFORM_KUBERNETES_UDP_SERVICE', 'ClusterIP'],
      ['PLATFORM_KUBERNETES_UDP_TRAFFIC_POLICY', 'local'],
      ['PLATFORM_KUBERNETES_UDP_ANNOTATIONS', 'a=b'],
      ['PLATFORM_KUBERNETES_UDP_ANNOTATIONS', '{"a": 1}'],
    ] as const) {
      expect(wrong({ [name]: value })).toThrow(SettingsError);
    }
  });

  test('name the address of UDP ports, if there are any', () => {
    const ports = { ...least, PLATFORM_UDP_PORTS: '30100-30199' };
    expect(() => loadSettings(ports)).toThrow(/PLATFORM_HOST_PUBLIC_ADDRESS: is needed with .*PLATFORM_UDP_PORTS/);
    expect(() => loadSettings({ ...least, PLATFORM_UDP_PORTS: 'none' })).not.toThrow();
    expect(() => loadSettings({ ...ports, PLATFORM_DRIVER: 'oci' })).not.toThrow();
    const shared = { PLATFORM_KUBERNETES_UDP_ANNOTATIONS: '{"example.com/shared": "one, two"}' };
    expect(loadSettings({ ...ports, ...shared, PLATFORM_HOST_PUBLIC_ADDRESS: '192.0.2.1' })).toMatchObject({
      PLATFORM_UDP_PORTS: { first: 30_100, last: 30_199 },
      PLATFORM_KUBERNETES_UDP_ANNOTATIONS: { 'example.com/shared': 'one, two' },
    });
  });
});
