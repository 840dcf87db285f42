import { cp, mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { ensureAgentImageFolder } from './agent-image.ts';

/**
 * `node runtime/kubernetes/write-agent-image.ts FOLDER` writes the root folder of the agent image. The target `agent`
 * of the Dockerfile makes the image from it. `agent/dist` must be built before.
 */
const [folder] = process.argv.slice(2);
if (!folder) {
  console.error('Usage: node runtime/kubernetes/write-agent-image.ts FOLDER');
  process.exit(2);
}
const cacheDir = await mkdtemp(path.join(os.tmpdir(), 'agent-image-'));
try {
  const made = await ensureAgentImageFolder(cacheDir, path.resolve(import.meta.dirname, '../../agent/dist'));
  await cp(made, path.join(folder, '.platform'), { recursive: true });
} finally {
  await rm(cacheDir, { recursive: true });
}
