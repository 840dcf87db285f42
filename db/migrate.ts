import { loadSettings } from '../config/settings.ts';
import { bootstrap } from './bootstrap.ts';
import { createOrm } from './orm.ts';
import { loadPlans } from './plans.ts';
import { grantRuntimeRole } from './runtime-role.ts';

/**
 * Brings the schema up to date, lets the runtime role use it, and makes the first account. Run before the processes start; safe to run again.
 * Prints one JSON line: `{"created": true, "apiKey": …, "email": …}` the first time, `{"created": false}` after it.
 */
const settings = loadSettings();
loadPlans(settings.PLATFORM_PLANS_FILE).get(settings.PLATFORM_ROOT_PLAN);
const orm = await createOrm(settings.DATABASE_OWNER_URL ?? settings.DATABASE_URL, 2, null);
try {
  await orm.migrator.up();
  await grantRuntimeRole(orm, settings.DATABASE_URL);
  const made = await bootstrap(orm, {
    email: settings.PLATFORM_ROOT_EMAIL,
    planName: settings.PLATFORM_ROOT_PLAN,
    baseImage: settings.PLATFORM_BASE_IMAGE ?? 'builtin:base',
  });
  const report = made
    ? { created: true, apiKey: made.apiKey, email: settings.PLATFORM_ROOT_EMAIL }
    : { created: false };
  process.stdout.write(`${JSON.stringify(report)}\n`);
} finally {
  await orm.close();
}
