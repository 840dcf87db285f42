import { existsSync } from 'node:fs';
import type http from 'node:http';
import tls from 'node:tls';
import { afterEach, expect, test } from '@jest/globals';
import { BoundSocket } from '../../gateway/processes/bound-socket.ts';
import { until } from '../support/until.ts';
import { RawConnection, send } from './client.ts';
import { countSockets, MemoryGateway } from './memory-gateway.ts';
import { formatHost } from './started-gateway.ts';
import { startHttpUpstream, type UpstreamServer } from './upstream-server.ts';

const sandboxHost = formatHost('sbx-one');
const rootRequest = `GET / HTTP/1.1\r\nHost: ${sandboxHost}\r\n\r\n`;
const waitRequest = `GET /wait HTTP/1.1\r\nHost: ${sandboxHost}\r\n\r\n`;
let upstream: UpstreamServer;
let gateway: MemoryGateway;
let waiting: http.ServerResponse[];
let connections: RawConnection[];

async function start(limits = {}, whileStarting?: (gateway: MemoryGateway) => Promise<void>): Promise<void> {
  waiting = [];
  connections = [];
  upstream = await startHttpUpstream((request, response) => {
    if (request.url === '/') response.end('ok');
    else waiting.push(response);
  });
  const route = { sandboxId: 'sbx-one' as const, address: upstream.address, agentPort: upstream.port };
  gateway = await MemoryGateway.start([route], { limits, whileStarting });
}

afterEach(async () => {
  for (const connection of connections) connection.destroy();
  await gateway.stop();
  await upstream.stop();
});

function open(request: string): RawConnection {
  const connection = new RawConnection(gateway.port);
  connections.push(connection);
  connection.write(request);
  return connection;
}

/** Opens connections, with one answered request each, until each process has some of them. */
async function connectToEach(): Promise<RawConnection[]> {
  const before = new Map(gateway.pids.map((pid) => [pid, countSockets(pid)]));
  const hasSome = (pid: number) => countSockets(pid) >= before.get(pid)! + 3;
  const idle: RawConnection[] = [];
  while (!gateway.pids.every(hasSome)) {
    if (idle.length >= 500) throw new Error('one process takes every connection');
    const connection = open(rootRequest);
    await connection.expect('ok');
    idle.push(connection);
  }
  return idle;
}

const isServing = (pid: number) => gateway.lines('a gateway process serves').some((line) => line.childPid === pid);
const ask = () => send({ port: gateway.port, host: sandboxHost });

test('a process that dies closes only its own connections, and is replaced', async () => {
  await start();
  const idle = await connectToEach();
  const [victim, survivor] = gateway.pids as [number, number];
  process.kill(victim, 'SIGKILL');
  expect((await ask()).text).toBe('ok');
  // Only then has the kernel closed all of its connections.
  await until(() => gateway.lines('a gateway process ended').length === 1);
  await until(() => gateway.pids.length === 2 && !gateway.pids.includes(victim));
  await until(() => idle.some((connection) => connection.isClosed));
  const alive = idle.filter((connection) => !connection.isClosed);
  expect(alive.length).toBeGreaterThan(0);
  for (const connection of alive) {
    connection.received = '';
    connection.write(rootRequest);
  }
  for (const connection of alive) await connection.expect('ok');
  expect(gateway.pids).toContain(survivor);
  expect(gateway.lines('a gateway process ended')).toMatchObject([{ childPid: victim, signal: 'SIGKILL' }]);
  expect(await gateway.stop()).toBe(0);
});

test('a process with an uncaught exception logs it, lets its requests end, and is replaced', async () => {
  await start();
  const [victim] = gateway.pids as [number, number];
  const before = countSockets(victim);
  while (countSockets(victim) === before) {
    const busy = open(waitRequest);
    const sent = waiting.length + 1;
    await until(() => waiting.length === sent || busy.isClosed);
  }
  process.kill(victim, 'SIGUSR2');
  await until(() => gateway.lines('uncaught exception: this process ends').length === 1);
  // Immediately: the process waits for three seconds.
  for (const response of waiting) response.end('finished');
  for (const connection of connections) await connection.expect('finished');
  expect((await ask()).text).toBe('ok');
  await until(() => gateway.lines('a gateway process ended').length === 1);
  expect(gateway.lines('a gateway process ended')).toMatchObject([{ childPid: victim, code: 1 }]);
  await until(() => gateway.pids.length === 2 && !gateway.pids.includes(victim));
});

