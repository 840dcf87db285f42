import { findAccountView, listAccounts } from '../../../../db/accounts/account-list.ts';
import { findApiKeyView, listApiKeyViews } from '../../../../db/accounts/api-keys.ts';
import { listAuditEvents } from '../../../../db/accounts/audit-events.ts';
import { listNotifications } from '../../../../db/accounts/notifications.ts';
import { findOwningAccount } from '../../../../db/accounts/owning-accounts.ts';
import { findProjectView, listProjectViews } from '../../../../db/accounts/projects.ts';
import { listUsers } from '../../../../db/accounts/user-management.ts';
import { listBilledPeriods, readRunningPeriod } from '../../../../db/billing/billing-reports.ts';
import { findBudgetMessage, listBudgetMessages } from '../../../../db/billing/budget-messages.ts';
import { findBalanceChange, listBalanceChanges } from '../../../../db/billing/ledger.ts';
import { listPaymentIntents, readPaymentIntent } from '../../../../db/billing/payment-intents.ts';
import { listSubscriptionChanges } from '../../../../db/billing/plan-changes.ts';
import { loadPlans } from '../../../../db/billing/plans.ts';
import { newEvent } from '../../../../db/core/events.ts';
import { listDeadEntries } from '../../../../db/core/outbox.ts';
import { replaceRow } from '../../../../db/core/replace-row.ts';
import type { Scope } from '../../../../db/core/scope.ts';
import { endLease, renewLease } from '../../../../db/hosts/hosts.ts';
import { insertAdmitted } from '../../../../db/sandboxes/admission.ts';
import { Sandbox } from '../../../../db/sandboxes/sandbox.entity.ts';
import { listSandboxEvents } from '../../../../db/sandboxes/sandbox-events.ts';
import { findSandboxView, listSandboxViews, type SandboxFilter } from '../../../../db/sandboxes/sandbox-reads.ts';
import { listImportJobs } from '../../../../db/templates/import-jobs.ts';
import { findTemplateView, listTemplateViews } from '../../../../db/templates/templates.ts';
import {
  dropOldMetricsPartitions,
  dropOldWebhookPartitions,
  makeMetricsPartitions,
  makeWebhookPartitions,
} from '../../../../db/upkeep/maintenance.ts';
import { readPlatformFigures } from '../../../../db/upkeep/platform-figures.ts';
import {
  purgeEndedSandboxes,
  purgeEvents,
  purgeNotifications,
  purgeReplies,
  purgeSignIns,
} from '../../../../db/upkeep/retention.ts';
import { resealAll } from '../../../../db/upkeep/secret-keys.ts';
import { listAllocations } from '../../../../db/usage/quota-allocations.ts';
import { listQuotaRequests } from '../../../../db/usage/quota-requests.ts';
import { readMetrics } from '../../../../db/usage/sandbox-metrics.ts';
import { listUsageEvents } from '../../../../db/usage/usage-event-lists.ts';
import { recordUsage, usageStatements } from '../../../../db/usage/usage-events.ts';
import { readCosts, readUsageByDay, readUsageGroups, readUsageTotals } from '../../../../db/usage/usage-reports.ts';
import { countSessions, listSessions, readSandboxUsage, sessionsByDay } from '../../../../db/usage/usage-sessions.ts';
import { sumUsage } from '../../../../db/usage/usage-sums.ts';
import { findWebhookEndpoint, listWebhookEndpoints } from '../../../../db/webhooks/webhook-endpoints.ts';
import { idPrefixes } from '../../../../domain/ids.ts';
import { deriveSecrets } from '../../../../platform/config/secrets.ts';
import type { DryRun } from './dry-run.ts';

