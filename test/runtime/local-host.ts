import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { SandboxPlace, SandboxSpec } from '../../runtime/driver.ts';
import { createOciDriver, type OciDriver, type OciDriverOptions } from '../../runtime/oci/driver.ts';

const repository = path.resolve(import.meta.dirname, '../..');

/** A machine with a platform of its own on it: real containers, in a data folder that goes with the test. */
export class LocalHost {
  readonly dataDir = mkdtempSync(path.join(os.tmpdir(), 'sandbox-host-'));
  readonly warnings: unknown[] = [];
  driver!: OciDriver;
  #numbered = 0;
  #isClosed = false;

  static async open(options: Partial<OciDriverOptions> = {}): Promise<LocalHost> {
    const host = new LocalHost();
    try {
      await host.start(options);
    } catch (error) {
      await host.close();
      throw error;
    }
    return host;
  }

  /** Opens the driver as a host worker does when it starts; after `crash` it finds what the one before left. */
  async start(options: Partial<OciDriverOptions> = {}): Promise<void> {
    this.driver = await createOciDriver({ ...this.options(), ...options });
  }

  options(): OciDriverOptions {
    const warn = (fields: object, message: string) => this.warnings.push({ ...fields, message });
    return {
      dataDir: this.dataDir,
      cacheDir: cacheDir(),
      agentDir: path.join(repository, 'agent/dist'),
      runtime: (process.env.PLATFORM_OCI_RUNTIME || undefined) as 'crun' | 'runc' | undefined,
      warmPoolSize: 0,
      logger: { debug: () => {}, info: () => {}, warn, error: warn },
    };
  }

  /** A sandbox that nobody else has; small, closed to the internet, with secrets to look for. */
  spec(overrides: Partial<SandboxSpec> = {}): SandboxSpec {
    this.#numbered += 1;
    return {
      sandboxId: `sbx-test${this.#numbered}`,
      run: 1,
      accountId: 'acc-test',
      image: 'builtin:base',
      cpuCount: 1,
      memoryMb: 256,
      storageGb: 1,
      allowInternetAccess: false,
      env: { GREETING: 'hello' },
      accessToken: 'access-token-of-the-test',
      platformToken: 'platform-token-of-the-test',
      command: null,
      readyProbe: null,
      udpPorts: [],
      ...overrides,
    };
  }

  /** Ends everything of this host. Safe to call again. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    await this.driver?.teardown();
    rmSync(this.dataDir, { recursive: true, force: true });
    this.#isClosed = true;
  }

  /** For `await using`, so that a test that fails leaves nothing on the machine. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Ends the sandboxes and looks that nothing of them is left; whatever is, the host is closed. */
  async closeEmpty(): Promise<void> {
    try {
      await this.driver.close();
      await this.driver.reconcile([]);
      expect(await this.driver.inventory()).toMatchObject(nothing);
    } finally {
      await this.close();
    }
  }
}

export function cacheDir(): string {
  const base = process.env.XDG_CACHE_HOME || path.join(os.homedir(), '.cache');
  return path.resolve(process.env.PLATFORM_CACHE_DIR || path.join(base, 'sandbox-platform'));
}

/**
 * What a shell script run in a sandbox wrote, both streams together, and how it ended.
 * @param timeoutSeconds a bound against hanging, not on speed
 */
export async function shell(
  place: SandboxPlace,
  spec: SandboxSpec,
  script: string,
  timeoutSeconds = 150,
): Promise<{ exitCode: number; output: string }> {
  const base = `http://${place.address}:${place.agentPort}`;
  const output = `/dev/shm/output-${Math.random().toString(36).slice(2)}`;
  const probe = await fetch(`${base}/platform/probe`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-platform-token': spec.platformToken },
    body: JSON.stringify({ command: ['/bin/sh', '-c', `{ ${script}\n} >${output} 2>&1`], timeoutSeconds }),
  });
  if (probe.status !== 200) throw new Error(`the probe was answered with ${probe.status}`);
  const { exitCode } = (await probe.json()) as { exitCode: number };
  const file = await fetch(`${base}/download${output}`, { headers: { 'x-access-token': spec.accessToken ?? '' } });
  return { exitCode, output: file.status === 200 ? (await file.text()).trim() : '' };
}

/** Runs a program on the host and gives what it wrote. */
export function onHost(command: string, ...args: string[]): string {
  return execFileSync(command, args, { encoding: 'utf8' }).trim();
}

/** An inventory of a copy that has no sandbox. */
export const nothing = {
  containers: [],
  processes: [],
  shims: [],
  mounts: [],
  loopDevices: [],
  interfaces: [],
  bucketProcesses: [],
  udpRoutes: [],
  folders: { sandboxes: [], pool: [], trash: [] },
};
