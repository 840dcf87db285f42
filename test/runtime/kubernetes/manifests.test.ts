import { readImageFacts } from '../../../runtime/kubernetes/image-facts.ts';
import {
  buildClosedPolicy,
  buildDisk,
  buildPod,
  buildPolicy,
  inspectionPod,
} from '../../../runtime/kubernetes/manifests.ts';
import type { UdpOptions } from '../../../runtime/kubernetes/options.ts';
import {
  buildTrialService,
  buildUdpPolicy,
  buildUdpService,
  toUdpMappings,
} from '../../../runtime/kubernetes/udp-manifests.ts';
import { createSpec, facts, options } from '../manifest-samples.ts';

const spec = createSpec();
const pod = buildPod(spec, facts, options);
const sandbox = pod.spec!.containers[0]!;
const owner = {
  'app.kubernetes.io/managed-by': 'sandbox-platform',
  'sandbox-platform/host': 'host-one',
  'sandbox-platform/sandbox': 'sbx-one',
};

test('every object of a sandbox is labelled with its owner', () => {
  const policy = buildPolicy(spec, { name: 'sbx-one', uid: 'u' }, options);
  for (const object of [pod, buildDisk(spec, facts, options), policy]) {
    expect(object.metadata).toMatchObject({ name: 'sbx-one', namespace: 'sandboxes', labels: owner });
  }
  expect(inspectionPod('inspection', 'image', options).metadata!.labels).toEqual({
    ...owner,
    'sandbox-platform/sandbox': undefined,
  });
  expect(pod.metadata!.annotations).toEqual({ 'sandbox-platform/run': '3' });
});

test('no container has privileges, a token or a secret of the sandbox', () => {
  const inspection = inspectionPod('inspection', 'image', options);
  for (const { spec: made } of [pod, inspection]) {
    expect(made).toMatchObject({
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      restartPolicy: 'Never',
    });
    expect(made).not.toHaveProperty('hostNetwork');
    for (const { securityContext } of [...made!.initContainers!, ...made!.containers]) {
      expect(securityContext).toMatchObject({
        privileged: false,
        seccompProfile: { type: 'RuntimeDefault' },
        capabilities: { drop: ['ALL'] },
      });
      for (const name of ['SYS_ADMIN', 'NET_ADMIN', 'NET_RAW', 'SYS_PTRACE', 'MKNOD']) {
        expect(securityContext!.capabilities!.add).not.toContain(name);
      }
    }
    for (const volume of made!.volumes!) expect(volume).not.toHaveProperty('hostPath');
  }
  expect(JSON.stringify([pod, buildDisk(spec, facts, options)])).not.toMatch(/x1|x2-access|x3-platform/);
});

test('no container has a probe or a hook, whose command would hang while the sandbox is frozen', () => {
  for (const container of [...pod.spec!.initContainers!, ...pod.spec!.containers]) {
    for (const name of ['livenessProbe', 'readinessProbe', 'startupProbe', 'lifecycle']) {
      expect(container).not.toHaveProperty(name);
    }
  }
});

test('the limits of a pod are those of the sandbox, and it requests a share of them', () => {
  expect(sandbox.resources!.limits).toEqual({ cpu: '2', memory: '1024Mi', 'ephemeral-storage': '512Mi' });
  expect(sandbox.resources!.requests).toEqual({ cpu: '125m', memory: '256Mi', 'ephemeral-storage': '64Mi' });
  // The request of a pod is that of its largest init container or of its containers.
  const platform = (made: typeof pod) => made.spec!.initContainers![0]!.resources!.requests!.cpu;
  expect(platform(pod)).toBe('125m');
  const whole = buildPod(spec, facts, { ...options, requestShare: { cpu: 1, memory: 1 } });
  expect(whole.spec!.containers[0]!.resources!.requests).toMatchObject({ cpu: '2000m', memory: '1024Mi' });
  expect(platform(whole)).toBe('1000m');
  expect(platform(buildPod(spec, facts, { ...options, requestShare: { cpu: 0.004, memory: 1 } }))).toBe('8m');
  expect(buildDisk(spec, facts, options).spec!.resources!.requests).toEqual({ storage: '5Gi' });
});