const accountId = 'acc-a';
const userId = 'usr-a';
const projectId = 'prj-a';
const scopes: Scope[] = [{ rows: 'user', accountId, userId }, { rows: 'account', accountId }, { rows: 'everything' }];
const [scope] = scopes as [Scope];
const account: Scope = { rows: 'account', accountId };
const listing = { sortBy: 'created_at', sortOrder: 'desc', limit: 10, offset: 0, after: null } as const;
/** The first page of a list, and a following one. */
const listings = [listing, { ...listing, after: { value: '2026-01-02 03:04:05+00', key: ['a'] } }];
const at = new Date('2026-01-02T03:04:05Z');
/** With parts of hours at both ends, whole hours and whole days. */
const window = { start: new Date('2026-01-01T22:10:00Z'), end: new Date('2026-01-05T01:10:00Z') };
const kept = {
  ...{ eventsDays: 1, notificationsDays: 1, endedSandboxesDays: 1, webhookDeliveriesDays: 1, rowsPerAccount: 1 },
};
const metered = {
  ...{ sandboxId: 'sbx-a', accountId, ownerUserId: userId, projectId, name: 'a', metadata: {} },
  ...{ cpuCount: 1, memoryMb: 1, storageGb: 1, phaseKind: 'running', meteredUntil: window.start },
} as Partial<Sandbox> as Sandbox;

const admitted = {
  ...{ sandboxId: 'sbx-a', accountId, ownerUserId: userId, projectId, templateId: 'tpl-a', status: 'created' },
  ...{ reason: 'user_requested', hostId: 'a', region: 'a', timeoutSeconds: 1, autoPause: false, persistenceDays: 1 },
  ...{ objectStorage: [], eventSequence: 0, nearestRegions: ['a'], metadata: {} },
} as Partial<Sandbox> as Sandbox;

/** DDL, with names that are quoted when it runs. */
export const unchecked = ['db/runtime-role.ts'];

const [plan] = loadPlans().all;
/** Values that functions need before they send a further statement. */
export const madeUp = { plan, opening_plan: plan, usage_type: 'cpu_seconds', currency: plan!.currency };

/** Sends every statement whose text is not constant: with each filter of a list, and with each branch of a text. */
export async function send(dry: DryRun): Promise<void> {
  await sendLists(dry);
  await sendUsage(dry);
  await sendUpkeep(dry);
  await dry.run(() => renewLease(dry.send, { ...host, bandwidthMbps: 1 }, { seconds: 1, offers: true }));
  await dry.run(() => endLease(dry.send, 'a', 1));
  for (const kind of Object.values(idPrefixes)) await dry.run((em) => findOwningAccount(em, `${kind}-a`));
  for (const kind of ['pm', 'pi']) await dry.run((em) => findOwningAccount(em, `${kind}_a`));
}

const host = { hostId: 'a', region: 'a', regionName: 'a', cpuCapacity: 1, memoryMbCapacity: 1, diskGbCapacity: 1 };

async function sendLists(dry: DryRun): Promise<void> {
  const audited = { from: at, to: at, actorUserId: userId, objectId: 'a', action: 'a' } as const;
  const sandboxes: SandboxFilter = {
    ...{ statuses: ['running'], projectId, ownerUserId: userId, search: 'a', metadata: [{}] },
    ...{ template: 'a', startedAfter: at },
  };
  const templates = { status: 'available', visibility: 'public', name: 'a', usable: true } as const;
  for (const page of listings) {
    await dry.run((em) => listApiKeyViews(em, scope, { userId, isActive: true, search: 'a' }, page));
    await dry.run((em) => listAuditEvents(em, scope, audited, page));
    await dry.run((em) => listAccounts(em, { search: 'a', status: 'active' }, page));
    await dry.run((em) =>
      listDeadEntries(em, { ...page, after: page.after && { value: page.after.value, key: ['1'] } }),
    );
    await dry.run((em) => listNotifications(em, scope, { isRead: true, type: 'a' }, page));
    await dry.run((em) => listProjectViews(em, scope, { ownerUserId: userId }, page));
    await dry.run((em) => listUsers(em, scope, { status: 'enabled' }, page));
    await dry.run((em) => listBudgetMessages(em, account, page));
    await dry.run((em) => listBalanceChanges(em, account, page));
    await dry.run((em) => listPaymentIntents(em, account, 'a', page));
    await dry.run((em) => listSubscriptionChanges(em, account, page));
    await dry.run((em) => listSandboxViews(em, scope, sandboxes, page));
    await dry.run((em) => listSandboxEvents(em, 'sbx-a', page));
    await dry.run((em) => listImportJobs(em, scope, { status: 'ongoing', templateId: 'tpl-a' }, page));
    await dry.run((em) => listImportJobs(em, scope, { status: 'completed' }, page));
    for (const each of scopes) await dry.run((em) => listTemplateViews(em, each, templates, page));
    await dry.run((em) => listAllocations(em, scope, false, page));
    await dry.run((em) => listQuotaRequests(em, scope, 'pending', page));
    await dry.run((em) => listWebhookEndpoints(em, scope, page));
  }
  for (const value of ['2026-01-02 03:04:05+00', null]) {
    const page = { ...listing, after: { value, key: ['a'] } };
    await dry.run((em) => listSandboxViews(em, scope, sandboxes, { ...page, sortBy: 'started_at' }));
    await dry.run((em) => listApiKeyViews(em, scope, {}, { ...page, sortBy: 'last_used_at', sortOrder: 'asc' }));
  }
  await dry.run((em) => findAccountView(em, accountId));
  await dry.run((em) => findApiKeyView(em, scope, 'key-a'));
  await dry.run((em) => findProjectView(em, scope, projectId));
  await dry.run((em) => listBilledPeriods(em, accountId, at));
  await dry.run((em) => readRunningPeriod(em, accountId, at));
  await dry.run((em) => findBudgetMessage(em, 'a'));
  await dry.run((em) => findBalanceChange(em, 'a'));
  await dry.run((em) => readPaymentIntent(em, account, 'a'));
  await dry.run((em) => findSandboxView(em, scope, 'sbx-a'));
  await dry.run((em) => findTemplateView(em, scope, 'tpl-a'));
  await dry.run((em) => findWebhookEndpoint(em, scope, 'whk-a'));
}

