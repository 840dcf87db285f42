import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { jest } from '@jest/globals';
import WebSocket from 'ws';
import { signQuery } from '../../../gateway/signed-query.ts';
import { type AgentClient, gatewayLookup } from '../../../ops/development/client/agent-client.ts';
import type { PlatformClient, SandboxView } from '../../../ops/development/client/platform-client.ts';
import { Coturn, ownAddress, stunBindingRequest } from '../../support/coturn.ts';
import { RunningPlatform } from '../../support/running-platform.ts';
import { askUdp, udpEcho } from '../../support/udp.ts';
import { until } from '../../support/until.ts';

/** Ports and TURN on the whole platform, with a real coturn that shares a secret with it. */
jest.setTimeout(120_000);

const turnSecret = 'a-secret-that-only-coturn-and-the-platform-know';
const small = { cpu_count: 1, memory_mb: 256, storage_gb: 1 };
let coturn: Coturn;
let platform: RunningPlatform;
let api: PlatformClient;
let sandbox: SandboxView;
let agent: AgentClient;

beforeAll(async () => {
  coturn = await Coturn.start(ownAddress(), turnSecret);
  platform = await RunningPlatform.onSharedServers({
    // On a busy machine a killed host worker may need longer for its restart than the default lease lasts.
    PLATFORM_HOST_LEASE_SECONDS: '60',
    PLATFORM_TURN_SECRET: turnSecret,
    PLATFORM_TURN_PUBLIC_HOST: coturn.address,
    PLATFORM_TURN_PUBLIC_PORT: String(coturn.port),
  });
  await platform.start();
  api = platform.client();
  sandbox = await api.createSandbox({
    ...small,
    custom_ports: [{ port: 5300, name: 'dns', protocol: 'UDP', service_port: 5000 }],
  });
  agent = platform.agent(sandbox);
  await agent.upload('/root/server.cjs', tcpServer);
  await agent.upload('/root/echo.cjs', udpEcho(5000));
  for (const script of ['server', 'echo']) await agent.start('/.platform/bin/node', [`/root/${script}.cjs`]);
  await until(async () => (await agent.run('bash', ['-c', 'exec 3<>/dev/tcp/127.0.0.1/9000'])).exitCode === 0);
}, 240_000);

afterAll(async () => {
  agent?.close();
  if (sandbox) await api.deleteSandbox(sandbox.sandbox_id);
  await platform?.stop();
  const remains = await platform?.hostRemains();
  platform?.removeData();
  await coturn?.stop();
  expect(remains).toEqual([]);
}, 180_000);

// biome-ignore lint/suspicious/noExplicitAny: replies of several shapes
const call = async (method: string, path: string, body?: unknown): Promise<any> => {
  const reply = await api.request(method, `/v1/sandboxes/${sandbox.sandbox_id}/${path}`, body);
  return { status: reply.status, ...reply.body };
};
const get = async (port: number, path = '/', headers: Record<string, string> = {}) => {
  const reply = await agent.request(path, { port, headers });
  return [reply.status, reply.status === 200 ? reply.body.toString() : null];
};
/** Waits until a change of the ports has reached the gateway. */
const untilAnswered = (port: number, status: number) => until(async () => (await get(port))[0] === status);

