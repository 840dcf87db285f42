import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { WorkflowNotFoundError } from '@temporalio/client';
import { Project } from '../../../db/accounts/project.entity.ts';
import { User } from '../../../db/accounts/user.entity.ts';
import { Sandbox } from '../../../db/sandboxes/sandbox.entity.ts';
import { Template } from '../../../db/templates/template.entity.ts';
import { workflowKinds } from '../../../domain/workflow-registry.ts';
import { startOptions } from '../../../platform/temporal/workflow-starts.ts';
import { progressQuery } from '../../../workflows/accounts/user-deletion.ts';
import { type Caller, startApi, type TestApi } from '../../api/test-api.ts';
import { type ControlPlane, startControlPlane } from '../../support/control-plane.ts';
import { MailServer, tokenIn } from '../../support/mail-server.ts';
import { MemoryDriver } from '../../support/memory-driver.ts';
import { recordHistory } from '../../support/recorded-histories.ts';
import { until } from '../../support/until.ts';

/** The lives of users: through the API, by workflows on a real Temporal, with mails on a real SMTP server. */
const users = '/v1/user-management/users';
const driver = new MemoryDriver();
let mails: MailServer;
let plane: ControlPlane;
let api: TestApi;

beforeAll(async () => {
  mails = await MailServer.start();
  const env = { SMTP_URL: mails.url, PLATFORM_MAIL_FROM: 'no-reply@platform.test' };
  plane = await startControlPlane({ driver, planName: 'pro', env });
  api = await startApi({
    env: { ...env, PLATFORM_RATE_LIMIT_PER_ADDRESS: '0' },
    on: { orm: plane.orm, account: plane.account, commands: plane.commands },
  });
}, 120_000);
afterAll(async () => {
  await api?.stop();
  await plane?.stop();
  await mails?.stop();
});

test('a new user is invited by a mail, sets a password with its link, and signs in', async () => {
  const wanted = { email: 'grace@example.com', username: 'grace', display_name: 'Grace', role: 'user' };
  const { body } = await api.send(api.root, 'POST', users, wanted);
  const { user_id: userId } = body.data.user;
  const mail = await mails.take(wanted.email);
  expect([mail.subject, mail.text]).toEqual(['Your account is ready', expect.stringContaining('Hello Grace')]);
  expect(mail.text).toContain('You sign in as grace@example.com.');
  const workflowId = workflowKinds.userInvitation.workflowId(userId);
  await plane.client.workflow.getHandle(workflowId).result();
  if (process.env.RECORD_HISTORIES === '1') await recordHistory(plane.client, 'user-invitation', workflowId);

  const password = 'korrekt pferd batterie';
  const finished = await api.send(null, 'POST', '/v1/auth/reset-password', {
    token: tokenIn(mail),
    new_password: password,
  });
  expect(finished.status).toBe(200);
  const signedIn = await api.send(null, 'POST', '/v1/auth/sign-in', { email: wanted.email, password });
  expect(signedIn.status).toBe(200);
  const { data } = (await api.send(api.root, 'GET', `${users}/${userId}`)).body;
  expect(data).toMatchObject({ email_verified: true, last_login: expect.any(String) });
});

