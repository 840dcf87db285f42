import { ApiException, type V1Pod } from '@kubernetes/client-node';
import type { SandboxSpec } from '../../../runtime/driver.ts';
import { buildDisk, buildPod, buildPolicy } from '../../../runtime/kubernetes/manifests.ts';
import { isFreeWarm, readSandboxId } from '../../../runtime/kubernetes/names.ts';
import type { WarmShape } from '../../../runtime/kubernetes/options.ts';
import { parseUseBefore, withoutUseBefore, writeUseBefore } from '../../../runtime/kubernetes/use-before.ts';
import { buildWarmDisk, buildWarmPod, buildWarmPolicy } from '../../../runtime/kubernetes/warm-manifests.ts';
import { WarmPodEviction } from '../../../runtime/kubernetes/warm-pod-eviction.ts';
import type { WarmPod } from '../../../runtime/kubernetes/warm-pod-maker.ts';
import { WarmPods } from '../../../runtime/kubernetes/warm-pods.ts';
import { until } from '../../support/until.ts';
import { facts, options, createSpec as sampleSpec } from '../manifest-samples.ts';

const base: WarmShape = { image: 'base', cpuCount: 1, memoryMb: 256, storageGb: 1 };
const logger = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
const createSpec = (shape: Partial<WarmShape> = {}): SandboxSpec =>
  sampleSpec({ ...base, ...shape, allowInternetAccess: true });

describe('the objects of a warm pod', () => {
  const pod = buildWarmPod('warm-1', base, facts, options);
  const disk = buildWarmDisk('warm-1', base, facts, options);

  test('belong to no sandbox, and have the same containers as the pod of a sandbox of the same size', () => {
    for (const object of [pod, disk]) {
      expect(object.metadata).toMatchObject({ name: 'warm-1', annotations: { 'sandbox-platform/warm': 'free' } });
      expect([isFreeWarm(object), readSandboxId(object)]).toEqual([true, null]);
    }
    const cold = buildPod(createSpec(), facts, options);
    expect(pod.spec!.containers).toEqual(cold.spec!.containers);
    expect(pod.spec!.initContainers).toEqual(cold.spec!.initContainers);
    expect(pod.spec!.volumes).toContainEqual({ name: 'disk', persistentVolumeClaim: { claimName: 'warm-1' } });
    expect(disk.spec).toEqual(buildDisk(createSpec(), facts, options).spec);
  });

  test('are closed by one policy, which also selects warm pods that a sandbox has taken', () => {
    const { spec } = buildWarmPolicy(options);
    expect(spec).toEqual({
      podSelector: {
        matchLabels: { 'sandbox-platform/host': 'host-one' },
        matchExpressions: [{ key: 'sandbox-platform/warm', operator: 'Exists' }],
      },
      policyTypes: ['Ingress', 'Egress'],
      ingress: [{ from: [{ ipBlock: { cidr: '10.1.0.0/16' } }] }],
      egress: [],
    });
  });

  test('are selected by the policy of their sandbox without changed labels', () => {
    const policy = buildPolicy(createSpec(), { name: 'warm-1', uid: 'u' }, options);
    expect(policy.metadata).toMatchObject({ name: 'sbx-one', ownerReferences: [{ name: 'warm-1', uid: 'u' }] });
    const selected = policy.spec!.podSelector!.matchLabels!;
    expect(selected).toEqual({ 'sandbox-platform/sandbox': 'warm-1' });
    for (const each of [pod, buildPod(createSpec(), facts, options, 'warm-1')]) {
      expect(each.metadata!.labels).toMatchObject(selected);
    }
    expect(policy.spec!.egress!.length).toBeGreaterThan(0);
  });

  test('include a disk that keeps its name, and later pods of the sandbox mount it by this name', () => {
    const again = buildPod(createSpec(), facts, options, 'warm-1');
    expect(again.metadata!.name).toBe('sbx-one');
    expect(again.spec!.volumes).toContainEqual({ name: 'disk', persistentVolumeClaim: { claimName: 'warm-1' } });
    const taken = buildDisk(createSpec(), facts, options, 'warm-1');
    expect(taken.metadata!.name).toBe('warm-1');
    expect([again, taken].map(readSandboxId)).toEqual(['sbx-one', 'sbx-one']);
  });
});

