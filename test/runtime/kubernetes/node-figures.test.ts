import { once } from 'node:events';
import fs from 'node:fs';
import type http from 'node:http';
import https from 'node:https';
import net, { type AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { KubeConfig, type V1Node } from '@kubernetes/client-node';
import { Cluster } from '../../../runtime/kubernetes/cluster.ts';
import { ClusterCapacity } from '../../../runtime/kubernetes/cluster-capacity.ts';
import { createSummarySource, SummaryRefused } from '../../../runtime/kubernetes/summary-sources.ts';
import { TestCa } from '../../support/test-ca.ts';

const address = '127.0.0.1';
const ownToken = 'token-of-the-host-worker';
const readerToken = 'token-of-the-kubelet-reader';
const reader = { namespace: 'platform', name: 'kubelet-reader' };
const summary = JSON.stringify({
  node: { cpu: { usageNanoCores: 5e8 }, memory: { availableBytes: 2 ** 30 } },
  pods: [],
});

type Answer = http.RequestListener;

let ca: TestCa;
let folder: string;
const servers: net.Server[] = [];

beforeAll(async () => {
  ca = await TestCa.create();
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'node-figures-'));
});
afterEach(async () => {
  for (const server of servers.splice(0)) {
    (server as Partial<https.Server>).closeAllConnections?.();
    await new Promise((resolve) => server.close(resolve));
  }
});
afterAll(() => fs.rmSync(folder, { recursive: true }));

