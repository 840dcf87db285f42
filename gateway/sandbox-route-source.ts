import type { PlatformSecrets } from '../config/secrets.ts';
import type { Orm } from '../db/orm.ts';
import { findSandboxRoute } from '../db/repositories/sandbox-routes.ts';
import type { RouteSource } from './routes.ts';

/** Where the agent listens when its row does not say (agent/BOOT.md). */
const DEFAULT_AGENT_PORT = 49983;

/** Routes from the platform's database; access tokens are derived, never stored. */
export function createSandboxRouteSource(orm: Orm, secrets: PlatformSecrets): RouteSource {
  return {
    find: async (sandboxId) => {
      const row = await findSandboxRoute(orm.em, sandboxId);
      if (!row) return null;
      return { ...row, agentPort: row.agentPort ?? DEFAULT_AGENT_PORT, accessToken: secrets.agentToken(sandboxId) };
    },
  };
}