async function sendUsage(dry: DryRun): Promise<void> {
  for (const each of scopes) {
    const of = { scope: each, projectId } as const;
    await dry.run((em) => readUsageTotals(em, of, window, at));
    await dry.run((em) => readUsageGroups(em, of, window, { column: 'project_id' }, at));
    await dry.run((em) => readUsageGroups(em, of, window, { column: 'user_id' }, at));
    await dry.run((em) => readUsageGroups(em, of, window, { metadataKey: 'a' }, at));
    await dry.run((em) => readUsageByDay(em, of, window, at));
    await dry.run((em) => readCosts(em, of, window, at));
    await dry.run((em) => sumUsage(em, of, window, at));
    await dry.run((em) => countSessions(em, of, window, at));
    await dry.run((em) => sessionsByDay(em, of, window));
    const following = { value: '2026-01-02 03:04:05+00', key: ['a', 'a', '2026-01-02 03:04:05+00'] };
    for (const page of listings) await dry.run((em) => listSessions(em, of, window, page, at));
    for (const after of [null, following]) {
      await dry.run((em) => listUsageEvents(em, of, {}, window, { ...listing, after }));
    }
  }
  await dry.run((em) => readSandboxUsage(em, 'sbx-a', at));
  // Steps of samples, of minutes and of quarters of an hour.
  for (const stepSeconds of [5, 60, 900]) {
    await dry.run((em) => readMetrics(em, 'sbx-a', { ...window, stepSeconds }, new Date('2026-01-06T00:00:00Z')));
  }
  await dry.run((em) => recordUsage(em, { ...metered }, at));
  const changed = { before: metered, after: { ...metered, name: 'b' }, version: '1' };
  const event = newEvent({ objectId: 'sbx-a', accountId, userId }, 1, 'sandbox.paused', {}, at);
  for (const meteredUntil of [window.start, null]) {
    const usage = usageStatements({ ...metered, meteredUntil }, at, ', changed');
    await dry.run((em) => replaceRow(em, Sandbox, changed, [event, event], usage));
  }
  await dry.run((em) => insertAdmitted(em, admitted, { requestId: 'a' }));
}

async function sendUpkeep(dry: DryRun): Promise<void> {
  await dry.run(makeMetricsPartitions);
  await dry.run(dropOldMetricsPartitions);
  await dry.run(makeWebhookPartitions);
  await dry.run((em) => dropOldWebhookPartitions(em, 1));
  await dry.run(readPlatformFigures);
  await dry.run((em) => purgeEvents(em, kept));
  await dry.run((em) => purgeNotifications(em, kept));
  await dry.run((em) => purgeEndedSandboxes(em, kept));
  await dry.run((em) => purgeReplies(em, kept));
  await dry.run((em) => purgeSignIns(em));
  const secrets = deriveSecrets({ PLATFORM_SECRET_KEY: Buffer.alloc(32).toString('base64') });
  await dry.run((em) => resealAll(em, secrets));
}
