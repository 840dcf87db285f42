import https from 'node:https';
import { AuthorizationV1Api, KubeConfig, type V1Node } from '@kubernetes/client-node';
import { readNodeSummary } from '../../runtime/kubernetes/node-summary.ts';
import { createSummarySource } from '../../runtime/kubernetes/summary-sources.ts';
import { KubernetesCluster } from './support/kubernetes-cluster.ts';
import { applyFromChart } from './support/node-helper.ts';

/** Tests the rights of the chart's accounts at a real kubelet. The host worker itself does not run here. */
const namespace = 'default';
const reader = 'platform-kubelet-reader';
const worker = 'platform-sandboxes';
let cluster: KubernetesCluster;
let node: V1Node;

beforeAll(async () => {
  cluster = await KubernetesCluster.start();
  const { pods } = cluster.place.network;
  const sandboxes = { enabled: true, hostId: 'one', agentImage: 'registry.test/agent:1', podNetwork: pods };
  await applyFromChart(cluster, 'sandboxes', { sandboxes });
  node = (await cluster.core.listNode()).items[0]!;
}, 300_000);
afterAll(async () => {
  await cluster?.stop();
}, 120_000);

async function createToken(name: string): Promise<string> {
  const body = { spec: { audiences: [], expirationSeconds: 600 } };
  return (await cluster.core.createNamespacedServiceAccountToken({ namespace, name, body })).status!.token!;
}

async function createConfig(name: string): Promise<KubeConfig> {
  const config = new KubeConfig();
  config.loadFromOptions({
    clusters: [cluster.config.getCurrentCluster()!],
    users: [{ name, token: await createToken(name) }],
    contexts: [{ name, cluster: cluster.config.getCurrentCluster()!.name, user: name }],
    currentContext: name,
  });
  return config;
}

test('the host worker reads the figures of a kubelet only with tokens of the reader account, not with its own token', async () => {
  const config = await createConfig(worker);
  const ask = await createSummarySource(config, { via: 'kubelet', account: { namespace, name: reader } })();
  const of = { namespace: 'sandboxes', containerName: 'sandbox', volumeName: 'disk' };
  const figures = readNodeSummary(await ask(node), of);
  expect(figures.node.availableBytes).toBeGreaterThan(0);
  const askAsWorker = await createSummarySource(config)();
  await expect(askAsWorker(node)).rejects.toMatchObject({ name: 'SummaryRefused', status: 403 });
  const askThroughApi = await createSummarySource(config, { via: 'api-server' })();
  await expect(askThroughApi(node)).rejects.toMatchObject({ name: 'SummaryRefused', status: 403 });
});

test('a token that a kubelet receives gives no access to other endpoints of kubelets or to the API server', async () => {
  const token = await createToken(reader);
  const ca = Buffer.from(cluster.config.getCurrentCluster()!.caData!, 'base64');
  const readStatus = async (url: string) => {
    const answer = Promise.withResolvers<number>();
    const options = { ca, agent: false, headers: { authorization: `Bearer ${token}` } };
    https.get(url, options, (response) => answer.resolve(response.resume().statusCode!)).on('error', answer.reject);
    return answer.promise;
  };
  const kubelet = `https://${cluster.place.network.node}:10250`;
  expect(await readStatus(`${kubelet}/stats/summary`)).toBe(200);
  for (const path of [
    '/pods',
    '/configz',
    '/exec/default/a/b?command=id&output=1',
    '/containerLogs/default/a/b',
    '/logs/',
    '/metrics',
  ]) {
    expect([path, await readStatus(`${kubelet}${path}`)]).toEqual([path, 403]);
  }
  for (const path of ['/api/v1/namespaces/sandboxes/pods', '/api/v1/nodes', '/api/v1/nodes/node-1/proxy/pods']) {
    expect([path, await readStatus(`${cluster.server}${path}`)]).toEqual([path, 403]);
  }
});

test('the host worker may not use proxies of nodes, and may request tokens only for the reader account', async () => {
  const reviews = cluster.config.makeApiClient(AuthorizationV1Api);
  const may = async (verb: string, resource: string, subresource: string, name: string) => {
    const resourceAttributes = { verb, resource, subresource, name, namespace };
    const spec = { user: `system:serviceaccount:${namespace}:${worker}`, resourceAttributes };
    return (await reviews.createSubjectAccessReview({ body: { spec } })).status!.allowed;
  };
  expect(await may('get', 'nodes', 'proxy', 'node-1')).toBe(false);
  expect(await may('create', 'serviceaccounts', 'token', reader)).toBe(true);
  expect(await may('create', 'serviceaccounts', 'token', worker)).toBe(false);
  expect(await may('create', 'serviceaccounts', 'token', 'default')).toBe(false);
});
