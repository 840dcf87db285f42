import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { MountSlot } from '../../domain/sandboxes/object-storage.ts';
import { issueLeaf, openLocalCa } from '../../gateway/tls/local-ca.ts';
import type { SandboxSpec } from '../../runtime/driver.ts';
import { Canary } from '../support/hostile-storage.ts';
import { S3Server } from '../support/s3-server.ts';
import { LocalHost, onHost, shell } from './local-host.ts';
import { OutsideNetwork } from './outside-network.ts';

/**
 * Buckets in host names: real S3 servers under the names of Amazon and Alibaba Cloud, with certificates for them. The
 * names lead to these servers only for the process that makes the sandbox, and for the s3fs that it starts: a separate
 * mount namespace gives them other files in place of the machine's.
 */
const amazon = 's3.us-east-1.amazonaws.com';
const alibaba = 'oss-us-east-1.aliyuncs.com';
const authorities = '/etc/ssl/certs/ca-certificates.crt';
const networks: OutsideNetwork[] = [];
const servers: S3Server[] = [];
const folder = mkdtempSync(path.join(os.tmpdir(), 'mounts-by-name-'));
const files = { hosts: path.join(folder, 'hosts'), authorities: path.join(folder, 'authorities.pem') };
let host: LocalHost;

beforeAll(async () => {
  const ca = await openLocalCa(folder);
  writeFileSync(files.authorities, readFileSync(authorities, 'utf8') + ca.certificatePem);
  const names = [readFileSync('/etc/hosts', 'utf8')];
  for (const [index, domain] of [amazon, alibaba].entries()) {
    const outside = new OutsideNetwork(81 + 2 * index);
    networks.push(outside);
    const certificate = await issueLeaf(ca, domain);
    servers.push(await S3Server.startAs({ domain, certificate }, outside, 'data', 'more'));
    names.push(...['data', 'more'].map((bucket) => `${outside.far} ${bucket}.${domain}`));
  }
  writeFileSync(files.hosts, `${names.join('\n')}\n`);
  host = await LocalHost.open(options());
}, 300_000);

afterAll(() => host?.closeEmpty(), 300_000);
afterAll(async () => {
  for (const server of servers) await server.stop();
  for (const network of networks) network.remove();
  rmSync(folder, { recursive: true });
}, 300_000);

/** The links to the servers are the host's own networks, which are closed by default. */
const options = () => ({
  outboundRanges: [...networks.map(({ far }) => `${far}/32`), '127.81.0.0/24'],
  ownServices: async () => ownServices,
});
/** Port 443 of this machine belongs to the platform, even if ranges of the machine are opened. */
const ownServices = [{ address: 'local', port: 443, isInner: true }];

test('s3:// and oss:// are mounted by region or by endpoint, with the bucket in the host name', async () => {
  const [s3, oss] = servers as [S3Server, S3Server];
  oss.write('more', 'deep/old', 'from outside');
  const spec = specWith(
    { uri: 's3://data/', mountPoint: '/mnt/s3' },
    { uri: 'oss://data/', mountPoint: '/mnt/oss' },
    { uri: 'oss://more/deep', mountPoint: '/mnt/more', endpoint: `https://${alibaba}` },
  );
  await createWithNames(spec);
  const { place } = await host.driver.inspect(spec.sandboxId);
  const { output } = await shell(
    place!,
    spec,
    'for each in s3 oss more; do echo to $each > /mnt/$each/new; cat /mnt/$each/new; done; cat /mnt/more/old',
  );
  expect(output).toBe('to s3\nto oss\nto more\nfrom outside');
  expect(s3.read('data', 'new')).toBe('to s3\n');
  expect(oss.read('data', 'new')).toBe('to oss\n');
  expect(oss.read('more', 'deep/new')).toBe('to more\n');
  await host.driver.remove(spec.sandboxId);
}, 300_000);

