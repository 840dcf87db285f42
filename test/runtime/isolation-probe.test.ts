import { execFile } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { buildProbePod, buildProbePolicy, selectorOfProbes } from '../../runtime/kubernetes/isolation-manifests.ts';
import { IsolationError, judgeIsolation } from '../../runtime/kubernetes/isolation-probe.ts';
import type { ManifestOptions } from '../../runtime/kubernetes/manifests.ts';
import { freePort } from '../support/free-port.ts';
import { until } from '../support/until.ts';

const run = promisify(execFile);
const inPod = path.resolve(import.meta.dirname, '../../runtime/kubernetes/in-pod');
const reached = { reached: true, lastMs: 9000 };
const closed = { reached: false, lastMs: null };

test('a cluster with an effective policy is isolated', () => {
  const found = judgeIsolation({ free: { open: reached, shut: closed }, closed: { open: closed, apiServer: closed } });
  expect(found).toEqual({ open: [], lateMs: null });
});

test.each([
  ['receives', { shut: reached }, {}, /may receive nothing received/],
  ['reaches a pod', {}, { open: reached }, /may send nothing reached another/],
  ['reaches the API server', {}, { apiServer: reached }, /reached the API server/],
])('a cluster is not isolated when a closed pod %s', (_what, free, closedPod, words) => {
  const { open } = judgeIsolation({
    free: { open: reached, shut: closed, ...free },
    closed: { open: closed, apiServer: closed, ...closedPod },
  });
  expect(open).toEqual([expect.stringMatching(words)]);
});

test('an untested connection counts as open', () => {
  expect(judgeIsolation({ free: { open: reached }, closed: {} }).open).toHaveLength(3);
});

test('a policy that became effective late is reported with its time', () => {
  const late = { reached: false, lastMs: 120 };
  const found = judgeIsolation({ free: { open: reached, shut: closed }, closed: { open: late, apiServer: closed } });
  expect(found).toEqual({ open: [], lateMs: 120 });
});

test('a cluster without any connections proves nothing, and is not called isolated', () => {
  expect(() => judgeIsolation({ free: { open: closed, shut: closed }, closed: { open: closed } })).toThrow(
    IsolationError,
  );
});

test('the scripts of the probe distinguish an address that answers from one that refuses, is silent or is another server', async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'isolation-'));
  const servers: net.Server[] = [];
  const listener = await freePort();
  const running = execFile(process.execPath, [path.join(inPod, 'isolation-listener.cjs'), `${listener}`, 'word']);
  const listen = async (answer: (socket: net.Socket) => void) => {
    const server = net.createServer(answer).listen(0, '127.0.0.1');
    servers.push(server);
    await once(server, 'listening');
    return (server.address() as net.AddressInfo).port;
  };
  try {
    const silent = await listen((socket) => void socket.on('error', () => {}));
    const other = await listen((socket) => void socket.on('error', () => {}).end('HTTP/1.1 404'));
    await until(() => answers(listener));
    const at = (port: number) => ({ host: '127.0.0.1', port, word: 'word' });
    const targets = {
      open: { ...at(listener), wanted: 'reached' },
      refused: { ...at(await freePort()), wanted: 'closed' },
      silent: { ...at(silent), wanted: 'closed' },
      other: { ...at(other), wanted: 'closed' },
      apiServer: { wanted: 'reached' },
    };
    const message = path.join(folder, 'message');
    const dialer = [path.join(inPod, 'isolation-dialer.cjs'), message, JSON.stringify(targets)];
    const api = { KUBERNETES_SERVICE_HOST: '127.0.0.1', KUBERNETES_SERVICE_PORT: `${silent}` };
    await run(process.execPath, dialer, { env: api });
    expect(JSON.parse(fs.readFileSync(message, 'utf8'))).toEqual({
      open: { reached: true, lastMs: expect.any(Number) },
      refused: closed,
      silent: closed,
      other: closed,
      apiServer: { reached: true, lastMs: expect.any(Number) },
    });
  } finally {
    running.kill();
    for (const server of servers) server.close();
    fs.rmSync(folder, { recursive: true });
  }
});

test("the probe's pods do not belong to a host, have no rights, and are removed with the policy that closes some of them", () => {
  const options: ManifestOptions = {
    namespace: 'sandboxes',
    hostId: 'host-one',
    agentImage: 'registry/agent@sha256:1',
    resolveImage: (reference) => reference,
    clientRanges: [],
    runtimeClass: 'gvisor',
  };
  const policy = buildProbePolicy('p1', options);
  policy.metadata!.uid = 'u1';
  const [free, closedPod] = [false, true].map((isClosed) =>
    buildProbePod({ id: 'p1', role: 'r', words: ['isolation-listener.cjs', '1'], isClosed, policy }, options),
  );
  for (const pod of [free!, closedPod!]) {
    expect(pod.metadata!.labels).not.toHaveProperty('sandbox-platform/host');
    expect(pod.metadata!.ownerReferences).toMatchObject([{ kind: 'NetworkPolicy', name: 'probe-p1', uid: 'u1' }]);
    expect(pod.spec).toMatchObject({ automountServiceAccountToken: false, runtimeClassName: 'gvisor' });
    const { command, securityContext } = pod.spec!.containers[0]!;
    expect(command).toEqual(['/.platform/bin/node', '/.platform/kubernetes/isolation-listener.cjs', '1']);
    expect(securityContext).toMatchObject({ runAsNonRoot: true, capabilities: { drop: ['ALL'] } });
  }
  const selected = Object.entries(policy.spec!.podSelector!.matchLabels!);
  const isSelected = (pod: typeof free) => selected.every(([name, value]) => pod!.metadata!.labels![name] === value);
  expect([free, closedPod].map(isSelected)).toEqual([false, true]);
  expect(policy.spec).toMatchObject({ policyTypes: ['Ingress', 'Egress'], ingress: [], egress: [] });
  expect(selectorOfProbes({ hostId: 'host-one' })).toBe('sandbox-platform/probe,sandbox-platform/host=host-one');
});

function answers(port: number): Promise<boolean> {
  return new Promise((done) => {
    const socket = net.connect(port, '127.0.0.1');
    socket.on('connect', () => done(true)).on('error', () => done(false));
    socket.on('connect', () => socket.destroy());
  });
}
