import { pino } from 'pino';
import { loadPlans } from '../../db/billing/plans.ts';
import type { Settings } from '../../platform/config/settings.ts';
import { createApp } from '../app.ts';
import type { ApiDependencies } from '../dependencies.ts';
import { makeBytes } from '../low-priority-thread.ts';

/** The thread that makes the OpenAPI document. Its routes are registered and serve nothing. */
await makeBytes<Settings>(async (settings) => {
  const deps: Partial<ApiDependencies> = {
    ...{ settings, plans: loadPlans(settings.PLATFORM_PLANS_FILE), formKeys: () => [Buffer.alloc(32)], readiness: [] },
    logger: pino({ level: 'silent' }),
  };
  const app = createApp(deps as ApiDependencies);
  await app.ready();
  return Buffer.from(JSON.stringify(app.swagger()));
});
