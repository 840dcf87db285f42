import { randomBytes } from 'node:crypto';
import { labels } from '../../runtime/kubernetes/names.ts';
import { localTests } from './local-tests/list.ts';
import { runTests, type TestResult } from './local-tests/nested-run.ts';
import { clusterPlatformSettings } from './support/cluster-platform.ts';
import { KubernetesCluster } from './support/kubernetes-cluster.ts';
import { InstalledNodeHelper } from './support/node-helper.ts';
import { VolumeMaker } from './support/volume-maker.ts';

/**
 * Tests that were written for the local driver run unchanged: their sandboxes are pods of a cluster that enforces policies
 * and has the node helper. `LOCAL_TESTS=ports,exec` runs only the files with such names.
 */
const namespace = `sandboxes-${randomBytes(4).toString('hex')}`;
const names = process.env.LOCAL_TESTS?.split(',');
const files = localTests.filter(({ file }) => !names || names.some((name) => file.includes(name)));
let cluster: KubernetesCluster;
let volumes: VolumeMaker;
let settings: Record<string, string>;

beforeAll(async () => {
  cluster = await KubernetesCluster.start({ enforcesPolicies: true });
  await cluster.core.createNamespace({ body: { metadata: { name: namespace } } });
  volumes = VolumeMaker.start(cluster, namespace, namespace);
  await InstalledNodeHelper.install(cluster, namespace);
  settings = await clusterPlatformSettings(cluster, namespace);
}, 600_000);

afterAll(async () => {
  await volumes?.stop();
  await cluster?.stop();
  expect(volumes?.failures).toEqual([]);
}, 180_000);

test.each(files)(
  '$file passes on a cluster, apart from the tests that the list explains',
  async ({ file, cannot }) => {
    const hostId = `host-${randomBytes(4).toString('hex')}`;
    const leftOut = Object.keys(cannot ?? {});
    const env = { ...settings, PLATFORM_HOST_ID: hostId };
    const results = await runTests(file, { leftOut, env, folder: cluster.place.folder });
    await removeSandboxes(hostId);
    const titles = (status: TestResult['status']) =>
      results.filter((result) => result.status === status).map(({ title }) => title);
    process.stdout.write(`${file}: ${titles('passed').length} pass, ${titles('left out').length} cannot\n`);
    expect(results.filter(({ status }) => status === 'failed')).toEqual([]);
    expect(titles('left out').sort()).toEqual(leftOut.sort());
    expect(titles('passed')).not.toEqual([]);
  },
  1_200_000,
);

/** A platform that stops leaves its sandboxes on the cluster. */
async function removeSandboxes(hostId: string): Promise<void> {
  const of = { namespace, labelSelector: `${labels.host}=${hostId}` };
  await cluster.core.deleteCollectionNamespacedPod(of);
  await cluster.core.deleteCollectionNamespacedPersistentVolumeClaim(of);
}
