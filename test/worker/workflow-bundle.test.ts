import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { buildWorkflowBundles, ensureWorkflowBundle } from '../../worker/workflow-bundle.ts';

let folder: string;
beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'workflow-bundle-'));
});
afterEach(() => fs.rmSync(folder, { recursive: true }));

test('bundles that were built with the image are used, and none is made at start', async () => {
  const [cache, built] = [path.join(folder, 'cache'), path.join(folder, 'built')];
  await buildWorkflowBundles(built);
  for (const kind of ['plain', 'versioned'] as const) {
    const file = await ensureWorkflowBundle(cache, kind, built);
    expect(path.dirname(file)).toBe(built);
    expect(fs.statSync(file).size).toBeGreaterThan(100_000);
  }
  expect(fs.existsSync(cache)).toBe(false);
});
