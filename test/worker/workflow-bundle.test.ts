import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { buildWorkflowBundle, ensureWorkflowBundle } from '../../worker/workflow-bundle.ts';

let folder: string;
beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'workflow-bundle-'));
});
afterEach(() => fs.rmSync(folder, { recursive: true }));

test('a bundle that was built with the image is taken, and none is made at start', async () => {
  const [cache, built] = [path.join(folder, 'cache'), path.join(folder, 'built')];
  await buildWorkflowBundle(built);
  const file = await ensureWorkflowBundle(cache, built);
  expect(path.dirname(file)).toBe(built);
  expect(fs.statSync(file).size).toBeGreaterThan(100_000);
  expect(fs.existsSync(cache)).toBe(false);
});