test('the use of a pod before its sandbox does not count as the use of the sandbox', () => {
  const before = { atMs: 500, cpuSeconds: 1.5, receivedBytes: 10, sentBytes: 20 };
  const pod = (text: string): V1Pod => ({ metadata: { annotations: { 'sandbox-platform/use-before': text } } });
  expect(parseUseBefore(pod(writeUseBefore(before)))).toEqual(before);
  expect([parseUseBefore({ metadata: {} }), parseUseBefore(pod('{')), parseUseBefore(pod('{"atMs":"1"}'))]).toEqual([
    null,
    null,
    null,
  ]);
  const figures = { atMs: 900, sinceMs: 0, cpuSeconds: 2, memoryBytes: 7, receivedBytes: 15, sentBytes: 5, disk: null };
  expect(withoutUseBefore(figures, null)).toBe(figures);
  expect(withoutUseBefore(figures, before)).toEqual({
    ...figures,
    sinceMs: 500,
    cpuSeconds: 0.5,
    receivedBytes: 5,
    sentBytes: 0,
  });
});

/** A maker of warm pods that exist only in memory. */
class Maker {
  readonly made: WarmPod[] = [];
  readonly gone: string[] = [];
  readonly lost = new Set<string>();
  failures = 0;
  tries = 0;

  async make(shape: WarmShape, signal: AbortSignal): Promise<WarmPod> {
    signal.throwIfAborted();
    this.tries += 1;
    if (this.failures > 0) {
      this.failures -= 1;
      throw new Error('no capacity');
    }
    const name = `warm-${this.tries}`;
    const pod = { name, uid: `uid-${name}`, disk: { name, uid: `disk-${name}` }, shape, token: `token-${name}` };
    this.made.push(pod);
    return pod;
  }

  seen = ({ name }: WarmPod): V1Pod | null => (this.lost.has(name) ? null : { metadata: { name } });
  forget(): void {}
  discard = async (name: string): Promise<void> => void this.gone.push(name);
  drop = async (name: string): Promise<void> => void this.gone.push(name);
  async removeAbandoned(): Promise<void> {}
}

