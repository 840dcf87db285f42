import path from 'node:path';
import type { ProgramHome } from './child-program.ts';
import type { EmbeddedPostgres } from './postgres.ts';
import {
  type DynamicValue,
  type EmbeddedTemporal,
  startTemporalServer,
  type TemporalPorts,
} from './temporal-server.ts';

/** Ports that only Temporal itself uses. By preference they follow the frontend's port in this order. */
export const temporalInnerPorts = [
  'frontendHttp',
  'frontendMembership',
  'history',
  'historyMembership',
  'matching',
  'matchingMembership',
  'worker',
  'workerMembership',
] as const satisfies readonly (keyof TemporalPorts)[];

/**
 * Starts Temporal on the embedded Postgres: its two databases, each with its own role, then the server.
 * @param password the password of those roles
 */
export async function startTemporalOnPostgres(options: {
  postgres: EmbeddedPostgres;
  password: string;
  programs: { server: string; sqlTool: string };
  dataDir: string;
  home: ProgramHome;
  ports: TemporalPorts;
  namespace: string;
  dynamicConfig?: Record<string, DynamicValue[]>;
}): Promise<EmbeddedTemporal> {
  const { postgres, password } = options;
  const [databaseUrl, visibilityDatabaseUrl] = await Promise.all([
    postgres.ensureOwnedDatabase('temporal', password),
    postgres.ensureOwnedDatabase('temporal_visibility', password),
  ]);
  return startTemporalServer({
    programs: options.programs,
    dir: path.join(options.dataDir, 'temporal'),
    home: options.home,
    ports: options.ports,
    databaseUrl,
    visibilityDatabaseUrl,
    namespace: options.namespace,
    ...(options.dynamicConfig && { dynamicConfig: options.dynamicConfig }),
  });
}
