import type { MountSlot } from '../../../domain/sandboxes/object-storage.ts';
import type { SandboxSpec } from '../../../runtime/driver.ts';
import type { Cluster } from '../../../runtime/kubernetes/cluster.ts';
import { EndpointGuard, type EndpointGuardOptions } from '../../../runtime/kubernetes/mounts/endpoint-guard.ts';
import {
  buildMountPod,
  buildMountPolicy,
  buildMountSecret,
  type MountManifestOptions,
} from '../../../runtime/kubernetes/mounts/mount-manifests.ts';
import { isMountPod } from '../../../runtime/kubernetes/mounts/names.ts';
import { requireMountable } from '../../../runtime/kubernetes/mounts/pod-mounts.ts';

const options: MountManifestOptions = {
  namespace: 'sandboxes',
  hostId: 'host-one',
  agentImage: 'registry/agent@sha256:1',
  s3fsImage: 'registry/s3fs@sha256:1',
  resolveImage: (reference) => reference,
  clientRanges: ['10.1.0.0/16'],
  closedRanges: ['203.0.113.0/24'],
  dns: ['9.9.9.9'],
};
const mount = { name: 'mount-one', sandboxId: 'sbx-one', disk: { name: 'disk-one', uid: 'u-disk' } };
const place = { pod: 'pod-one', uid: 'u-pod', target: '/mnt/data', isOpened: false };
const of = { name: 'mount-pod', node: 'node-1', place, cpuCount: 2 };
const slot: MountSlot = {
  slot: 0,
  state: 'active',
  uri: 's3://data/reports',
  mountPoint: '/mnt/data',
  region: 'us-east-1',
  endpoint: null,
  shortLived: false,
};
const credentials = { accessKey: 'x1-access', secretKey: 'x2-secret', sessionToken: 'x3-token' };

/** A guard for a cluster with one node. */
const guard = (more: Partial<EndpointGuardOptions> = {}) =>
  new EndpointGuard(
    { listNodes: async () => [{ status: { addresses: [{ address: '10.9.0.1' }] } }] } as unknown as Cluster,
    {
      outboundRanges: ['10.0.0.0/8'],
      closedRanges: ['10.244.0.0/16'],
      ownServices: async () => [{ address: '10.5.0.5', port: 5432, isInner: true }],
      apiServer: 'https://10.96.0.1:443',
      hasResolvers: true,
      ...more,
    },
  );
const routeTo = (endpoint: string, more?: Partial<EndpointGuardOptions>) =>
  guard(more).resolveRoute({ ...slot, endpoint });

test('a mount pod has no privilege, no token, and no label that a sandbox’s policy would open', async () => {
  const pod = buildMountPod(mount, await routeTo('http://10.1.1.1:9000'), of, options);
  expect(isMountPod(pod)).toBe(true);
  expect(pod.metadata).toMatchObject({
    name: 'mount-pod',
    ownerReferences: [{ kind: 'Pod', name: 'pod-one', uid: 'u-pod' }],
  });
  expect(pod.metadata!.labels).not.toHaveProperty(['sandbox-platform/sandbox']);
  expect(pod.spec).toMatchObject({ automountServiceAccountToken: false, nodeName: 'node-1', restartPolicy: 'Never' });
  const [container] = pod.spec!.containers;
  expect(container!.securityContext).toMatchObject({
    privileged: false,
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ['ALL'] },
    seccompProfile: { type: 'RuntimeDefault' },
  });
  expect(container!.securityContext!.capabilities).not.toHaveProperty('add');
  for (const volume of pod.spec!.volumes!) expect(volume).not.toHaveProperty('hostPath');
});

test('credentials are only in the Secret, which is removed with the disk', async () => {
  const route = await routeTo('http://10.1.1.1:9000');
  const secret = buildMountSecret(mount, credentials, options);
  expect(secret).toMatchObject({
    immutable: true,
    metadata: { name: 'mount-one', ownerReferences: [{ kind: 'PersistentVolumeClaim', uid: 'u-disk' }] },
  });
  expect(secret.stringData!.credentials).toBe(
    '[default]\naws_access_key_id=x1-access\naws_secret_access_key=x2-secret\naws_session_token=x3-token\n',
  );
  const { stringData: _, ...rest } = secret;
  const pod = buildMountPod(mount, route, of, options);
  expect(JSON.stringify([rest, pod, buildMountPolicy(mount, route, options)])).not.toMatch(/x1-|x2-|x3-/);
  expect(pod.spec!.volumes).toContainEqual({
    name: 'credentials',
    secret: { secretName: 'mount-one', defaultMode: 0o400 },
  });
});

