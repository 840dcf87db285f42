import fs from 'node:fs';
import path from 'node:path';
import { Connection } from '@temporalio/client';
import { writesToJournal } from '../../../platform/config/journal.ts';
import { readSandboxCa } from '../../../platform/config/sandbox-ca.ts';
import { loadSettings, type Settings } from '../../../platform/config/settings.ts';
import { clientConnectionOptions } from '../../../platform/temporal/client-connection-options.ts';
import { ensureNamespace } from '../../../platform/temporal/namespace.ts';
import { releaseBallastIfFull } from '../../../runtime/disk/ballast.ts';
import { hasSpaceToAdmit, readDiskSpace } from '../../../runtime/disk/disk-space.ts';
import { cacheDir } from '../../setup/toolchain/locations.mjs';
import type { ProgramHome } from '../embedded/child-program.ts';
import { reachable, settleAddresses } from './addresses.ts';
import type { DataFolder } from './data-folder.ts';
import { embeddedParts } from './embedded-parts.ts';
import { KeptRunning, type Part } from './kept-running.ts';
import { migrate } from './migrate.ts';
import { markNewApiKey, type PlatformEnv, readPlatformEnv, takeNewApiKey, writePlatformEnv } from './platform-env.ts';
import { startPlatformProcess } from './platform-process.ts';
import { writePrometheusFiles } from './prometheus-files.ts';
import { writeProcessSettings } from './running-platform.ts';

/** Scripts of the platform's own parts, from the project's root. */
export interface PlatformScripts {
  migrate: string;
  /** Processes that receive requests. They start last and stop first. */
  servers: Record<string, string>;
  workers: Record<string, string>;
}

const clusterGuard = 'worker/hosts/cluster-guard.ts';
const platformScripts: PlatformScripts = {
  migrate: 'db/migrate.ts',
  servers: { api: 'api/server.ts', gateway: 'gateway/server.ts' },
  workers: { worker: 'worker/control.ts', host: 'worker/host.ts' },
};

export interface StartedPlatform {
  env: PlatformEnv;
  settings: Settings;
  /** The key of the first account, until a start has succeeded. An earlier start may have made it and then failed. */
  newApiKey: string | undefined;
}

/**
 * The whole platform on this machine: Postgres, a registry, Temporal and its Web UI, unless the environment has
 * addresses of others; and the platform's own processes. Each part is restarted when it ends by itself.
 */
export class Platform {
  readonly #folder: DataFolder;
  readonly #given: NodeJS.ProcessEnv;
  readonly #report: (text: string) => void;
  readonly #scripts: PlatformScripts;
  readonly #home: ProgramHome;
  readonly #stopping = new AbortController();
  /** In the order of their start, because a stage may need earlier ones. */
  readonly #stages: Promise<PromiseSettledResult<KeptRunning>[]>[] = [];

  /**
   * @param report called with one line for people: ended parts, warnings
   * @param scripts replace the platform's own scripts, for tests of this supervisor
   */
  constructor(
    folder: DataFolder,
    given: NodeJS.ProcessEnv,
    report: (text: string) => void,
    scripts: PlatformScripts = platformScripts,
  ) {
    this.#folder = folder;
    this.#given = given;
    this.#report = report;
    this.#scripts = scripts;
    const logDir = writesToJournal() ? null : folder.logDir;
    this.#home = { logDir, record: folder.record, stopping: this.#stopping.signal };
  }

