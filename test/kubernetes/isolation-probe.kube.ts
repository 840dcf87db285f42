import { NetworkingV1Api } from '@kubernetes/client-node';
import { IsolationError, requireIsolation } from '../../runtime/kubernetes/isolation-probe.ts';
import { until } from '../support/until.ts';
import { DriverHost, pushAgentImage } from './support/driver-host.ts';
import { KubernetesCluster } from './support/kubernetes-cluster.ts';

let cluster: KubernetesCluster;
let host: DriverHost;

beforeAll(async () => {
  cluster = await KubernetesCluster.start();
  host = await DriverHost.open(cluster, await pushAgentImage(cluster.registry));
}, 300_000);
afterAll(async () => {
  await host?.close();
  await cluster?.stop();
}, 120_000);

test('a cluster that does not enforce NetworkPolicy is refused with the open connections; the probe leaves nothing', async () => {
  const refused = await requireIsolation(host.options).catch((error: Error) => error);
  expect(refused).toBeInstanceOf(IsolationError);
  expect(String(refused)).toMatch(/may receive nothing received.*may send nothing reached another.*API server/);
  const policies = cluster.config.makeApiClient(NetworkingV1Api);
  await until(async () => (await host.objects()).pods.length === 0);
  const { items } = await policies.listNamespacedNetworkPolicy({ namespace: host.namespace });
  expect(items.map(({ metadata }) => metadata!.name)).toEqual([`closed-${host.options.hostId}`]);
}, 120_000);