test("the image's folders are on the disk, which outlives the pod; the agent's folder is read-only", () => {
  const mounts = Object.fromEntries(sandbox.volumeMounts!.map(({ mountPath, ...mount }) => [mountPath, mount]));
  expect(mounts).toEqual({
    '/.platform': { name: 'platform', readOnly: true },
    '/etc': { name: 'disk', subPath: 'rootfs/etc' },
    '/root': { name: 'disk', subPath: 'rootfs/root' },
    '/usr': { name: 'disk', subPath: 'rootfs/usr' },
  });
  expect(pod.spec!.volumes).toContainEqual({ name: 'disk', persistentVolumeClaim: { claimName: 'sbx-one' } });
  expect(pod.spec!.initContainers!.map(({ name, image }) => [name, image])).toEqual([
    ['platform', 'registry/agent@sha256:1'],
    ['disk', 'registry/python'],
  ]);
});

test('the operator’s settings for the cluster are in every pod', () => {
  const set = { ...options, runtimeClass: 'gvisor', ownUsers: true, dns: ['9.9.9.9'], storageClass: 'fast' };
  for (const each of [buildPod(spec, facts, set), inspectionPod('inspection', 'image', set)]) {
    expect(each.spec).toMatchObject({
      runtimeClassName: 'gvisor',
      hostUsers: false,
      dnsPolicy: 'None',
      dnsConfig: { nameservers: ['9.9.9.9'] },
    });
  }
  expect(buildDisk(spec, facts, set).spec!.storageClassName).toBe('fast');
});

test('a policy allows connections only from the platform, and to nothing or only to the public internet', () => {
  const disk = { name: 'sbx-one', uid: 'u1' };
  const closed = buildPolicy(spec, disk, options);
  expect(closed.metadata!.ownerReferences).toEqual([{ apiVersion: 'v1', kind: 'PersistentVolumeClaim', ...disk }]);
  expect(closed.spec).toEqual({
    podSelector: { matchLabels: { 'sandbox-platform/sandbox': 'sbx-one' } },
    policyTypes: ['Ingress', 'Egress'],
    ingress: [{ from: [{ ipBlock: { cidr: '10.1.0.0/16' } }] }],
    egress: [],
  });
  const open = buildPolicy({ ...spec, allowInternetAccess: true }, disk, {
    ...options,
    clientRanges: [],
    closedRanges: ['203.0.113.7/32'],
    dns: ['10.0.0.53'],
  });
  expect(open.spec!.ingress).toEqual([]);
  const ofPods = buildPolicy(spec, disk, { ...options, clientRanges: [], clientNamespaces: ['platform'] });
  expect(ofPods.spec!.ingress).toEqual([
    { from: [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'platform' } } }] },
  ]);
  const [internet, resolvers] = open.spec!.egress!;
  expect(internet!.to![0]!.ipBlock!.cidr).toBe('0.0.0.0/0');
  expect(internet!.to![0]!.ipBlock!.except).toEqual(
    expect.arrayContaining(['10.0.0.0/8', '169.254.0.0/16', '192.168.0.0/16', '203.0.113.7/32']),
  );
  expect(resolvers).toEqual({
    to: [{ ipBlock: { cidr: '10.0.0.53/32' } }],
    ports: [
      { protocol: 'UDP', port: 53 },
      { protocol: 'TCP', port: 53 },
    ],
  });
});