  /**
   * Resolves when everything is ready. After an error, `stop()` ends the started parts.
   * @throws {SettingsError | PortTakenError | ProgramError}
   */
  async start(): Promise<StartedPlatform> {
    const leftovers = await this.#folder.record.endLeftovers();
    if (leftovers.length > 0) this.#report(`ended what a former start had left running: ${leftovers.join(', ')}`);
    reportFullDisks([path.join(this.#folder.dir, 'oci'), cacheDir(this.#given)], this.#report);
    const addresses = await settleAddresses(this.#folder, this.#given);
    const settings = loadSettings(addresses.processEnv);
    // The host worker reads it, too, but its error would be one line of a log.
    readSandboxCa(settings);
    writeProcessSettings(this.#folder.dir, addresses.processEnv);
    writePrometheusFiles(this.#folder.dir, settings, addresses.ports);
    const embedded = embeddedParts(this.#folder, this.#home, addresses, this.#given, settings);

    await this.#stage({ postgres: embedded.postgres, registry: embedded.registry });
    const migration = migrate(this.#scripts.migrate, addresses.migrationEnv, this.#stopping.signal).then((madeApiKey) =>
      this.#writePlatformEnv(settings, madeApiKey),
    );
    const temporal = embedded.temporal
      ? this.#stage({ temporal: embedded.temporal })
      : prepareTemporal(settings, this.#report);
    // The key is written even if Temporal fails, because the database only has its hash, and no later start makes
    // another key.
    await Promise.allSettled([migration, temporal]);
    const [env] = await Promise.all([migration, temporal]);
    await Promise.all([
      this.#stage({ 'temporal-web-ui': embedded.webUi }),
      this.#stage(
        this.#processes(
          {
            ...this.#scripts.workers,
            ...(settings.PLATFORM_DRIVER === 'kubernetes' && { 'cluster-guard': clusterGuard }),
          },
          addresses.processEnv,
        ),
      ),
      this.#stage(this.#processes(this.#scripts.servers, addresses.processEnv)),
    ]);
    return { env, settings, newApiKey: takeNewApiKey(this.#folder.dir) };
  }

  /** Stops everything, last stage first. Sandboxes continue. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#folder.markStopping();
    for (const stage of this.#stages.toReversed()) {
      const parts = (await stage).filter((part) => part.status === 'fulfilled');
      await Promise.all(parts.map((part) => part.value.stop()));
    }
  }

  /** Starts parts that are independent of each other. */
  async #stage(starts: Record<string, (() => Promise<Part>) | undefined>): Promise<void> {
    this.#stopping.signal.throwIfAborted();
    const stage = Promise.allSettled(
      Object.entries(starts).flatMap(([name, start]) =>
        start ? KeptRunning.start(name, start, this.#report, this.#stopping.signal) : [],
      ),
    );
    this.#stages.push(stage);
    for (const part of await stage) if (part.status === 'rejected') throw part.reason;
  }

  #processes(scripts: Record<string, string>, env: NodeJS.ProcessEnv): Record<string, () => Promise<Part>> {
    const starts = Object.entries(scripts).map(([name, script]) => [
      name,
      // The journal has each line of it already.
      () =>
        startPlatformProcess({
          name,
          script,
          env,
          home: this.#home,
          onWarning: this.#home.logDir === null ? () => {} : this.#report,
        }),
    ]);
    return Object.fromEntries(starts);
  }

  #writePlatformEnv(settings: Settings, madeApiKey: string | undefined): PlatformEnv {
    const { dir } = this.#folder;
    const gatewayHost = reachable(settings.PLATFORM_GATEWAY_HOST);
    const env: PlatformEnv = {
      PLATFORM_URL: settings.PLATFORM_URL!,
      PLATFORM_API_KEY: madeApiKey ?? readPlatformEnv(dir).PLATFORM_API_KEY,
      PLATFORM_GATEWAY: `http://${gatewayHost}:${settings.PLATFORM_GATEWAY_PORT}`,
      PLATFORM_CA: settings.PLATFORM_TLS_CERT_FILE ? undefined : path.join(dir, 'ca', 'ca.pem'),
      TEMPORAL_ADDRESS: settings.TEMPORAL_ADDRESS,
      TEMPORAL_NAMESPACE: settings.TEMPORAL_NAMESPACE,
      TEMPORAL_UI_URL: settings.TEMPORAL_UI_URL,
    };
    if (madeApiKey) markNewApiKey(dir);
    writePlatformEnv(dir, env);
    return env;
  }
}

/** Releases the space that is reserved for a start on a full disk, and reports disks without space for sandboxes. */
function reportFullDisks(folders: readonly string[], report: (text: string) => void): void {
  for (const folder of folders.filter((each) => fs.existsSync(each))) {
    if (releaseBallastIfFull(folder)) report(`the disk of ${folder} is full; the reserve there was released`);
    const space = readDiskSpace(folder);
    if (hasSpaceToAdmit(space)) continue;
    const free = `${Math.floor(space.freeBytes / 1024 ** 2)} MiB and ${space.freeInodes} inodes are free`;
    report(`the disk of ${folder} is nearly full (${free}); delete sandboxes, or make room otherwise`);
  }
}

/** Makes the namespace and the search attributes on an external Temporal, if it allows that. */
async function prepareTemporal(settings: Settings, report: (text: string) => void): Promise<void> {
  const connection = await Connection.connect(clientConnectionOptions(settings));
  try {
    await ensureNamespace(connection, settings.TEMPORAL_NAMESPACE);
  } catch (error) {
    report(
      `namespace ${settings.TEMPORAL_NAMESPACE} on ${settings.TEMPORAL_ADDRESS} could not be prepared, ` +
        `see ops/README.md for what it needs: ${(error as Error).message}`,
    );
  } finally {
    await connection.close();
  }
}
