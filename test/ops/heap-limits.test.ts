import { execFile } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { heapFlags } from '../../platform/config/heap-limits.ts';

const root = path.resolve(import.meta.dirname, '../..');
const scripts = ['api/server.ts', 'gateway/server.ts', 'worker/control.ts', 'worker/host.ts'];

test('each process has a limit, and their sum fits a machine of 4 GiB', () => {
  const limits = scripts.map((script) =>
    Number(/--max-old-space-size=(\d+)/.exec(heapFlags(script, {}).join(' '))?.[1]),
  );
  for (const limit of limits) expect(limit).toBeGreaterThan(0);
  expect(limits.reduce((sum, limit) => sum + limit, 0)).toBeLessThanOrEqual(2048);
});

test("an operator's own limit takes precedence", () => {
  expect(heapFlags('api/server.ts', { NODE_OPTIONS: '--max-old-space-size=4096' })).toEqual([]);
});

test('the image starts every script through the launcher, which sets the limits and stays one process', async () => {
  const entrypoint = /^ENTRYPOINT (.*)$/m.exec(fs.readFileSync(path.join(root, 'Dockerfile'), 'utf8'))![1]!;
  const [, , node, ...args] = JSON.parse(entrypoint) as string[];
  expect(node).toBe('node');
  // A server without settings ends at once. Node's own process report contains its options.
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'launch-'));
  try {
    const probe = path.join(folder, 'probe.mjs');
    fs.writeFileSync(
      probe,
      `import v8 from 'node:v8'; if (process.argv[1].endsWith('api/server.ts')) { console.log(JSON.stringify({ pid: process.pid,
       execArgv: process.execArgv, limit: v8.getHeapStatistics().heap_size_limit })); process.exit(0); }`,
    );
    const started = promisify(execFile)(process.execPath, [...args, 'api/server.ts'], {
      cwd: root,
      env: { PATH: process.env.PATH, NODE_OPTIONS: `--import=${probe}` },
    });
    const { stdout, stderr } = await started;
    const seen = JSON.parse(stdout);
    expect(stderr).toBe('');
    expect(seen.pid).toBe(started.child.pid);
    expect(seen.execArgv).toEqual(heapFlags('api/server.ts', {}));
    expect(seen.limit / 1024 / 1024).toBeLessThan(400);
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
});
