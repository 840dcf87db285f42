import { pino } from 'pino';
import { loadPlans } from '../../db/billing/plans.ts';
import type { Settings } from '../../platform/config/settings.ts';
import { createApp } from '../app.ts';
import type { ApiDependencies } from '../dependencies.ts';
import { makeInThread } from '../low-priority-thread.ts';
import { makeSiteOf } from './serve.ts';

/** The thread that makes the documentation. The routes of its app are registered and serve nothing. */
await makeInThread<Settings>(async (settings) => {
  const deps: Partial<ApiDependencies> = {
    ...{ settings, plans: loadPlans(settings.PLATFORM_PLANS_FILE), readiness: [] },
    logger: pino({ level: 'silent' }),
  };
  const app = createApp(deps as ApiDependencies);
  await app.ready();
  return makeSiteOf(app, settings);
});
