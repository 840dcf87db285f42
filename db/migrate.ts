import { isBilled } from '../platform/config/billing.ts';
import { loadSettings } from '../platform/config/settings.ts';
import { loadPlans } from './billing/plans.ts';
import { forgiveAll, startBillingOfAll } from './billing/subscriptions.ts';
import { bootstrap, bootstrapWithoutKey } from './bootstrap.ts';
import { createOrm } from './orm.ts';
import { grantRuntimeRole } from './runtime-role.ts';
import { readSecretKeys } from './upkeep/secret-keys.ts';

/**
 * Updates the schema, grants the runtime role its rights, and makes the first account. Run it before the processes
 * start. It may be repeated. It fails with a secret key that is not that of the database. Prints one JSON line: `{"created": true, "email": …}` the first time, `{"created": false}`
 * afterwards.
 *
 * The account has no API key, because a job's output is kept in a log. The operator makes a key with `create-api-key`.
 * With `--print-api-key` the account has a key and the line contains it (`"apiKey": …`), for callers that keep the
 * output secret.
 */
const printsKey = process.argv.includes('--print-api-key');
const settings = loadSettings();
const plans = loadPlans(settings.PLATFORM_PLANS_FILE);
plans.get(settings.PLATFORM_ROOT_PLAN);
const orm = await createOrm(settings.DATABASE_OWNER_URL ?? settings.DATABASE_URL, 2, null);
try {
  await orm.migrator.up();
  await grantRuntimeRole(orm, settings.DATABASE_URL);
  await readSecretKeys(orm.em.fork(), settings);
  const first = {
    email: settings.PLATFORM_ROOT_EMAIL,
    planName: settings.PLATFORM_ROOT_PLAN,
    baseImage: settings.PLATFORM_BASE_IMAGE ?? 'builtin:base',
  };
  const made = await (printsKey ? bootstrap : bootstrapWithoutKey)(orm, first, plans);
  await startBillingOfAll(orm.em);
  if (!isBilled(settings)) await forgiveAll(orm.em);
  const report = made
    ? { created: true, ...('apiKey' in made && { apiKey: made.apiKey }), email: settings.PLATFORM_ROOT_EMAIL }
    : { created: false };
  process.stdout.write(`${JSON.stringify(report)}\n`);
} finally {
  await orm.close();
}