describe('a port that is added', () => {
  test('is open to everyone at once, over HTTP and WebSocket, and requires the token again after its removal', async () => {
    expect(await get(8000)).toEqual([401, null]);
    const added = await call('POST', 'ports', { port: 8000, name: 'web', service_port: 9000 });
    expect(added.data.port).toEqual({
      port: 8000,
      service_port: 9000,
      protocol: 'TCP',
      name: 'web',
      is_protected: false,
    });
    await untilAnswered(8000, 200);
    expect(await get(8000, '/a?b=c')).toEqual([200, 'GET /a?b=c']);
    expect(await webSocketGreeting(`ws://8000-${sandbox.sandbox_domain}/`)).toBe('upgraded');
    expect((await call('DELETE', 'ports/8000')).status).toBe(200);
    await untilAnswered(8000, 401);
  });

  test('protected: requires the token in its header, or a signed query', async () => {
    const token = sandbox.envd_access_token;
    await call('POST', 'ports', { port: 8443, name: 'mine', service_port: 9000, is_protected: true });
    expect(await get(8443)).toEqual([401, null]);
    expect(await get(8443, '/', { 'x-access-token': `${token}x` })).toEqual([401, null]);
    await until(async () => (await get(8443, '/', { 'x-access-token': token }))[0] === 200);
    expect(await get(8443, '/', { 'x-access-token': token })).toEqual([200, 'GET /']);
    const signed = (secret: string, port = 8443) => {
      const opened = { sandboxId: sandbox.sandbox_id, port, path: '/', operation: 'read' } as const;
      return `/?signature=${encodeURIComponent(signQuery(opened, secret, null))}`;
    };
    expect(await get(8443, signed(token))).toEqual([200, 'GET /']);
    expect(await get(8443, signed('wrong'))).toEqual([401, null]);
    expect(await get(8443, signed(token, 8444))).toEqual([401, null]);
    await expect(webSocketGreeting(`ws://8443-${sandbox.sandbox_domain}/`)).rejects.toThrow(/401/);
    expect(await webSocketGreeting(`ws://8443-${sandbox.sandbox_domain}/`, { 'X-Access-Token': token })).toBe(
      'upgraded',
    );
    // A WebSocket may write, so its query needs that signature.
    const opened = { sandboxId: sandbox.sandbox_id, port: 8443, path: '/', operation: 'write' } as const;
    const query = `signature=${encodeURIComponent(signQuery(opened, token, null))}`;
    expect(await webSocketGreeting(`ws://8443-${sandbox.sandbox_domain}/?${query}`)).toBe('upgraded');
    await expect(webSocketGreeting(`ws://8443-${sandbox.sandbox_domain}${signed(token)}`)).rejects.toThrow(/401/);
    await call('DELETE', 'ports/8443');
  });
});

/** Servers of development tools listen on one of these. */
test.each(['127.0.0.1', '::1', 'localhost'])(
  'a server that listens only on %s answers through its port',
  async (address) => {
    const reply = `of ${address}`;
    const port = { '127.0.0.1': 4001, '::1': 4002, localhost: 4003 }[address]!;
    const source = `http.createServer((q, r) => r.end('${reply}')).listen(${port}, '${address}')`;
    await agent.start('/.platform/bin/node', ['-e', source]);
    const headers = { 'x-access-token': sandbox.envd_access_token };
    await until(async () => (await get(port, '/', headers))[0] === 200);
    expect(await get(port, '/', headers)).toEqual([200, reply]);
    expect(await get(port)).toEqual([401, null]);
  },
);

