import os from 'node:os';
import { CoreV1Api, NodeV1Api } from '@kubernetes/client-node';
import type { SandboxId } from '../../domain/ids.ts';
import type { SandboxEnd } from '../../runtime/kubernetes/end-reports.ts';
import { annotations } from '../../runtime/kubernetes/names.ts';
import { shell } from '../runtime/local-host.ts';
import { until } from '../support/until.ts';
import { DriverHost, pushAgentImage } from './support/driver-host.ts';
import { KubernetesCluster } from './support/kubernetes-cluster.ts';
import { gvisorHandler } from './support/node-configuration.ts';
import { InstalledNodeHelper } from './support/node-helper.ts';
import { pushBusybox } from './support/pods.ts';

/** Tests sandboxes whose RuntimeClass is one of gVisor, a kernel in user space. */
let cluster: KubernetesCluster;
let image: string;
let host: DriverHost;
const ends: SandboxEnd[] = [];

beforeAll(async () => {
  cluster = await KubernetesCluster.start();
  const body = { metadata: { name: 'gvisor' }, handler: gvisorHandler };
  await cluster.config.makeApiClient(NodeV1Api).createRuntimeClass({ body });
  const [busybox, agentImage] = [await pushBusybox(cluster), await pushAgentImage(cluster.registry)];
  image = busybox;
  host = await DriverHost.open(cluster, agentImage, { runtimeClass: 'gvisor' });
  host.driver.onEnd((end) => ends.push(end));
}, 300_000);
afterAll(async () => {
  await host?.close();
  await cluster?.stop();
}, 120_000);

async function waitForEnd(sandboxId: SandboxId): Promise<SandboxEnd> {
  await until(() => ends.some((end) => end.sandboxId === sandboxId));
  return ends.find((end) => end.sandboxId === sandboxId)!;
}

test('a sandbox runs on the kernel of gVisor, and its disk outlives its pod', async () => {
  const spec = await host.spec(image, { env: { GREETING: 'hello' } });
  const place = await host.driver.create(spec);
  expect((await shell(place, spec, 'echo $GREETING $HOSTNAME')).output).toBe(`hello ${spec.sandboxId}`);
  const { output: version } = await shell(place, spec, 'cat /proc/version');
  expect(version).toMatch(/^Linux version /);
  expect(version).not.toContain(os.release());
  for (const folder of ['root', 'etc', 'var', 'tmp']) await shell(place, spec, `echo in-${folder} >/${folder}/kept`);

  expect(await host.driver.pause(spec.sandboxId)).toEqual({ kept: 'disk' });
  expect(await host.objects()).toMatchObject({ pods: [], disks: [spec.sandboxId] });
  const again = await host.driver.resume({ ...spec, run: 2 });
  expect((await shell(again, spec, 'cat /root/kept /etc/kept /var/kept /tmp/kept')).output).toBe(
    'in-root\nin-etc\nin-var\nin-tmp',
  );
  await host.driver.remove(spec.sandboxId);
  expect(await host.objects()).toEqual({ pods: [], disks: [] });
}, 240_000);

test('a sandbox whose processes end is reported as exited', async () => {
  const spec = await host.spec(image);
  const place = await host.driver.create(spec);
  await expect(shell(place, spec, 'kill 1')).rejects.toThrow();
  expect(await waitForEnd(spec.sandboxId)).toMatchObject({ reason: 'exited', exitCode: 0, run: 1 });
  await host.driver.remove(spec.sandboxId);
}, 240_000);

test('a sandbox that needs more memory than it has ends as a whole', async () => {
  const spec = await host.spec(image);
  const place = await host.driver.create(spec);
  await expect(shell(place, spec, 'dd if=/dev/zero of=/dev/null bs=600M count=1')).rejects.toThrow();
  expect(await waitForEnd(spec.sandboxId)).toMatchObject({ reason: 'exited', run: 1 });
  await expect(host.driver.pause(spec.sandboxId)).rejects.toMatchObject({ code: 'runtime_exited' });
  await host.driver.remove(spec.sandboxId);
  expect(await host.objects()).toEqual({ pods: [], disks: [] });
}, 240_000);

test('with a node helper a pause keeps only the disk, because gVisor runs outside of the control group', async () => {
  const helper = await InstalledNodeHelper.install(cluster, host.namespace);
  const spec = await host.spec(image);
  await host.driver.create(spec);
  const pods = await cluster.config.makeApiClient(CoreV1Api).listNamespacedPod({ namespace: 'default' });
  const name = pods.items.find(({ metadata }) => metadata!.name!.includes('node-helper'))!.metadata!.name!;
  await until(async () => {
    const log = await host.core.readNamespacedPodLog({ name, namespace: 'default' });
    return log
      .split('\n')
      .some((line) => line.includes(spec.sandboxId) && line.includes('outside of its control group'));
  });
  const pod = await host.core.readNamespacedPod({ name: spec.sandboxId, namespace: host.namespace });
  expect(pod.metadata!.annotations).not.toHaveProperty(annotations.frozenNow);
  expect(await host.driver.pause(spec.sandboxId)).toEqual({ kept: 'disk' });
  await host.driver.remove(spec.sandboxId);
  await helper.remove();
}, 240_000);

test('a create takes a warm pod that runs on gVisor', async () => {
  const warm = { size: { least: 1, most: 1 }, base: { image, cpuCount: 1, memoryMb: 256, storageGb: 1 } };
  await host.driver.close();
  await host.addVolumes(2);
  await host.start({ runtimeClass: 'gvisor', warm });
  await until(() => host.driver.poolReady > 0, 120_000);
  const spec = await host.spec(image, { env: { GREETING: 'hello' } });
  const place = await host.driver.create(spec);
  expect(place.from).toBe('pool');
  const { output } = await shell(place, spec, 'echo $GREETING $HOSTNAME; cat /etc/hostname; cat /proc/version');
  const [greeting, hostname, version] = output.split('\n');
  expect([greeting, hostname]).toEqual([`hello ${spec.sandboxId}`, spec.sandboxId]);
  expect(version).not.toContain(os.release());
  await host.driver.remove(spec.sandboxId);
}, 240_000);