test('an endpoint that the operator opened is reached only at the checked addresses', async () => {
  const route = await routeTo('http://10.1.1.1:9000');
  expect(route).toMatchObject({ addresses: ['10.1.1.1'], isOpened: true, isPinned: true });
  expect(buildMountPolicy(mount, route, options).spec).toEqual({
    podSelector: { matchLabels: { 'sandbox-platform/mount': 'mount-one' } },
    policyTypes: ['Ingress', 'Egress'],
    ingress: [],
    egress: [{ to: [{ ipBlock: { cidr: '10.1.1.1/32' } }], ports: [{ protocol: 'TCP', port: 9000 }] }],
  });
});

test('a mount pod resolves a public name itself and can reach only public addresses at the port of the endpoint', () => {
  const target = { bucket: 'data', path: '/', url: 'https://s3.example.com', pathStyle: true, region: null };
  const found = {
    target: { ...target, host: 's3.example.com', port: 443 },
    addresses: ['198.51.100.7'],
    isOpened: false,
  };
  const open = buildMountPolicy(mount, { ...found, isPinned: false }, options).spec!.egress!;
  expect(open).toHaveLength(2);
  expect(open[0]).toMatchObject({
    to: [{ ipBlock: { cidr: '0.0.0.0/0', except: expect.arrayContaining(['10.0.0.0/8', '203.0.113.0/24']) } }],
    ports: [{ protocol: 'TCP', port: 443 }],
  });
  expect(open[1]!.to).toEqual([{ ipBlock: { cidr: '9.9.9.9/32' } }]);
  expect(buildMountPod(mount, { ...found, isPinned: false }, of, options).spec!.dnsConfig).toEqual({
    nameservers: ['9.9.9.9'],
  });
  const pinned = buildMountPod(mount, { ...found, isPinned: true }, of, options).spec!;
  expect(pinned.hostAliases).toEqual([{ ip: '198.51.100.7', hostnames: ['s3.example.com'] }]);
  expect(pinned.dnsConfig).toEqual({ nameservers: ['127.0.0.1'] });
});

test.each([
  ['the API server', 'http://10.96.0.1'],
  ['a node', 'http://10.9.0.1:10250'],
  ['a pod', 'http://10.244.3.4:8080'],
  ['a service of the platform', 'http://10.5.0.5:5432'],
])(
  '%s is refused as an endpoint even in an opened range, and looks like an endpoint that does not answer',
  async (_, endpoint) => {
    const route = await routeTo(endpoint);
    expect(route).toMatchObject({ addresses: [], isOpened: true });
    expect(buildMountPolicy(mount, route, options).spec!.egress).toEqual([]);
    const words = buildMountPod(mount, route, of, options).spec!.containers[0]!.command!;
    expect(words).toContain('url=http://127.0.0.1:9');
    expect(words.join(' ')).not.toContain(new URL(endpoint).hostname);
  },
);

test.each([
  ['http://192.168.1.1', /is not allowed/],
  ['http://169.254.169.254', /is not allowed/],
  ['http://[::ffff:192.168.1.1]', /is not allowed/],
  ['http://s3.invalid', /could not be resolved/],
])('%s is refused with a reason', async (endpoint, reason) => {
  await expect(routeTo(endpoint)).rejects.toMatchObject({
    code: 'object_storage_mount_failed',
    message: expect.stringMatching(reason),
  });
});

test('mounts that a cluster does not support are refused with their code; disabled mounts are ignored', () => {
  const storage = { slots: [slot], credentials: { 0: credentials }, bestEffort: false };
  const spec = { storage } as unknown as SandboxSpec;
  const refusal = { code: 'not_on_a_cluster' };
  const check = (more: object, given: { hasMounts: boolean; runtimeClass?: string }) => () =>
    requireMountable({ ...spec, storage: { ...storage, ...more } }, given);
  expect(check({}, { hasMounts: true })).not.toThrow();
  expect(check({}, { hasMounts: false })).toThrow(expect.objectContaining(refusal));
  expect(check({}, { hasMounts: true, runtimeClass: 'gvisor' })).toThrow(expect.objectContaining(refusal));
  expect(check({ direct: { s3fsPath: '' } }, { hasMounts: true })).toThrow(expect.objectContaining(refusal));
  expect(check({ slots: [{ ...slot, state: 'disabled' }] }, { hasMounts: false })).not.toThrow();
});
