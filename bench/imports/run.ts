import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseImageReference } from '../../domain/templates/image-reference.ts';
import { ImageImports } from '../../integrations/registry/image-import.ts';
import { PlatformRegistry } from '../../integrations/registry/platform-registry.ts';
import { loadSettings } from '../../platform/config/settings.ts';
import { LoopbackRegistry } from '../../test/support/loopback-registry.ts';
import { anyLayer, pushImage } from '../../test/support/pushed-image.ts';
import { summarize, timed } from '../statistics.ts';
import { holdAgainst, printTable, type Row } from '../table.ts';

/**
 * Compares copying an image of 200 MB from one registry to another with `skopeo copy` between the same registries in
 * the same run: one at a time, and ten at once. `npm run bench -- imports`
 */
const megabytes = Number(process.env.BENCH_IMAGE_MB ?? 200);
const times = Number(process.env.BENCH_TIMES ?? 5);
const atOnce = 10;
const layers = 5;

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-platform-bench-imports-'));
const folders = ['source', 'target'].map((name) => path.join(folder, name));
for (const each of folders) fs.mkdirSync(each);
const [source, target] = (await Promise.all(folders.map((each) => LoopbackRegistry.start(each)))) as [
  LoopbackRegistry,
  LoopbackRegistry,
];
const settings = loadSettings({
  PLATFORM_SECRET_KEY: randomBytes(32).toString('base64'),
  DATABASE_URL: 'postgres://127.0.0.1:1/none',
  PLATFORM_REGISTRY: target.address,
  PLATFORM_REGISTRY_INSECURE_HTTP: 'true',
  PLATFORM_OUTBOUND_RANGES: '127.0.0.0/8',
});
const registry = PlatformRegistry.of(settings)!;
const imports = new ImageImports(settings, registry, async () => []);
let count = 0;

try {
  const ours: number[] = [];
  const bare: number[] = [];
  // Measured alternately, so that other load of the machine affects both.
  for (let round = 0; round < times; round++) {
    const [first, second] = [await newImage(megabytes), await newImage(megabytes)];
    bare.push(await timed(() => skopeo(first)));
    ours.push(await timed(() => copy(second)));
  }
  const small = megabytes / 5;
  const together = async (work: (name: string) => Promise<unknown>) => {
    const names: string[] = [];
    for (let index = 0; index < atOnce; index++) names.push(await newImage(small));
    return timed(() => Promise.all(names.map(work)));
  };
  const bareTogether = await together(skopeo);
  const before = residentMb();
  let peakMb = before;
  const watch = setInterval(() => {
    peakMb = Math.max(peakMb, residentMb());
  }, 50);
  const oursTogether = await together(copy);
  clearInterval(watch);
  const [p50, barep50] = [summarize(ours).p50, summarize(bare).p50];
  const rows: Row[] = [
    { measure: `skopeo copy, ${megabytes} MB`, value: summarize(bare), unit: 'ms' },
    {
      measure: `import, ${megabytes} MB`,
      value: summarize(ours),
      unit: 'ms',
      goal: holdAgainst(p50, 1.15 * barep50, 'ms'),
    },
    { measure: `${atOnce} × skopeo copy at once, ${small} MB`, value: bareTogether.toFixed(0), unit: 'ms' },
    {
      measure: `${atOnce} imports at once, ${small} MB`,
      value: oursTogether.toFixed(0),
      unit: 'ms',
      goal: holdAgainst(oursTogether, bareTogether, 'ms'),
    },
    { measure: `memory of the worker, before and at most meanwhile`, value: `${before} → ${peakMb}`, unit: 'MB' },
  ];
  printTable('Import of an image', rows);
} finally {
  imports.close();
  registry.close();
  await Promise.all([source.stop(), target.stop()]);
  fs.rmSync(folder, { recursive: true, force: true });
}

/** An image of random bytes, which no registry has yet. @returns its name */
async function newImage(sizeMb: number): Promise<string> {
  count += 1;
  const name = `image-${count}`;
  const each = Math.floor((sizeMb * 1_000_000) / layers);
  await pushImage(`http://${source.address}`, `source/${name}`, {
    layers: Array.from({ length: layers }, () => anyLayer(each)),
  });
  return name;
}

function copy(name: string): Promise<unknown> {
  return imports.copy({
    reference: parseImageReference(`${source.address}/source/${name}`)!,
    credentials: null,
    to: { path: `target/${name}`, tag: 'latest' },
    onFound: async () => {},
    onProgress: () => {},
    onLine: () => {},
    signal: AbortSignal.timeout(240_000),
  });
}

async function skopeo(name: string): Promise<void> {
  const flags = ['--insecure-policy', 'copy', '--src-tls-verify=false', '--dest-tls-verify=false'];
  const [from, to] = [`docker://${source.address}/source/${name}`, `docker://${target.address}/target/${name}`];
  const child = spawn('skopeo', [...flags, from, to], { stdio: ['ignore', 'ignore', 'inherit'] });
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(`skopeo ended with ${code}`);
}

function residentMb(): number {
  return Math.round(process.memoryUsage().rss / 1e6);
}