test('a process that crashes while the gateway starts is replaced before the gateway is ready', async () => {
  let victim = 0;
  await start({}, async (starting) => {
    await until(() => starting.pids.length === 2);
    [victim] = starting.pids as [number];
    process.kill(victim, 'SIGSEGV');
  });
  expect(gateway.lines('a gateway process ended')).toMatchObject([{ childPid: victim, signal: 'SIGSEGV' }]);
  expect(gateway.pids).toHaveLength(2);
  expect(gateway.pids.every(isServing)).toBe(true);
  expect((await ask()).text).toBe('ok');
});

test('while every process is dead, connections wait instead of being refused', async () => {
  await start();
  const victims = gateway.pids;
  for (const pid of victims) process.kill(pid, 'SIGKILL');
  await until(() => gateway.lines('a gateway process ended').length === 2);
  const connection = open(rootRequest);
  await connection.expect('ok');
  expect(gateway.pids.filter((pid) => victims.includes(pid))).toEqual([]);
});

test('no process outlives the primary, not even a hung one', async () => {
  await start();
  const pids = gateway.pids;
  process.kill(pids[0]!, 'SIGSTOP');
  gateway.killPrimary();
  await until(() => pids.every((pid) => !existsSync(`/proc/${pid}`)));
});

test('a gateway does not start on a port that is taken', async () => {
  await start();
  const { port } = gateway;
  await expect(BoundSocket.bind('127.0.0.1', port)).rejects.toThrow(`cannot bind 127.0.0.1:${port}: EADDRINUSE`);
  // Not an address of this machine.
  await expect(BoundSocket.bind('192.0.2.1', 0)).rejects.toThrow('EADDRNOTAVAIL');
});

test('a process that hangs gets no new connections and is replaced', async () => {
  await start();
  const [victim] = gateway.pids as [number, number];
  process.kill(victim, 'SIGSTOP');
  for (let i = 0; i < 20; i++) expect((await ask()).text).toBe('ok');
  await until(() => gateway.lines('a gateway process ended').length === 1);
  expect(gateway.lines('a gateway process hangs and is killed')).toMatchObject([{ childPid: victim }]);
  await until(() => gateway.pids.length === 2);
  expect((await ask()).text).toBe('ok');
});

test('a limit holds for all processes together, and the counts of a dead one are free again', async () => {
  await start({ maxRequestsPerClient: 8 });
  let refused = 0;
  for (let i = 0; i < 24; i++) {
    const connection = open(waitRequest);
    const sent = waiting.length + 1;
    await until(() => waiting.length === sent || connection.received.includes('too_many_requests'));
    if (waiting.length < sent) refused++;
    // The counts of one process reach the others soon, but a busy machine may delay the processes.
    await gateway.states();
  }
  expect([waiting.length, refused]).toEqual([8, 16]);
  const counted = connections.filter(({ received }) => !received.includes('too_many_requests'));
  const [victim, survivor] = gateway.pids as [number, number];
  for (const pid of [victim, survivor]) {
    process.kill(pid, 'SIGKILL');
    await until(() => gateway.pids.length === 2 && !gateway.pids.includes(pid) && gateway.pids.every(isServing));
    // The kernel may have given all of them to the other process.
    if (pid === survivor) await until(() => counted.every((connection) => connection.isClosed));
    if (counted.some((connection) => connection.isClosed)) await until(async () => (await ask()).text === 'ok');
  }
});

test('a TLS session of one process is resumed by the others', async () => {
  await start();
  const connect = (session?: Buffer) =>
    new Promise<{ reused: boolean; session: Buffer }>((resolve, reject) => {
      const socket = tls.connect({
        port: gateway.port,
        host: '127.0.0.1',
        servername: sandboxHost,
        rejectUnauthorized: false,
        maxVersion: 'TLSv1.2',
        session,
      });
      socket.once('error', reject);
      socket.once('secureConnect', () => {
        resolve({ reused: socket.isSessionReused(), session: socket.getSession()! });
        socket.destroy();
      });
    });
  const { session } = await connect();
  const reused: boolean[] = [];
  for (let i = 0; i < 12; i++) reused.push((await connect(session)).reused);
  expect(reused).toEqual(Array(12).fill(true));
});

test('a stopping gateway lets the requests of every process end', async () => {
  await start();
  for (let i = 0; i < 8; i++) open(waitRequest);
  await until(() => waiting.length === 8);
  const stopped = gateway.stop();
  const refusesConnections = async () => {
    const probe = new RawConnection(gateway.port);
    await until(() => probe.isClosed || probe.socket.readyState === 'open');
    probe.destroy();
    return probe.socket.errored !== null;
  };
  await until(refusesConnections);
  for (const response of waiting) response.end('finished');
  for (const connection of connections) await connection.expect('finished');
  expect(await stopped).toBe(0);
});