test('if a name later has another address, s3fs does not connect to it', async () => {
  const names = readFileSync(files.hosts, 'utf8');
  const name = `data.${amazon}`;
  const spec = specWith({ uri: 's3://data/', mountPoint: '/mnt/s3' });
  await createWithNames(spec);
  const { bucketProcesses } = await host.inventory();
  const s3fs = bucketProcesses.find((pid) => readFileSync(`/proc/${pid}/comm`, 'latin1') === 's3fs\n');
  /** Whether s3fs can connect to the storage now, by the name in its certificate. */
  const reaches = () => {
    const script = `const socket = require('tls').connect({ host: '127.0.0.1', port: 443, servername: '${name}', rejectUnauthorized: false });
      const end = (word) => { console.log(word); process.exit(); };
      socket.on('secureConnect', () => end(socket.getPeerCertificate().subjectaltname)).on('error', () => end('nothing')).on('close', () => end('nothing'));
      setTimeout(end, 40000, 'a server that does not answer');`;
    return onHost('nsenter', `--net=/proc/${s3fs}/ns/net`, process.execPath, '-e', script);
  };
  const canaries: Canary[] = [];
  try {
    expect(reaches()).toContain(amazon);
    // A closed address; an opened one of the platform; a sandbox's; and the machine's other addresses.
    for (const address of ['127.82.0.1', '127.81.0.1', host.driver.gateway!, networks[0]!.near]) {
      const canary = await Canary.start(address, 443);
      canaries.push(canary);
      writeFileSync(files.hosts, `${address} ${name}\n`);
      expect([address, reaches()]).toEqual([address, 'nothing']);
      expect(canary.connections).toBe(0);
      await connect(address, 443);
      expect(canary.connections).toBe(1);
    }
    writeFileSync(files.hosts, names);
    expect(reaches()).toContain(amazon);
    const { place } = await host.driver.inspect(spec.sandboxId);
    expect((await shell(place!, spec, 'echo on > /mnt/s3/on; cat /mnt/s3/on')).output).toBe('on');
  } finally {
    writeFileSync(files.hosts, names);
    for (const canary of canaries) await canary.stop();
    await host.driver.remove(spec.sandboxId);
  }
}, 300_000);

/** Connects and waits until the other side closes. */
async function connect(address: string, port: number): Promise<void> {
  const socket = net.connect(port, address);
  socket.resume();
  await once(socket, 'close');
}

function specWith(...mounts: (Pick<MountSlot, 'uri' | 'mountPoint'> & Partial<MountSlot>)[]): SandboxSpec {
  const { accessKey, secretKey } = servers[0]!;
  const common = { state: 'active' as const, region: 'us-east-1', endpoint: null, shortLived: false };
  const slots = mounts.map((mount, slot) => ({ slot, ...common, ...mount }));
  const credentials = Object.fromEntries(slots.map(({ slot }) => [slot, { accessKey, secretKey, sessionToken: null }]));
  return host.spec({ storage: { slots, credentials, bestEffort: false } });
}

/** Creates it in a separate host worker, which then ends: mounts outlive it. */
async function createWithNames(spec: SandboxSpec): Promise<void> {
  await host.driver.close();
  const { logger: _, ...own } = host.options();
  const script = 'mount --bind "$1" /etc/hosts && mount --bind "$2" "$3" && shift 3 && exec "$@"';
  const program = [process.execPath, path.join(import.meta.dirname, 'crashing-create.ts')];
  const words = [
    files.hosts,
    files.authorities,
    authorities,
    ...program,
    JSON.stringify({ options: { ...own, ...options() }, ownServices, spec }),
  ];
  const worker = spawn('unshare', ['--mount', 'sh', '-c', script, 'sh', ...words], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(worker, 'close');
  const said: string[] = [];
  for await (const line of createInterface(worker.stdout)) {
    said.push(line);
    if (line === 'created') break;
  }
  worker.kill('SIGKILL');
  await ended;
  await host.start(options());
  expect(said).toContain('created');
}
