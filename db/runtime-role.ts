import { query } from './core/query.ts';
import type { Orm } from './orm.ts';

/** Tables that the runtime role may only add to and read. */
const appendOnly = [
  ...['audit_events', 'ledger_transactions', 'ledger_entries', 'usage_events', 'subscription_changes'],
  'last_hop_revocations',
];
/** Tables that only migrations change. */
const readOnly = ['platform_migrations'];

/**
 * Grants the role of `runtimeUrl` its rights on the tables of the owner, as whom `owner` is connected: everything
 * except changing their shape, and changing or removing audit events, usage events and the ledger. Makes the role if it
 * is missing and the owner may. Does nothing if both are the same role.
 * @throws {Error} with instructions for the operator when the role is missing and cannot be made
 */
export async function grantRuntimeRole(owner: Orm, runtimeUrl: string): Promise<void> {
  const { username, password } = new URL(runtimeUrl);
  const name = decodeURIComponent(username);
  await owner.em.fork().transactional(async (tx) => {
    const [found] = await query<{
      is_owner: boolean;
      is_there: boolean;
      may_create: boolean | null;
      role: string;
      password: string;
      schema: string;
    }>(
      tx,
      `select current_user = ? as is_owner, exists (select from pg_roles where rolname = ?) as is_there,
              (select rolcreaterole or rolsuper from pg_roles where rolname = current_user) as may_create,
              quote_ident(?) as role, quote_literal(?) as password, quote_ident(current_schema()) as schema`,
      [name, name, name, decodeURIComponent(password)],
    );
    const { role, schema } = found!;
    if (found!.is_owner) return;
    if (!found!.is_there) {
      if (!found!.may_create) {
        throw new Error(
          `The role ${name} of DATABASE_URL is not there; as a superuser: create role ${role} login password …`,
        );
      }
      if (!password) throw new Error(`DATABASE_URL has no password for its role ${name}, which is to be made`);
      await query(tx, `create role ${role} login password ${found!.password}`);
    }
    await query(
      tx,
      `
      grant usage on schema ${schema} to ${role};
      grant select, insert, update, delete on all tables in schema ${schema} to ${role};
      grant usage on all sequences in schema ${schema} to ${role};
      revoke update, delete on ${appendOnly.join(', ')} from ${role};
      revoke insert, update, delete on ${readOnly.join(', ')} from ${role}`,
    );
  });
}