describe('a UDP port', () => {
  const ask = (hostPort: string, waitMs?: number) => askUdp(hostPort, 'hello', { waitMs });
  const hostPorts = async (): Promise<Record<number, string>> =>
    Object.fromEntries(
      (await call('GET', 'ports')).data.ports.map((each: { port: number; host_port?: string }) => [
        each.port,
        each.host_port,
      ]),
    );

  test('answers at its host_port from the create, or from its addition, until its removal', async () => {
    const first = (await hostPorts())[5300]!;
    expect(first).toMatch(new RegExp(`^${ownAddress().replaceAll('.', '\\.')}:[23]\\d{4}$`));
    expect(await ask(first)).toBe(`${first} echo hello to ${ownAddress()}`);
    const added = await call('POST', 'ports', { port: 5000, name: 'echo', protocol: 'UDP' });
    const second = added.data.port.host_port;
    expect(await ask(second)).toContain('echo hello');
    expect(second).not.toBe(first);
    await call('DELETE', 'ports/5000');
    expect(await ask(second, 700)).toBe('');
    expect(await ask(first)).toContain('echo hello');
    await untilAnswered(5300, 404);
  });

  test('is the same after a pause, and after its host worker was killed', async () => {
    const before = await hostPorts();
    expect((await call('POST', 'pause')).data.ports[0].host_port).toBe(before[5300]);
    await call('POST', 'resume');
    expect(await ask(before[5300]!)).toContain('echo hello');
    const [host] = platform.findPids('worker/host.ts');
    process.kill(host!, 'SIGKILL');
    await until(() => platform.findPids('worker/host.ts').some((each) => each !== host));
    // Until the new host worker serves, the port is refused with 503.
    const wanted = { port: 5001, name: 'again', protocol: 'UDP', service_port: 5000 };
    let added = await call('POST', 'ports', wanted);
    await until(async () => {
      if (added.status !== 200) added = await call('POST', 'ports', wanted);
      return added.status === 200;
    }, 60_000);
    expect(await ask(added.data.port.host_port)).toContain('echo hello');
    expect((await hostPorts())[5300]).toBe(before[5300]);
    expect(await ask(before[5300]!)).toContain('echo hello');
  });

  test('of an ended sandbox becomes free', async () => {
    const other = await api.createSandbox({ ...small, custom_ports: [{ port: 1, name: 'a', protocol: 'UDP' }] });
    const [{ host_port: hostPort }] = other.ports as [{ host_port: string | null }];
    expect(hostPort).toMatch(/:[23]\d{4}$/);
    await api.request('POST', `/v1/sandboxes/${other.sandbox_id}/terminate`);
    const ended = await api.untilStatus(other.sandbox_id, 'terminated');
    expect(ended.ports).toMatchObject([{ host_port: null }]);
    await api.deleteSandbox(other.sandbox_id);
  });
});