describe('the deletion of a user', () => {
  const getDeletion = ({ userId }: Caller) =>
    plane.client.workflow.getHandle(workflowKinds.userDeletion.workflowId(userId));
  const waitForEnd = async (user: Caller) => {
    await until(async () => (await plane.orm.em.fork().count(User, { userId: user.userId })) === 0, 60_000);
    await getDeletion(user).result();
  };
  /** Null: it has not begun. */
  const queryProgress = (user: Caller) =>
    getDeletion(user)
      .query(progressQuery)
      .catch((error) => {
        if (error instanceof WorkflowNotFoundError) return null;
        throw error;
      });
  const remove = ({ userId }: Caller, by = api.root) => api.send(by, 'DELETE', `${users}/${userId}`);
  const make = async (by: Caller, path: string, body: object) => (await api.send(by, 'POST', path, body)).body.data;

  test('ends, hands over and removes their objects', async () => {
    const user = await api.addUser(api.root);
    const em = plane.orm.em.fork();
    const { username } = await em.findOneOrFail(User, { userId: user.userId });
    const [full, taken, gone] = [
      await make(user, '/v1/projects', { name: 'Full' }),
      await make(user, '/v1/projects', { name: 'Taken' }),
      await make(user, '/v1/projects', { name: 'Gone' }),
    ];
    await make(user, '/v1/projects', { name: 'Empty' });
    await make(api.root, '/v1/projects', { name: `taken (${username})` });
    const running = await make(user, '/v1/sandboxes', { project_id: full.project_id });
    const paused = await make(user, '/v1/sandboxes', { project_id: taken.project_id });
    await api.send(user, 'POST', `/v1/sandboxes/${paused.sandbox_id}/pause`, {});
    const deleted = await make(user, '/v1/sandboxes', { project_id: gone.project_id });
    await api.send(user, 'DELETE', `/v1/sandboxes/${deleted.sandbox_id}`);
    await until(async () => (await plane.row(deleted.sandbox_id)).deletedAt != null);
    const template = (visibility: 'private' | 'account_shared') =>
      api.addTemplate({ accountId: user.accountId, ownerUserId: user.userId, visibility });
    const [own, shared] = [await template('private'), await template('account_shared')];
    await make(user, '/v1/webhooks', { url: 'https://example.com/', event_types: ['sandbox.created'] });
    await make(user, '/v1/usage/quota-requests', { cpu_seconds_monthly: 1, template_storage_gb: 1, reason: 'more' });
    await make(api.root, '/v1/user-management/quota-allocations', { user_id: user.userId, concurrent_sandboxes: 5 });

    const { accountId, userId } = user;
    const options = startOptions('passwordReset', userId, { accountId, userId });
    const reset = await plane.client.workflow.start('passwordReset', options);
    const { status, body } = await remove(user);
    // The default project and `Empty`. `Gone` has nothing that a user can see.
    expect([status, body.data]).toEqual([
      202,
      {
        message: expect.stringMatching(/./),
        deletion_status: 'in_progress',
        deleted_empty_projects: 3,
        note: expect.stringMatching(/./),
      },
    ]);
    await waitForEnd(user);
    // Their link is void, so its workflow ends before the link expires.
    await reset.result();
    expect(await getDeletion(user).query(progressQuery)).toEqual({
      status: 'completed',
      step: 'done',
      sandboxesLeft: 0,
    });
    if (process.env.RECORD_HISTORIES === '1') {
      await recordHistory(plane.client, 'user-deletion', workflowKinds.userDeletion.workflowId(user.userId));
    }

    expect((await api.send(api.root, 'GET', `${users}/${user.userId}`)).body.code).toBe('not_found');
    expect((await remove(user)).body.code).toBe('not_found');
    expect((await api.send(user, 'GET', '/v1/users/me')).status).toBe(401);
    const rows = await em.find(Sandbox, {
      sandboxId: { $in: [running, paused, deleted].map((each) => each.sandbox_id) },
    });
    for (const { ownerUserId, status } of rows) expect([ownerUserId, status]).toEqual([api.root.userId, 'terminated']);
    expect(driver.states.size).toBe(0);
    const names = (await em.find(Project, { ownerUserId: api.root.userId }, { orderBy: { name: 'asc' } })).map(
      ({ name, isDefault }) => [name, isDefault],
    );
    expect(names).toEqual([
      ['Default', true],
      [`Full (${username})`, false],
      [expect.stringMatching(/^Taken \(\w{20}\)$/), false],
      [`taken (${username})`, false],
    ]);
    expect(await em.findOne(Template, { templateId: own })).toBeNull();
    expect((await em.findOneOrFail(Template, { templateId: shared })).ownerUserId).toBe(api.root.userId);
    const events = await em.execute(
      "select object_id, data->>'sequence' as sequence from events where type = 'template.deleted'",
    );
    expect(events).toEqual([{ object_id: own, sequence: '1' }]);
    const tables = ['users', 'api_keys', 'quota_allocations', 'quota_requests', 'sessions', 'projects'];
    for (const table of [...tables, 'webhook_endpoints']) {
      const owner = table === 'projects' ? 'owner_user_id' : 'user_id';
      expect([table, await em.execute(`select 1 from ${table} where ${owner} = ?`, [user.userId])]).toEqual([
        table,
        [],
      ]);
    }
    // The e-mail can be used again.
    const { email } = { email: `${username}@example.com` };
    expect((await api.send(api.root, 'POST', users, { email, username, role: 'user' })).status).toBe(201);
  });

  test('waits for a sandbox that does not end; meanwhile the user is disabled and cannot be changed', async () => {
    const user = await api.addUser(api.root);
    const { sandbox_id: sandboxId } = await make(user, '/v1/sandboxes', {});
    await plane.commands.terminate(await plane.row(sandboxId), { forget: false });
    await plane.client.workflow.getHandle(sandboxId).result();
    const setStatus = (status: 'paused' | 'terminated') =>
      plane.orm.em.fork().nativeUpdate(Sandbox, { sandboxId }, { status });
    await setStatus('paused');
    expect((await remove(user)).body.data.deleted_empty_projects).toBe(0);
    const again = await remove(user);
    expect([again.status, again.body.data.deleted_empty_projects]).toEqual([202, 0]);
    const waiting = { status: 'in_progress', step: 'ending_sandboxes', sandboxesLeft: 1 };
    await until(async () => (await queryProgress(user))?.sandboxesLeft === 1);
    expect(await queryProgress(user)).toEqual(waiting);
    const listed = (await api.send(api.root, 'GET', `${users}/${user.userId}`)).body.data;
    expect(listed.status).toBe('disabled');
    const enabled = await api.send(api.root, 'PUT', `${users}/${user.userId}`, { status: 'enabled' });
    expect([enabled.status, enabled.body.code]).toEqual([409, 'user_being_deleted']);
    await setStatus('terminated');
    await waitForEnd(user);
    expect((await plane.row(sandboxId)).ownerUserId).toBe(api.root.userId);
  });

  test('users cannot delete themselves or the last root user, and do not find users of other accounts', async () => {
    const [other, stranger] = [await api.addAccount(), await api.addAccount()];
    const codes = [];
    for (const [target, by] of [
      [api.root, api.root],
      [other, other],
      [other, stranger],
    ] as const) {
      codes.push((await remove(target, by)).body.code);
    }
    expect(codes).toEqual(['own_deletion', 'own_deletion', 'not_found']);
    const second = await api.addUser(other);
    await plane.orm.em.fork().nativeUpdate(User, { userId: second.userId }, { isRootUser: true });
    const both = await Promise.all([remove(other, second), remove(second, other)]);
    expect(both.filter(({ status }) => status === 202)).toHaveLength(1);
  });
});