describe('warm pods', () => {
  let pods: WarmPods;
  let maker: Maker;
  const capacity = { isThere: true, budgetMb: 1024 };

  beforeEach(async () => {
    maker = new Maker();
    Object.assign(capacity, { isThere: true, budgetMb: 1024 });
    pods = new WarmPods({
      maker,
      resolveImage: options.resolveImage,
      base,
      size: { least: 2, most: 4 },
      budgetMb: () => capacity.budgetMb,
      requestedMb: ({ memoryMb }) => memoryMb / 4,
      hasCapacity: () => capacity.isThere,
      isBusy: () => false,
      logger,
    });
    await pods.open();
    await until(() => pods.ready() === 2);
  });
  afterEach(() => pods.close());

  test('are kept for the base image, and each is taken once by a sandbox of the same image and size', async () => {
    expect(pods.claim(createSpec({ memoryMb: 512 }))).toBeNull();
    expect(pods.claim(createSpec({ image: 'other' }))).toBeNull();
    const taken = [pods.claim(createSpec()), pods.claim(createSpec()), pods.claim(createSpec())];
    expect(taken.map((pod) => pod?.name)).toEqual(['warm-1', 'warm-2', undefined]);
    expect(pods.images).toEqual(['other']);
    // For each shape, as many pods are kept as creates came at once.
    await until(() => pods.ready('base') === 4 && pods.ready('other') === 1);
    expect(pods.ready()).toBe(5);
    await pods.drop('other');
    expect([pods.ready('other'), pods.images]).toEqual([0, []]);
  });

  test('are not taken when they have ended, and are replaced when the end is seen', async () => {
    const [first] = maker.made;
    maker.lost.add(first!.name);
    expect(pods.claim(createSpec())!.name).toBe('warm-2');
    const annotations = { 'sandbox-platform/warm': 'free' };
    pods.notice({ metadata: { name: first!.name, uid: first!.uid, annotations } }, true);
    await until(() => maker.gone.includes('warm-1') && pods.ready() === 2);
    expect(maker.made.length).toBe(4);
  });

  test('are replaced when their node does not answer', async () => {
    const { name, uid } = maker.made[0]!;
    const metadata = { name, uid, annotations: { 'sandbox-platform/warm': 'free' } };
    pods.notice({ metadata, status: { conditions: [{ type: 'Ready', status: 'True' }] } }, false);
    expect(pods.ready()).toBe(2);
    pods.notice({ metadata, status: { conditions: [{ type: 'Ready', status: 'False' }] } }, false);
    expect(pods.ready()).toBe(1);
    await until(() => maker.gone.includes('warm-1') && pods.ready() === 2);
    expect(maker.made.length).toBe(3);
  });

  test('are replaced but not removed when another process takes them', async () => {
    const [first] = maker.made;
    const annotations = { 'sandbox-platform/warm': 'taken' };
    pods.notice({ metadata: { name: first!.name, uid: first!.uid, annotations } }, false);
    await until(() => maker.made.length === 3 && pods.ready() === 2);
    expect(maker.gone).toEqual([]);
  });

  test('end for a sandbox, starting with the shape that was created longest ago, and are not made again for a while', async () => {
    expect(pods.claim(createSpec({ image: 'other' }))).toBeNull();
    await until(() => pods.ready('other') === 1);
    expect(await pods.evict(2)).toBe(2);
    expect([pods.ready('base'), pods.ready('other')]).toEqual([0, 1]);
    expect(maker.gone).toEqual(['warm-1', 'warm-2']);
    expect(pods.claim(createSpec())).toBeNull();
    expect([await pods.evict(8), await pods.evict(1)]).toEqual([1, 0]);
    const { tries } = maker;
    await new Promise((next) => setTimeout(next, 1500));
    expect(maker.tries).toBe(tries);
  });

  test('stay within a memory budget, and pods of shapes that were created earlier end for newer ones', async () => {
    // Each pod requests 64 MB.
    capacity.budgetMb = 4 * 64;
    for (let time = 0; time < 2; time += 1) pods.claim(createSpec({ image: 'one' }));
    await until(() => pods.ready('one') === 2);
    pods.claim(createSpec({ image: 'two' }));
    await until(() => pods.ready('two') === 1);
    expect(pods.ready('one')).toBe(1);
    // The minimum for the base image stays, and is made before pods of newer shapes.
    expect(pods.ready('base')).toBe(2);
    pods.notice(
      { metadata: { name: 'warm-1', uid: 'uid-warm-1', annotations: { 'sandbox-platform/warm': 'free' } } },
      true,
    );
    await until(() => pods.ready('base') === 2);
    expect([pods.ready('two'), pods.ready()]).toEqual([1, 4]);
  });

  test('are not made without capacity, and a failed attempt is not repeated at once', async () => {
    capacity.isThere = false;
    pods.claim(createSpec());
    await new Promise((next) => setTimeout(next, 1200));
    expect(maker.tries).toBe(2);
    capacity.isThere = true;
    maker.failures = 10;
    pods.claim(createSpec());
    await until(() => maker.tries > 2);
    const { tries } = maker;
    await new Promise((next) => setTimeout(next, 1200));
    // Two pods may be made at the same time, so one more attempt may follow.
    expect(maker.tries - tries).toBeLessThanOrEqual(1);
    expect(maker.tries).toBeLessThanOrEqual(4);
  });

  test('all end with the driver', async () => {
    await pods.close();
    expect(maker.gone.toSorted()).toEqual(['warm-1', 'warm-2']);
    expect(pods.ready()).toBe(0);
  });
});

describe('a sandbox that a quota refuses', () => {
  const overQuota = () => new ApiException(403, 'pods "x" is forbidden: exceeded quota: full', '', {});
  const { signal } = new AbortController();

  test('succeeds after warm pods have ended', async () => {
    const asked: number[] = [];
    const evict = async (count: number) => asked.push(count);
    const taken = new WarmPodEviction({} as never, { evict }, logger);
    let tries = 0;
    const act = async () => {
      tries += 1;
      if (tries < 3) throw overQuota();
      return 'made';
    };
    expect(await taken.within(act, signal)).toBe('made');
    expect(asked).toEqual([1]);
  });

  test('is refused when no warm pods are left, and other errors are passed on', async () => {
    const taken = new WarmPodEviction({} as never, { evict: async () => 0 }, logger);
    await expect(taken.within(() => Promise.reject(overQuota()), signal)).rejects.toMatchObject({ code: 403 });
    await expect(taken.within(() => Promise.reject(new Error('other')), signal)).rejects.toThrow('other');
  });
});
