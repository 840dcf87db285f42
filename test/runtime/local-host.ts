import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { SandboxPlace, SandboxSpec } from '../../runtime/driver.ts';
import type { HostDriver } from '../../runtime/host-driver.ts';
import { baseRecipeDigest } from '../../runtime/images/base-image.ts';
import { Cgroups } from '../../runtime/oci/cgroups.ts';
import { type Copy, openCopy } from '../../runtime/oci/copy.ts';
import { createOciDriver } from '../../runtime/oci/create-driver.ts';
import { liveShims } from '../../runtime/oci/live-shims.ts';
import type { OciDriverOptions } from '../../runtime/oci/options.ts';
import { type Inventory, leaveMachine, takeInventory } from './inventory.ts';
import { smallSpec } from './small-spec.ts';

const repository = path.resolve(import.meta.dirname, '../..');

/** A machine with its own platform: real containers, and a data folder that is removed with the test. */
export class LocalHost {
  readonly dataDir = mkdtempSync(path.join(os.tmpdir(), 'sandbox-host-'));
  readonly warnings: unknown[] = [];
  driver!: HostDriver;
  copy!: Copy;
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

  /** Opens the driver as a starting host worker does. After `crash` it finds the state of the previous one. */
  async start(options: Partial<OciDriverOptions> = {}): Promise<void> {
    const all = { ...this.options(), ...options };
    this.driver = await createOciDriver(all);
    this.copy = await openCopy(all.dataDir, all.logger);
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

  /** What the driver's copy has on the machine. */
  inventory(): Promise<Inventory> {
    return takeInventory(this.copy);
  }

  /** The number of frozen members of the warm pool of one image. */
  countReady(image: string): number {
    const digest = /@(sha256:[0-9a-f]{64})$/.exec(image)?.[1] ?? baseRecipeDigest();
    return this.#frozenMembers().filter((shim) => shim.image.includes(digest.replace(':', '-'))).length;
  }

  /** Whether the driver offers every frozen member. It does so some time after the kernel has frozen it. */
  get offersAllMembers(): boolean {
    return this.driver.poolReady >= this.#frozenMembers().length;
  }

  #frozenMembers() {
    const { freezer } = new Cgroups(this.copy.cgroup);
    return liveShims(this.copy).filter(
      (shim) => shim.folder.startsWith(this.copy.poolFolder) && freezer.isFrozen(shim.instance),
    );
  }

  /** A new sandbox: small, without internet access, with secrets for which tests search. */
  spec(overrides: Partial<SandboxSpec> = {}): SandboxSpec {
    this.#numbered += 1;
    return smallSpec({ sandboxId: `sbx-test${this.#numbered}`, image: 'builtin:base' }, overrides);
  }

  /** Ends everything of this host. May be called repeatedly. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    if (this.driver) await leaveMachine(this.driver);
    rmSync(this.dataDir, { recursive: true, force: true });
    this.#isClosed = true;
  }

  /** For `await using`, so that a failed test leaves nothing on the machine. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Ends the sandboxes and checks that nothing of them is left. In any case the host is closed. */
  async closeEmpty(): Promise<void> {
    try {
      await this.driver.close();
      await this.driver.reconcile([]);
      expect(await this.inventory()).toMatchObject(nothing);
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
 * Returns the output of a shell script in a sandbox, both streams together, and its exit.
 * @param timeoutSeconds a limit against hanging, not on speed
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

/** Runs a program on the host and returns its output. */
export function onHost(command: string, ...args: string[]): string {
  return execFileSync(command, args, { encoding: 'utf8' }).trim();
}

/** The inventory of a copy without sandboxes. */
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