describe("a change of the account's e-mail", () => {
  const url = '/v1/user-management/account';
  const request = (by: Caller, current: string, next: string) =>
    api.send(by, 'POST', `${url}/email-change-request`, { current_email: current, new_email: next });
  const confirm = (token: string) => api.send(null, 'POST', `${url}/confirm-email-change`, { token });
  const clear = (by: Caller) => api.send(by, 'POST', `${url}/clear-email-change-requests`);
  const readStatus = async (by: Caller) => (await api.send(by, 'GET', `${url}/email-change-status`)).body.data;
  const readProfile = async (by: Caller) => (await api.send(by, 'GET', '/v1/users/me')).body.data;
  const getWorkflow = ({ accountId }: Caller) =>
    plane.client.workflow.getHandle(workflowKinds.emailChange.workflowId(accountId));
  let count = 0;
  const newEmail = () => `moved-${++count}@example.com`;

  async function newAccount() {
    const root = await api.addAccount();
    return { root, member: await api.addUser(root), email: (await readProfile(root)).account.email as string };
  }

  async function takeTokens(current: string, next: string) {
    const [old, fresh] = [await mails.take(current), await mails.take(next)];
    for (const mail of [old, fresh]) expect(mail.text).toContain(`from ${current} to ${next}`);
    expect(old.text).toContain('http://platform.test/console/confirm-email-change?token=');
    return { current: tokenIn(old), new: tokenIn(fresh) };
  }

  test.each([
    ['current', 'new'],
    ['new', 'current'],
  ] as const)('takes effect for all its users when %s and %s have confirmed', async (first, second) => {
    const { root, member, email } = await newAccount();
    const next = newEmail();
    expect(await readStatus(member)).toEqual({ has_pending_request: false, status: 'none_confirmed' });
    expect((await request(root, email.toUpperCase(), next)).status).toBe(200);
    expect(await readStatus(member)).toEqual({ has_pending_request: true, status: 'none_confirmed' });
    const tokens = await takeTokens(email, next);
    const pending = second === 'new' ? next : email;
    expect((await confirm(tokens[first])).body.data).toEqual({ status: 'pending', pending_email: pending });
    const twice = await confirm(tokens[first]);
    expect([twice.status, twice.body.code]).toEqual([400, 'invalid_link']);
    expect(await readStatus(member)).toEqual({ has_pending_request: true, status: 'partial_confirmed' });
    expect((await readProfile(member)).account.email).toBe(email);
    expect((await confirm(tokens[second])).body.data).toEqual({ status: 'completed' });
    expect(await readStatus(member)).toEqual({ has_pending_request: false, status: 'both_confirmed' });
    expect((await readProfile(member)).account).toMatchObject({ email: next, is_verified: true });
    expect(await readProfile(root)).toMatchObject({ email: next, email_verified: true });
    await getWorkflow(root).result();
    if (process.env.RECORD_HISTORIES === '1' && first === 'current') {
      await recordHistory(plane.client, 'email-change', workflowKinds.emailChange.workflowId(root.accountId));
    }
    const again = await request(root, next, newEmail());
    expect([again.status, again.body.code, again.body.data]).toEqual([
      429,
      'email_change_pending',
      { time_remaining_minutes: 30 },
    ]);
    await plane.orm.em
      .fork()
      .execute("update email_changes set created_at = created_at - interval '31 minutes', ended_at = null");
    expect((await request(root, next, newEmail())).status).toBe(200);
  });

  test('both confirmations at once change it once', async () => {
    const { root, email } = await newAccount();
    const next = newEmail();
    await request(root, email, next);
    const tokens = await takeTokens(email, next);
    const replies = await Promise.all([tokens.current, tokens.new, tokens.current, tokens.new].map(confirm));
    expect(replies.map(({ status }) => status).sort()).toEqual([200, 200, 400, 400]);
    expect(replies.flatMap(({ body }) => body.data?.status ?? []).sort()).toEqual(['completed', 'pending']);
  });

  test('a cleared change is void, and does not shorten the wait; a user clears nothing of the root', async () => {
    const { root, member, email } = await newAccount();
    const next = newEmail();
    await request(root, email, next);
    const tokens = await takeTokens(email, next);
    expect((await clear(member)).body.message).toBe('There was no pending change');
    expect((await clear(root)).body.message).toBe('The pending change is cancelled');
    await getWorkflow(root).result();
    for (const token of Object.values(tokens)) expect((await confirm(token)).body.code).toBe('invalid_link');
    expect(await readStatus(root)).toEqual({ has_pending_request: false, status: 'none_confirmed' });
    expect((await request(root, email, next)).status).toBe(429);
  });

  test('a change that an operator cancels in the Temporal Web UI is void', async () => {
    const { root, email } = await newAccount();
    const next = newEmail();
    await request(root, email, next);
    const tokens = await takeTokens(email, next);
    await getWorkflow(root).cancel();
    await getWorkflow(root).result();
    for (const token of Object.values(tokens)) expect((await confirm(token)).body.code).toBe('invalid_link');
    expect(await readStatus(root)).toEqual({ has_pending_request: false, status: 'none_confirmed' });
    if (process.env.RECORD_HISTORIES !== '1') return;
    await recordHistory(plane.client, 'email-change-cancelled', workflowKinds.emailChange.workflowId(root.accountId));
  });

  test('bad requests are refused, and nothing is begun', async () => {
    const { root, member, email } = await newAccount();
    const other = await newAccount();
    const cases = [
      [root, 'wrong@example.com', newEmail(), 400, 'email_mismatch'],
      [root, email, email.toUpperCase(), 400, 'email_not_changed'],
      [root, email, other.email.toUpperCase(), 409, 'email_taken'],
      [root, email, 'nobody', 400, 'validation_failed'],
      [root, email, 'аda@example.com', 400, 'validation_failed'],
      [root, email, 'a@example.com\r\nBcc: b@example.com', 400, 'validation_failed'],
      [member, email, newEmail(), 403, 'root_required'],
    ] as const;
    for (const [by, current, next, status, code] of cases) {
      const reply = await request(by, current, next);
      expect([next, reply.status, reply.body.code]).toEqual([next, status, code]);
    }
    expect(await readStatus(root)).toEqual({ has_pending_request: false, status: 'none_confirmed' });
  });

  test('an e-mail that another user took in the meantime is refused, and both can still confirm', async () => {
    const { root, email } = await newAccount();
    const next = newEmail();
    await request(root, email, next);
    const tokens = await takeTokens(email, next);
    await confirm(tokens.current);
    const { user } = (await api.send(api.root, 'POST', users, { email: next, username: `u-${count}`, role: 'user' }))
      .body.data;
    const refused = await confirm(tokens.new);
    expect([refused.status, refused.body.code]).toEqual([409, 'email_taken']);
    expect((await readProfile(root)).account.email).toBe(email);
    await api.send(api.root, 'DELETE', `${users}/${user.user_id}`);
    await until(async () => (await plane.orm.em.fork().count(User, { userId: user.user_id })) === 0);
    expect((await confirm(tokens.new)).body.data).toEqual({ status: 'completed' });
  });

  test('name and description of the account', async () => {
    const { root, member } = await newAccount();
    const fields = { display_name: 'Engines', description: 'what we do' };
    const changed = await api.send(root, 'PUT', url, fields);
    expect([changed.body.data, changed.body.message]).toEqual([
      expect.objectContaining(fields),
      'The account is changed',
    ]);
    expect((await api.send(root, 'PUT', url, { display_name: '' })).body.data).toMatchObject(fields);
    expect((await readProfile(member)).account).toMatchObject(fields);
    expect((await api.send(root, 'PUT', url, { display_name: 'a\nb' })).body.code).toBe('invalid_name');
    expect((await api.send(member, 'PUT', url, fields)).body.code).toBe('root_required');
  });
});
