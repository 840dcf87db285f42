import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { SecondMachine } from '../support/second-machine.ts';
import { type FaultyPlatform, removeHost } from './faulty-platform.ts';

/**
 * Another host of a platform, on a second machine: it reaches Postgres and Temporal through one link, which can be cut.
 * Its region is `far`.
 */
export class FarHost {
  readonly dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-far-host-'));
  readonly #machine: SecondMachine;

  private constructor(machine: SecondMachine) {
    this.#machine = machine;
  }

  /**
   * Adds the part `far-host` to the platform and starts it.
   * @param options.machine where; it is closed with the host
   * @param options.settings over those of the platform
   * @param options.withGateway adds and starts `far-gateway`, too
   */
  static async start(
    platform: FaultyPlatform,
    options: { machine?: SecondMachine; settings?: NodeJS.ProcessEnv; withGateway?: boolean } = {},
  ): Promise<FarHost> {
    const { machine = SecondMachine.make(), settings = {}, withGateway = false } = options;
    const host = new FarHost(machine);
    const scripts = { 'far-host': 'worker/host.ts', ...(withGateway && { 'far-gateway': 'gateway/server.ts' }) };
    try {
      const database = new URL(platform.settings.DATABASE_URL);
      database.search = '';
      database.host = await machine.relay(database.host);
      const env = {
        ...platform.env,
        DATABASE_URL: database.href,
        TEMPORAL_ADDRESS: await machine.relay(platform.settings.TEMPORAL_ADDRESS),
        PLATFORM_DATA_DIR: host.dataDir,
        PLATFORM_REGION: 'far',
        PLATFORM_REGION_NAME: 'Far',
        PLATFORM_SANDBOX_SUBNET: machine.sandboxSubnet,
        ...settings,
      };
      const home = { logDir: platform.logDir };
      for (const [name, script] of Object.entries(scripts)) {
        platform.addPart(name, () => machine.start({ name, script, env, home }));
        await platform.up(name);
      }
      return host;
    } catch (error) {
      for (const name of Object.keys(scripts)) await platform.down(name);
      await host.close();
      throw error;
    }
  }

  /** Drops everything that is sent from now on, in both directions. */
  cut(): void {
    this.#machine.cut();
  }

  restore(): void {
    this.#machine.restore();
  }

  /** Whether all its sandboxes are frozen. */
  get isFenced(): boolean {
    return isFenced(this.dataDir);
  }

  /** Network links of sandboxes in its namespace. */
  veths(): string[] {
    return this.#machine.interfaces().filter((name) => /^sb[0-9a-f]+-/.test(name));
  }

  /** Removes it. Its programs must have ended. */
  async close(): Promise<void> {
    try {
      this.#machine.close();
    } finally {
      await removeHost(this.dataDir);
    }
  }
}

/** Whether the kernel has frozen the sandboxes of the host with this data folder. */
export function isFenced(dataDir: string): boolean {
  const { id } = JSON.parse(fs.readFileSync(path.join(dataDir, 'oci/copy.json'), 'utf8')) as { id: string };
  const first = `/sys/fs/cgroup/freezer/sandboxes-${id}/freezer.state`;
  if (fs.existsSync(first)) return fs.readFileSync(first, 'utf8').trim() === 'FROZEN';
  return fs.readFileSync(`/sys/fs/cgroup/sandboxes-${id}/cgroup.events`, 'utf8').includes('frozen 1');
}
