import fs from 'node:fs';
import path from 'node:path';
import { unknownSecretKey } from '../../../db/upkeep/secret-keys.ts';
import type { Settings } from '../../../platform/config/settings.ts';
import { codecAccessToken } from '../../../platform/temporal/codec-access.ts';
import { temporalDevServer, temporalPrograms, temporalServerMark } from '../../setup/toolchain/locations.mjs';
import { ProgramError, type ProgramHome } from '../embedded/child-program.ts';
import {
  type EmbeddedPostgres,
  type EmbeddedPostgresOptions,
  startPostgres,
  WrongPasswordError,
} from '../embedded/postgres.ts';
import { startRegistry } from '../embedded/registry.ts';
import { startTemporalOnPostgres } from '../embedded/temporal.ts';
import { devServerData, startTemporalDevServer } from '../embedded/temporal-dev-server.ts';
import { startWebUi } from '../embedded/temporal-web-ui.ts';
import type { Addresses } from './addresses.ts';
import { type DataFolder, derivePassword } from './data-folder.ts';
import type { Part } from './kept-running.ts';

/** @throws {SettingsError} when the database was made with another secret key */
async function startPostgresWithKeys(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  try {
    return await startPostgres(options);
  } catch (error) {
    if (!(error instanceof WrongPasswordError)) throw error;
    throw unknownSecretKey(`the database in ${options.dir}`);
  }
}

/**
 * Whether Temporal is the server on Postgres. A data folder keeps the one with which it began, because each keeps its
 * workflows elsewhere. A new one takes the server if it was built on this machine.
 * @throws {ProgramError} when the data folder needs the server and it was not built
 */
function hasTemporalServer(dataDir: string, builtPrograms: string): boolean {
  if (fs.existsSync(devServerData(path.join(dataDir, 'temporal')))) return false;
  const isBuilt = fs.existsSync(builtPrograms);
  if (!isBuilt && fs.existsSync(temporalServerMark(dataDir))) {
    throw new ProgramError(
      `The workflows of ${dataDir} need Temporal's server, which is not built: PLATFORM_TEMPORAL_BUILD=1 npm start`,
    );
  }
  return isBuilt;
}

type Start = () => Promise<Part>;

/** The start functions of the embedded parts. Undefined if the environment has the address of another one. */
export interface EmbeddedParts {
  postgres: Start | undefined;
  registry: Start | undefined;
  /** Needs Postgres. */
  temporal: Start | undefined;
  /** Needs Temporal. Also undefined if Temporal has its own UI. */
  webUi: Start | undefined;
}

/** @param given the operator's environment, before it was completed */
export function embeddedParts(
  folder: DataFolder,
  home: ProgramHome,
  { ports }: Addresses,
  given: NodeJS.ProcessEnv,
  settings: Settings,
): EmbeddedParts {
  const programs = temporalPrograms(given);
  const embedsTemporal = !given.TEMPORAL_ADDRESS;
  const temporalDir = path.join(folder.dir, 'temporal');
  const usesTemporalServer = embedsTemporal && hasTemporalServer(folder.dir, programs.dir);
  const password = (purpose: string) => derivePassword(folder.secretKey, purpose);
  const previousKey = settings.PLATFORM_PREVIOUS_SECRET_KEY;
  const namespace = settings.TEMPORAL_NAMESPACE;
  /** Set after the first start of Postgres, and valid for each restart, because its addresses do not change. */
  let postgres: EmbeddedPostgres | undefined;

  return {
    postgres:
      given.DATABASE_URL && !usesTemporalServer
        ? undefined
        : async () => {
            postgres = await startPostgresWithKeys({
              dir: path.join(folder.dir, 'postgres'),
              home,
              port: ports.PLATFORM_POSTGRES_PORT,
              password: password('postgres'),
              previousPassword: previousKey && derivePassword(previousKey, 'postgres'),
            });
            if (given.DATABASE_URL) return postgres;
            await postgres.ensureOwnedDatabase('platform', password('postgres platform'));
            await postgres.ensureRole('platform_runtime', password('postgres platform runtime'));
            return postgres;
          },
    registry: given.PLATFORM_REGISTRY
      ? undefined
      : () => startRegistry({ dir: path.join(folder.dir, 'registry'), home, port: ports.PLATFORM_REGISTRY_PORT }),
    temporal: !embedsTemporal
      ? undefined
      : usesTemporalServer
        ? () =>
            startTemporalOnPostgres({
              postgres: postgres!,
              password: password('postgres temporal'),
              programs,
              dataDir: folder.dir,
              home,
              ports: { frontend: ports.PLATFORM_TEMPORAL_PORT, ...ports },
              namespace,
            })
        : () =>
            startTemporalDevServer({
              cli: [temporalDevServer(given).cli, programs.cli].find((file) => fs.existsSync(file))!,
              dir: temporalDir,
              home,
              port: ports.PLATFORM_TEMPORAL_PORT,
              uiPort: ports.PLATFORM_TEMPORAL_UI_PORT,
              namespace,
            }),
    webUi: usesTemporalServer
      ? () =>
          startWebUi({
            program: programs.ui,
            dir: path.join(folder.dir, 'temporal-web-ui'),
            home,
            port: ports.PLATFORM_TEMPORAL_UI_PORT,
            temporalAddress: settings.TEMPORAL_ADDRESS,
            namespace,
            codecEndpoint: `${settings.PLATFORM_URL}/codec/${codecAccessToken(folder.secretKey)}`,
          })
      : undefined,
  };
}
