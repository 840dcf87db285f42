import { loadPlans, type PlanCatalog } from '../../../db/billing/plans.ts';
import { createOrm, type Orm } from '../../../db/orm.ts';
import { loadSettings, type Settings } from '../../../platform/config/settings.ts';

export interface PlatformDatabase {
  orm: Orm;
  plans: PlanCatalog;
  settings: Settings;
  /** The variables that the settings were read from. */
  env: NodeJS.ProcessEnv;
}

/** Connects with the settings of the environment. @throws {SettingsError} */
export async function openPlatformDatabase(env: NodeJS.ProcessEnv): Promise<PlatformDatabase> {
  const settings = loadSettings(env);
  return {
    env,
    orm: await createOrm(settings.DATABASE_URL, 2),
    plans: loadPlans(settings.PLATFORM_PLANS_FILE),
    settings,
  };
}