describe('TURN', () => {
  /** The helper's reply to a program in a sandbox. */
  const askInside = async (inside: AgentClient, query = '') => {
    const { stdout, stderr } = await inside.run('sh', [
      '-c',
      `curl -sS --max-time 40 "$TURN_CREDENTIAL_SERVICE_URL/api/turn-credential${query}"`,
    ]);
    if (stderr) throw new Error(stderr);
    return JSON.parse(stdout) as { iceServers: { urls: string[]; username: string; credential: string }[] };
  };

  /** Waits until all messages were relayed: a busy machine may lose some, as UDP may. */
  const relays = (...credential: Parameters<Coturn['relay']>) =>
    until(async () => (await coturn.relay(...credential)).works);

  test('the credential of the API is accepted by coturn; an expired and a wrong one are refused', async () => {
    expect((await call('GET', 'webrtc-turn-credential')).code).toBe('webrtc_port_required');
    await call('POST', 'ports', { port: 7000, name: 'call', protocol: 'WEBRTC' });
    const {
      username,
      credential,
      turn_public_host: host,
      turn_public_port: port,
    } = (await call('GET', 'webrtc-turn-credential')).data;
    expect([host, port]).toEqual([coturn.address, coturn.port]);
    expect((await api.sandbox(sandbox.sandbox_id)).webrtc_turn).toEqual({
      turn_public_host: host,
      turn_public_port: port,
      ports: [7000],
    });
    await Promise.all([relays(username, credential), relays(username, credential, 'tcp')]);

    const past = `${Math.floor(Date.now() / 1000) - 1}:${sandbox.sandbox_id}`;
    const rightly = createHmac('sha1', turnSecret).update(past).digest('base64');
    expect((await coturn.relay(past, rightly)).said).toContain('Cannot complete Allocation');
    expect((await coturn.relay(username, rightly)).said).toContain('Cannot complete Allocation');
    const stretched = username.replace(/^\d+/, (expiry: string) => String(Number(expiry) + 60));
    expect((await coturn.relay(stretched, credential)).said).toContain('Cannot complete Allocation');
  });

  test('a program inside gets the server and its own credentials, with and without internet access', async () => {
    const closed = await api.createSandbox({ ...small, allow_internet_access: false });
    const closedAgent = platform.agent(closed);
    const given: { username: string; credential: string }[] = [];
    for (const [inside, id] of [
      [agent, sandbox.sandbox_id],
      [closedAgent, closed.sandbox_id],
    ] as const) {
      const { stdout } = await inside.run('sh', ['-c', 'env | grep ^TURN_ | sort']);
      expect(stdout.split('\n')).toEqual([
        expect.stringMatching(/^TURN_CREDENTIAL_SERVICE_URL=http:\/\/10\.\d+\.\d+\.1:7083$/),
        `TURN_INTERNAL_HOST=${coturn.address}`,
        `TURN_INTERNAL_PORT=${coturn.port}`,
        `TURN_PUBLIC_HOST=${coturn.address}`,
        `TURN_PUBLIC_PORT=${coturn.port}`,
        '',
      ]);
      for (const query of ['', '?internal=1']) {
        const [server] = (await askInside(inside, query)).iceServers;
        expect(server!.username).toMatch(new RegExp(`^\\d+:${id}$`));
        expect(server!.urls).toContain(`turn:${coturn.address}:${coturn.port}?transport=udp`);
        given.push(server!);
      }
    }
    expect(given).toHaveLength(4);
    await Promise.all(given.map(({ username, credential }) => relays(username, credential)));
    const request = stunBindingRequest.toString('hex');
    const stun = (seconds: number) =>
      `import socket; s = socket.socket(2, 2); s.settimeout(${seconds}); s.sendto(bytes.fromhex("${request}"), ("${coturn.address}", ${coturn.port})); print(s.recv(99)[:2].hex())`;
    expect((await agent.run('python3', ['-c', stun(40)])).stdout).toBe('0101\n');
    expect((await closedAgent.run('python3', ['-c', stun(2)])).exitCode).not.toBe(0);
    closedAgent.close();
    await api.deleteSandbox(closed.sandbox_id);
  });

  test('the service gives no other access to the host and serves no other clients', async () => {
    const { stdout: url } = await agent.run('sh', ['-c', 'printf %s "$TURN_CREDENTIAL_SERVICE_URL"']);
    expect((await fetch(`${url}/api/turn-credential`)).status).toBe(403);
    const server = http.createServer((_request, reply) => reply.end('of the host')).listen(0, '0.0.0.0');
    try {
      await once(server, 'listening');
      const { port } = server.address() as AddressInfo;
      for (const address of [new URL(url).hostname, coturn.address]) {
        expect(await (await fetch(`http://${address}:${port}/`)).text()).toBe('of the host');
        const reached = await agent.run('curl', ['-sS', '--max-time', '2', `http://${address}:${port}/`]);
        expect([reached.exitCode === 0, reached.stdout]).toEqual([false, '']);
      }
    } finally {
      server.close();
      server.closeAllConnections();
    }
  });

  test('the secret is nowhere inside', async () => {
    const search = async (text: string) => {
      const files = '/proc/[0-9]*/environ /etc /run /root /tmp';
      // The command has it in two halves, so that the search does not find itself.
      const command = `printf %s%s "$BEGIN" "$END" | grep -rlsF -f - ${files}; true`;
      const envs = { BEGIN: text.slice(0, 8), END: text.slice(8) };
      return (await agent.run('sh', ['-c', command], { envs })).stdout;
    };
    expect(await search('TURN_PUBLIC_HOST=')).toMatch(/\/proc\/\d+\/environ/);
    expect(await search(turnSecret)).toBe('');
  });
});

/** Echoes the request line and accepts any upgrade with a greeting. */
const tcpServer = `
const crypto = require('crypto');
require('http').createServer((q, r) => r.end(q.method + ' ' + q.url)).on('upgrade', (q, socket) => {
  const accept = crypto.createHash('sha1').update(q.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest('base64');
  socket.write('HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Accept: ' + accept + '\\r\\n\\r\\n');
  socket.write(Buffer.from([0x81, 8, ...Buffer.from('upgraded')]));
}).listen(9000, '0.0.0.0');
`;

function webSocketGreeting(url: string, headers: Record<string, string> = {}): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url, { lookup: gatewayLookup(), agent: new http.Agent(), headers });
    socket.once('message', (data) => {
      resolve(data.toString());
      socket.terminate();
    });
    socket.once('error', reject);
  });
}
