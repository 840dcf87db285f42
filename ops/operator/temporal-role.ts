import { Client } from 'pg';

/**
 * Gives Temporal its own role and databases in a Postgres of the operator, for `docker-compose.yml`: a role that owns only
 * those two databases and is no superuser. Can run again; then it only sets the password. Databases that an earlier
 * version made as the superuser get the new owner.
 */
const { DATABASE_OWNER_URL: ownerUrl, TEMPORAL_DATABASE_PASSWORD: password } = process.env;
if (!ownerUrl || !password) {
  process.stderr.write('POSTGRES_PASSWORD and POSTGRES_TEMPORAL_PASSWORD must be set in .env\n');
  process.exit(1);
}
const role = 'temporal';

async function onDatabase<Result>(name: string, work: (client: Client) => Promise<Result>): Promise<Result> {
  const url = new URL(ownerUrl!);
  url.pathname = name;
  const client = new Client({ connectionString: url.href });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

await onDatabase('postgres', async (client) => {
  const found = await client.query('select from pg_roles where rolname = $1', [role]);
  if (found.rowCount === 0) await client.query(`create role ${role} login`);
  await client.query(
    `alter role ${role} nosuperuser nocreatedb nocreaterole password ${client.escapeLiteral(password)}`,
  );
  for (const name of ['temporal', 'temporal_visibility']) {
    const database = await client.query('select from pg_database where datname = $1', [name]);
    if (database.rowCount === 0) await client.query(`create database ${name} owner ${role}`);
    await client.query(`alter database ${name} owner to ${role}`);
    await onDatabase(name, giveObjects);
  }
});

/** `reassign owned` refuses the first superuser of a cluster, who owns the system's objects too. */
async function giveObjects(client: Client): Promise<void> {
  await client.query(`do $$
    declare each record;
    begin
      for each in select c.oid::regclass::text as name from pg_class c
        where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and c.relowner <> '${role}'::regrole
      loop execute format('alter table %s owner to ${role}', each.name); end loop;
      for each in select p.oid::regprocedure::text as name from pg_proc p
        where p.pronamespace = 'public'::regnamespace and p.proowner <> '${role}'::regrole
          and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')
      loop execute format('alter routine %s owner to ${role}', each.name); end loop;
    end $$`);
}