/** Starts a server with a certificate. @returns its port */
async function serve(answer: Answer, { authority = ca, host = address } = {}): Promise<number> {
  const { certificate: cert, key } = await authority.issue({
    name: 'server',
    answersFor: [{ type: 'ip', value: host }],
  });
  const server = https.createServer({ cert, key }, answer).listen(0, address);
  servers.push(server);
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

const nodeAt = (port: number, name = 'node-1'): V1Node => ({
  metadata: { name },
  status: {
    addresses: [
      { type: 'Hostname', address: 'elsewhere.example' },
      { type: 'InternalIP', address },
    ],
    daemonEndpoints: { kubeletEndpoint: { Port: port } },
    allocatable: { cpu: '2', memory: '4Gi', pods: '110' },
    conditions: [{ type: 'Ready', status: 'True' }],
  },
});

/** The configuration of a host worker with a token, as in a pod. */
function createConfig(server: string, caData: string | null = Buffer.from(ca.pair.certificate).toString('base64')) {
  const config = new KubeConfig();
  config.loadFromOptions({
    clusters: [{ name: 'one', server, ...(caData === null ? {} : { caData }), skipTLSVerify: false }],
    users: [{ name: 'worker', token: ownToken }],
    contexts: [{ name: 'one', cluster: 'one', user: 'worker' }],
    currentContext: 'one',
  });
  return config;
}

const anywhere = `https://${address}:1`;
async function ask(port: number, config = createConfig(anywhere)): Promise<string> {
  return (await createSummarySource(config)())(nodeAt(port));
}

test('requests to a kubelet go to its internal address and port, with credentials', async () => {
  const seen: unknown[] = [];
  const port = await serve(({ method, url, headers }, response) => {
    seen.push([method, url, headers.authorization]);
    response.end(summary);
  });
  expect(await ask(port)).toBe(summary);
  expect(seen).toEqual([['GET', '/stats/summary', `Bearer ${ownToken}`]]);
});

test('a kubelet gets a token of the account that may only read figures, which is renewed only after some minutes', async () => {
  const seen: string[] = [];
  const kubelet = await serve(({ headers }, response) => {
    seen.push(headers.authorization!);
    response.end(summary);
  });
  const requests: unknown[] = [];
  const api = await serve(async (request, response) => {
    const body = JSON.parse((await request.toArray()).join(''));
    requests.push([request.method, request.url, request.headers.authorization, body.spec.expirationSeconds]);
    const status = { token: readerToken, expirationTimestamp: '2030-01-01T00:00:00Z' };
    response.setHeader('content-type', 'application/json');
    response.end(
      JSON.stringify({ apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: body.spec, status }),
    );
  });
  const prepare = createSummarySource(createConfig(`https://${address}:${api}`), { via: 'kubelet', account: reader });
  for (let time = 0; time < 3; time += 1) expect(await (await prepare())(nodeAt(kubelet))).toBe(summary);
  expect(seen).toEqual(Array(3).fill(`Bearer ${readerToken}`));
  const tokenPath = '/api/v1/namespaces/platform/serviceaccounts/kubelet-reader/token';
  expect(requests).toEqual([['POST', tokenPath, `Bearer ${ownToken}`, 600]]);
});

describe('no token is sent to a kubelet', () => {
  /** Requests that arrived even though the certificate is not valid. */
  let arrived: string[];
  const record: Answer = ({ url }, response) => {
    arrived.push(url!);
    response.end(summary);
  };
  beforeEach(() => {
    arrived = [];
  });

  test('whose certificate is signed by another authority', async () => {
    const port = await serve(record, { authority: await TestCa.create() });
    await expect(ask(port)).rejects.toThrow(/certificate/);
    expect(arrived).toEqual([]);
  });

  test('whose certificate is for another address', async () => {
    const port = await serve(record, { host: '192.0.2.1' });
    await expect(ask(port)).rejects.toMatchObject({ code: 'ERR_TLS_CERT_ALTNAME_INVALID' });
    expect(arrived).toEqual([]);
  });

  test('that speaks no TLS', async () => {
    const server = net.createServer((socket) => {
      socket.on('error', () => {});
      socket.on('data', (data) => arrived.push(data.toString('latin1')));
      socket.end('HTTP/1.1 200 OK\r\n\r\n');
    });
    servers.push(server.listen(0, address));
    await once(server, 'listening');
    await expect(ask((server.address() as AddressInfo).port)).rejects.toThrow();
    expect(arrived.join('')).not.toContain(ownToken);
  });

  test('with an API server whose certificate is not verified, or a variable that turns verification off', async () => {
    const port = await serve(record, { authority: await TestCa.create() });
    const config = createConfig(anywhere);
    Object.assign(config.getCurrentCluster()!, { skipTLSVerify: true });
    process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
    try {
      await expect(ask(port, config)).rejects.toThrow(/certificate/);
    } finally {
      delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
    }
    expect(arrived).toEqual([]);
  });

  test('if no authority is configured, because public authorities certify addresses of any owner', async () => {
    const port = await serve(record);
    await expect(ask(port, createConfig(anywhere, null))).rejects.toThrow('PLATFORM_KUBERNETES_KUBELET_CA_FILE');
    expect(arrived).toEqual([]);
  });

  test('whose authority is that of the API server, if a file names another one', async () => {
    const other = await TestCa.create();
    const caFile = path.join(folder, 'ca.crt');
    fs.writeFileSync(caFile, other.pair.certificate);
    const port = await serve(record);
    const prepare = createSummarySource(createConfig(anywhere), { via: 'kubelet', caFile });
    await expect((await prepare())(nodeAt(port))).rejects.toThrow(/certificate/);
    expect(arrived).toEqual([]);
    const right = await serve(record, { authority: other });
    expect(await (await prepare())(nodeAt(right))).toBe(summary);
    // The file is read at each connection.
    fs.writeFileSync(caFile, ca.pair.certificate);
    expect(await (await prepare())(nodeAt(port))).toBe(summary);
    await expect(
      createSummarySource(createConfig(anywhere), { via: 'kubelet', caFile: `${caFile}.none` })(),
    ).rejects.toThrow('ENOENT');
  });

  test('that has no internal address', async () => {
    const ask = await createSummarySource(createConfig(anywhere))();
    const status = { addresses: [{ type: 'InternalIP', address: 'metadata.example' }] };
    expect(() => ask({ metadata: { name: 'node-1' }, status })).toThrow('no internal address');
  });
});

describe('a hostile kubelet', () => {
  test('that redirects is not followed', async () => {
    const seen: string[] = [];
    const elsewhere = await serve(({ url }, response) => {
      seen.push(url!);
      response.end(summary);
    });
    const port = await serve((_request, response) => {
      response.writeHead(302, { location: `https://${address}:${elsewhere}/` }).end();
    });
    await expect(ask(port)).rejects.toMatchObject({ name: 'SummaryRefused', status: 302 });
    expect(seen).toEqual([]);
  });

  test('that sends endlessly is cut off at 16 MiB', async () => {
    let sent = 0;
    const port = await serve((_request, response) => {
      const chunk = Buffer.alloc(2 ** 20, ' ');
      const more = () => {
        while (!response.destroyed) {
          sent += chunk.length;
          if (!response.write(chunk)) return void response.once('drain', more);
        }
      };
      more();
    });
    await expect(ask(port)).rejects.toThrow('too large');
    expect(sent).toBeGreaterThan(16 * 2 ** 20);
  });

  test.each([
    ['says nothing', () => {}],
    [
      'sends a byte at a time',
      (response: { write: (text: string) => unknown; destroyed: boolean }) => {
        const timer = setInterval(() => (response.destroyed ? clearInterval(timer) : response.write(' ')), 50);
      },
    ],
  ] as const)('that %s is disconnected after three seconds', async (_name, act) => {
    const port = await serve((_request, response) => act(response));
    const fromMs = performance.now();
    await expect(ask(port)).rejects.toThrow('did not come in time');
    expect(performance.now() - fromMs).toBeLessThan(10_000);
  });

  test('that does not finish the handshake is disconnected, too', async () => {
    const server = net.createServer((socket) => socket.on('error', () => socket.destroy()).resume());
    servers.push(server.listen(0, address));
    await once(server, 'listening');
    await expect(ask((server.address() as AddressInfo).port)).rejects.toThrow('did not come in time');
  });
});

test('requests through the API server need another permission and use its usual settings', async () => {
  const seen: unknown[] = [];
  let status = 200;
  const port = await serve(({ url, headers }, response) => {
    seen.push([url, headers.authorization]);
    response.writeHead(status).end(summary);
  });
  const prepare = createSummarySource(createConfig(`https://${address}:${port}/cluster/`), { via: 'api-server' });
  expect(await (await prepare())(nodeAt(1, 'node/1'))).toBe(summary);
  expect(seen).toEqual([['/cluster/api/v1/nodes/node%2F1/proxy/stats/summary', `Bearer ${ownToken}`]]);
  status = 403;
  await expect((await prepare())(nodeAt(1))).rejects.toThrow('get on nodes/proxy');
});

describe('the capacity of a cluster', () => {
  let nodes: V1Node[];
  let warnings: { node?: string; err: Error }[];
  let capacity: ClusterCapacity;

  async function openCapacity(): Promise<void> {
    const api = await serve(({ url }, response) => {
      const items = url!.startsWith('/api/v1/nodes') ? nodes : [];
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ apiVersion: 'v1', kind: 'List', metadata: {}, items }));
    });
    const config = createConfig(`https://${address}:${api}`);
    warnings = [];
    const warn = (fields: object) => warnings.push(fields as { err: Error });
    capacity = new ClusterCapacity({
      cluster: new Cluster(config, 'sandboxes'),
      summaries: createSummarySource(config),
      namespace: 'sandboxes',
      memoryShare: 1,
      pods: () => [],
      logger: { debug: () => {}, info: () => {}, warn, error: warn },
    });
    await capacity.open();
  }
  afterEach(() => capacity.close());

  test('is the capacity of the nodes that answer; each other node is logged once, with the reason', async () => {
    const asked: string[] = [];
    const good = await serve((_request, response) => void response.end(summary));
    const broken = await serve(({ url }, response) => {
      asked.push(url!);
      response.end('{"node": {');
    });
    const forbidding = await serve((_request, response) => void response.writeHead(403).end());
    const strange = await serve((_request, response) => void response.end(summary), {
      authority: await TestCa.create(),
    });
    nodes = Object.entries({ good, broken, forbidding, strange }).map(([name, port]) => nodeAt(port, name));
    await openCapacity();
    expect(capacity.coreCount).toBe(8);
    expect(capacity.memory()).toMatchObject({ totalMb: 4 * 4096, availableMb: 1024 });
    expect(capacity.processorUsed()).toBe(0.5 / 8);
    // The nodes are asked again after five seconds.
    while (asked.length < 2) await once(servers[1]!, 'request');
    await capacity.close();
    expect(warnings.map(({ node }) => node).sort()).toEqual(['broken', 'forbidding', 'strange']);
    const findMessage = (name: string) => warnings.find(({ node }) => node === name)!.err.message;
    expect(findMessage('broken')).toMatch(/JSON/);
    expect(findMessage('forbidding')).toContain('get on nodes/stats');
    expect(findMessage('strange')).toMatch(/certificate/);
    expect(JSON.stringify(warnings.map(({ err }) => [err.message, err.stack]))).not.toContain(ownToken);
  });

  test('cannot be opened if no kubelet may be read', async () => {
    const forbidding = await serve((_request, response) => void response.writeHead(403).end());
    nodes = [nodeAt(forbidding)];
    await expect(openCapacity()).rejects.toThrow(SummaryRefused);
  });
});
