import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { WorkflowNotFoundError } from '@temporalio/client';
import { Project } from '../../db/entities/project.ts';
import { Sandbox } from '../../db/entities/sandbox.ts';
import { Template } from '../../db/entities/template.ts';
import { User } from '../../db/entities/user.ts';
import { workflowKinds } from '../../domain/workflow-registry.ts';
import { progressQuery } from '../../workflows/user-deletion.ts';
import { type Caller, startApi, type TestApi } from '../api/test-api.ts';
import { type ControlPlane, startControlPlane } from '../support/control-plane.ts';
import { MailServer, tokenIn } from '../support/mail-server.ts';
import { MemoryDriver } from '../support/memory-driver.ts';
import { recordHistory } from '../support/recorded-histories.ts';
import { until } from '../support/until.ts';

/** Users as they come and go: through the API, by workflows on a real Temporal, with mails on a real SMTP server. */
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
  const deletionOf = ({ userId }: Caller) =>
    plane.client.workflow.getHandle(workflowKinds.userDeletion.workflowId(userId));
  const endOf = async (user: Caller) => {
    await until(async () => (await plane.orm.em.fork().count(User, { userId: user.userId })) === 0, 60_000);
    await deletionOf(user).result();
  };
  /** Null: it has not begun. */
  const progressOf = (user: Caller) =>
    deletionOf(user)
      .query(progressQuery)
      .catch((error) => {
        if (error instanceof WorkflowNotFoundError) return null;
        throw error;
      });
  const remove = ({ userId }: Caller, by = api.root) => api.send(by, 'DELETE', `${users}/${userId}`);
  const make = async (by: Caller, path: string, body: object) => (await api.send(by, 'POST', path, body)).body.data;

  test('ends, hands over and removes what they have', async () => {
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
    await make(user, '/v1/usage/quota-requests', { cpu_seconds_monthly: 1, template_storage_gb: 1, reason: 'more' });
    await make(api.root, '/v1/user-management/quota-allocations', { user_id: user.userId, concurrent_sandboxes: 5 });

    const { status, body } = await remove(user);
    // The default project and `Empty`; `Gone` has nothing that anybody can see.
    expect([status, body.data]).toEqual([
      202,
      expect.objectContaining({ deletion_status: 'in_progress', deleted_empty_projects: 3 }),
    ]);
    await endOf(user);
    expect(await deletionOf(user).query(progressQuery)).toEqual({
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
    for (const table of ['users', 'api_keys', 'quota_allocations', 'quota_requests', 'sessions', 'projects']) {
      const owner = table === 'projects' ? 'owner_user_id' : 'user_id';
      expect([table, await em.execute(`select 1 from ${table} where ${owner} = ?`, [user.userId])]).toEqual([
        table,
        [],
      ]);
    }
    // The e-mail is free again.
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
    await until(async () => (await progressOf(user))?.sandboxesLeft === 1);
    expect(await progressOf(user)).toEqual(waiting);
    const listed = (await api.send(api.root, 'GET', `${users}/${user.userId}`)).body.data;
    expect(listed.status).toBe('disabled');
    const enabled = await api.send(api.root, 'PUT', `${users}/${user.userId}`, { status: 'enabled' });
    expect([enabled.status, enabled.body.code]).toEqual([409, 'user_being_deleted']);
    await setStatus('terminated');
    await endOf(user);
    expect((await plane.row(sandboxId)).ownerUserId).toBe(api.root.userId);
  });

  test('nobody deletes themselves or the last root user; a user of another account is not there', async () => {
    const other = await api.addAccount();
    const codes = [];
    for (const [target, by] of [
      [api.root, api.root],
      [other, other],
      [other, api.root],
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