describe('UDP ports of a sandbox', () => {
  const ports = [
    { hostPort: 30_001, servicePort: 5000 },
    { hostPort: 30_007, servicePort: 5000 },
    { hostPort: 30_002, servicePort: 53 },
  ];
  const disk = { name: 'sbx-one', uid: 'u1' };
  const udp: UdpOptions = { range: { first: 30_000, last: 30_127 }, service: 'NodePort', trafficPolicy: 'Local' };
  const buildService = (given: Partial<UdpOptions> = {}) =>
    buildUdpService('sbx-one', ports, disk, { ...options, udp: { ...udp, ...given } });

  test('are node ports of a Service for its pod, which is removed with its disk', () => {
    const service = buildService();
    expect(service.metadata).toEqual({
      name: 'sbx-one',
      namespace: 'sandboxes',
      labels: owner,
      ownerReferences: [{ apiVersion: 'v1', kind: 'PersistentVolumeClaim', ...disk }],
    });
    expect(service.spec).toEqual({
      type: 'NodePort',
      externalTrafficPolicy: 'Local',
      selector: { 'sandbox-platform/sandbox': 'sbx-one' },
      ports: [
        { name: 'udp-30001', protocol: 'UDP', port: 30_001, nodePort: 30_001, targetPort: 5000 },
        { name: 'udp-30007', protocol: 'UDP', port: 30_007, nodePort: 30_007, targetPort: 5000 },
        { name: 'udp-30002', protocol: 'UDP', port: 30_002, nodePort: 30_002, targetPort: 53 },
      ],
    });
    expect(toUdpMappings(service)).toEqual(ports);
  });

  test('are ports of a load balancer if the operator sets this, with its class and annotations', () => {
    const service = buildService({
      service: 'LoadBalancer',
      trafficPolicy: 'Cluster',
      loadBalancerClass: 'example.com/one',
      annotations: { 'example.com/shared': 'sandboxes' },
    });
    expect(service.metadata!.annotations).toEqual({ 'example.com/shared': 'sandboxes' });
    expect(service.spec).toMatchObject({
      type: 'LoadBalancer',
      externalTrafficPolicy: 'Cluster',
      loadBalancerClass: 'example.com/one',
    });
    expect(service.spec!.ports![0]).toEqual({ name: 'udp-30001', protocol: 'UDP', port: 30_001, targetPort: 5000 });
    expect(buildService({ loadBalancerClass: 'example.com/one' }).spec).not.toHaveProperty('loadBalancerClass');
  });

  test('are open to every address, and no other ports are', () => {
    const policy = buildUdpPolicy('sbx-one', ports, disk, { ...options, udp });
    expect(policy.metadata).toMatchObject({ name: 'sbx-one-udp', labels: owner, ownerReferences: [disk] });
    expect(policy.spec).toEqual({
      podSelector: { matchLabels: { 'sandbox-platform/sandbox': 'sbx-one' } },
      policyTypes: ['Ingress'],
      ingress: [
        {
          ports: [
            { protocol: 'UDP', port: 5000 },
            { protocol: 'UDP', port: 53 },
          ],
        },
      ],
    });
  });

  test('are tested with a Service without pods, with a name that is short enough', () => {
    const { metadata, spec } = buildTrialService(30_000, { ...options, hostId: `${'h'.repeat(52)}-rest`, udp });
    expect(spec).toEqual({
      type: 'NodePort',
      externalTrafficPolicy: 'Local',
      ports: [{ protocol: 'UDP', port: 30_000, nodePort: 30_000 }],
    });
    expect(metadata!.name).toBe(`udp-trial-${'h'.repeat(52)}`);
    expect(metadata!.labels).not.toHaveProperty('sandbox-platform/sandbox');
  });
});

test.each([
  ['no JSON', 'x'],
  ['a folder that leads elsewhere', JSON.stringify({ ...facts, folders: ['../etc'] })],
  ['too many folders', JSON.stringify({ ...facts, folders: Array.from({ length: 65 }, (_, at) => `f${at}`) })],
  ['a user by name', JSON.stringify({ ...facts, user: 'root' })],
  ['a folder that is not absolute', JSON.stringify({ ...facts, cwd: 'srv' })],
])('an invalid description of an image is refused: %s', (_, text) => {
  expect(() => readImageFacts(text)).toThrow();
  expect(readImageFacts(JSON.stringify(facts))).toEqual(facts);
});

test('one policy closes every pod of the host in both directions, also those that inspect an image', () => {
  const { spec: closed } = buildClosedPolicy(options);
  expect(closed).toMatchObject({ policyTypes: ['Ingress', 'Egress'], ingress: [], egress: [] });
  const { labels } = inspectionPod('inspection', 'an/image', options).metadata!;
  expect(labels).toMatchObject(closed!.podSelector!.matchLabels!);
  expect(buildPod(spec, facts, options).metadata!.labels).toMatchObject(closed!.podSelector!.matchLabels!);
});
