import { once } from 'node:events';
import http from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { Sandbox as Theirs } from 'e2b';
import { Sandbox as Ours } from '../../clients/typescript/src/index.ts';
import { RunningPlatform } from '../../test/support/running-platform.ts';
import { summarize, timed } from '../statistics.ts';
import { printTable, type Row } from '../table.ts';

/**
 * The newest JavaScript package of E2B beside this platform's own client, on the same platform and in turns. The package
 * reads files by `fetch`, and the own client by node:http, which takes less time; so the same reads are also measured
 * with bare requests of node:http, on the paths of both.
 */
const creates = Number(process.env.BENCH_TIMES ?? 30);
const readRounds = 10;
const readsInRound = 100;
const transfers = 5;
const transferMib = 1024;
/** A pool that was used is filled again half a second later. */
const refillMs = 2500;

interface Pair {
  ours: number[];
  theirs: number[];
}

/** Measures both alternately. Which one is first also alternates. */
async function inPairs(times: number, ours: () => Promise<number>, theirs: () => Promise<number>): Promise<Pair> {
  const pair: Pair = { ours: [], theirs: [] };
  for (let turn = 0; turn < times; turn += 1) {
    for (const isOurs of turn % 2 === 0 ? [true, false] : [false, true]) {
      if (isOurs) pair.ours.push(await ours());
      else pair.theirs.push(await theirs());
    }
  }
  return pair;
}

function rows(measure: string, { ours, theirs }: Pair, goal: number, names = ['own client', 'e2b']): Row[] {
  const [own, other] = [summarize(ours), summarize(theirs)];
  const ratio = other.p50 / own.p50;
  const verdict = `≤ ${goal} × ${names[0]}: ${ratio.toFixed(2)} ×, ${ratio <= goal ? 'met' : 'not met'}`;
  return [
    { measure: `${measure}: ${names[0]}`, value: own, unit: 'ms' },
    { measure: `${measure}: ${names[1]}`, value: other, unit: 'ms', goal: verdict },
  ];
}

const kept = new http.Agent({ keepAlive: true });

/** The bytes of a reply to a bare request. */
async function bareBytes(gateway: string, path: string, headers: http.OutgoingHttpHeaders): Promise<number> {
  const [reply] = (await once(http.get(new URL(path, gateway), { agent: kept, headers }), 'response')) as [
    http.IncomingMessage,
  ];
  if (reply.statusCode !== 200) throw new Error(`${path}: ${reply.statusCode}`);
  let bytes = 0;
  for await (const each of reply) bytes += each.length;
  return bytes;
}

const piece = Buffer.alloc(1024 ** 2, 'piece ');
async function* pieces() {
  for (let sent = 0; sent < transferMib; sent += 1) yield piece;
}

async function readAll(stream: AsyncIterable<Uint8Array>): Promise<void> {
  let bytes = 0;
  for await (const each of stream) bytes += each.length;
  if (bytes !== transferMib * piece.length) throw new Error(`${bytes} bytes came`);
}

async function measure(): Promise<Row[]> {
  const platform = new RunningPlatform();
  await platform.start();
  try {
    const { PLATFORM_URL, PLATFORM_GATEWAY, PLATFORM_API_KEY } = platform.env;
    const own = { apiUrl: PLATFORM_URL, gatewayUrl: PLATFORM_GATEWAY, apiKey: PLATFORM_API_KEY! };
    const other = { apiUrl: `${PLATFORM_URL}/e2b`, sandboxUrl: PLATFORM_GATEWAY, apiKey: PLATFORM_API_KEY! };
    const [ours, theirs] = [await Ours.create({ ...own, timeoutSeconds: 3600 }), await Theirs.create(other)];
    await Promise.all([ours.commands.run('true'), theirs.commands.run('true'), delay(refillMs)]);

    const created = await inPairs(
      creates,
      async () => {
        let sandbox: Ours | undefined;
        const ms = await timed(async () => {
          sandbox = await Ours.create(own);
          await sandbox.commands.run('true');
        });
        await sandbox!.delete();
        await delay(refillMs);
        return ms;
      },
      async () => {
        let sandbox: Theirs | undefined;
        const ms = await timed(async () => {
          sandbox = await Theirs.create(other);
          await sandbox.commands.run('true');
        });
        await sandbox!.kill();
        await delay(refillMs);
        return ms;
      },
    );

    await ours.files.write('/tmp/small', 'x'.repeat(1024));
    await theirs.files.write('/tmp/small', 'x'.repeat(1024));
    const times = async (read: () => Promise<unknown>) => {
      for (let index = 0; index < readsInRound; index += 1) await read();
    };
    const reads = await inPairs(
      readRounds,
      () => timed(() => times(() => ours.files.read('/tmp/small'))),
      () => timed(() => times(() => theirs.files.read('/tmp/small'))),
    );

    const token = { 'x-access-token': ours.accessToken! };
    const named = { ...token, 'e2b-sandbox-id': ours.id, 'e2b-sandbox-port': '49983' };
    const bareOwn = (path: string) => bareBytes(PLATFORM_GATEWAY, `/download${path}`, { ...token, host: ours.domain });
    const bareE2b = (path: string) => bareBytes(PLATFORM_GATEWAY, `/files?path=${path}`, named);
    const bareReads = await inPairs(
      readRounds,
      () => timed(() => times(() => bareOwn('/tmp/small'))),
      () => timed(() => times(() => bareE2b('/tmp/small'))),
    );

    const uploads = await inPairs(
      transfers,
      () => timed(() => ours.files.write('/tmp/large', pieces())),
      () => timed(() => theirs.files.write('/tmp/large', ReadableStream.from(pieces()), { requestTimeoutMs: 0 })),
    );
    const downloads = await inPairs(
      transfers,
      () => timed(() => readAll(ours.files.readStream('/tmp/large'))),
      () => timed(async () => readAll(await theirs.files.read('/tmp/large', { format: 'stream' }))),
    );
    const bareDownloads = await inPairs(
      transfers,
      () => timed(() => bareOwn('/tmp/large')),
      () => timed(() => bareE2b('/tmp/large')),
    );
    await Promise.all([ours.delete(), theirs.kill()]);
    const paths = ['/download', '/files'];
    return [
      ...rows('create, then the end of `true`', created, 1.15),
      ...rows(`${readsInRound} reads of a file of 1 KiB`, reads, 1.1),
      ...rows(`${readsInRound} bare reads of a file of 1 KiB`, bareReads, 1.1, paths),
      ...rows('upload of 1 GiB', uploads, 1.2),
      ...rows('download of 1 GiB', downloads, 1.2),
      ...rows('bare download of 1 GiB', bareDownloads, 1.2, paths),
    ];
  } finally {
    await platform.stop();
    await platform.hostRemains();
    platform.removeData();
  }
}

printTable("E2B's JavaScript package, and the platform's own client", await measure());
