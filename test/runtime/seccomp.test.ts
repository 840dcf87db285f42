import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, test } from '@jest/globals';
import { Cgroups } from '../../runtime/oci/cgroups.ts';
import { findRuntime } from '../../runtime/oci/oci-runtime.ts';
import { seccompConfig } from '../../runtime/oci/seccomp.ts';
import { ensureRuntimeFolder } from '../../runtime/sandbox-agent/runtime-folder.ts';
import { cacheDir } from './local-host.ts';

test('hosts that start at once with empty caches translate the system calls without ending each other', async () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'seccomp-caches-'));
  try {
    const runtime = await findRuntime('crun', new Cgroups('sandboxes-none'));
    const runtimeFolder = await ensureRuntimeFolder(cacheDir(), path.resolve('agent/dist'));
    const caches = Array.from({ length: 12 }, (_, host) => path.join(folder, String(host)));
    const made = await Promise.all(caches.map((cache) => seccompConfig(cache, runtime, runtimeFolder)));
    expect(new Set(made.map((config) => JSON.stringify(config))).size).toBe(1);
  } finally {
    rmSync(folder, { recursive: true });
  }
}, 120_000);
