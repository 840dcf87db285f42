import { Client } from 'pg';

/**
 * Gives Temporal its own role and databases in a Postgres of the operator, for `docker-compose.yml`: a role that owns only
 * those two databases and is no superuser. Can run again; then it only sets the password.
 */
const { DATABASE_OWNER_URL: ownerUrl, TEMPORAL_DATABASE_PASSWORD: password } = process.env;
if (!ownerUrl || !password) {
  process.stderr.write('POSTGRES_PASSWORD and POSTGRES_TEMPORAL_PASSWORD must be set in .env\n');
  process.exit(1);
}
const role = 'temporal';

const url = new URL(ownerUrl);
url.pathname = 'postgres';
const client = new Client({ connectionString: url.href });
await client.connect();
try {
  const found = await client.query('select from pg_roles where rolname = $1', [role]);
  if (found.rowCount === 0) await client.query(`create role ${role} login`);
  await client.query(
    `alter role ${role} nosuperuser nocreatedb nocreaterole password ${client.escapeLiteral(password)}`,
  );
  for (const name of ['temporal', 'temporal_visibility']) {
    const database = await client.query('select from pg_database where datname = $1', [name]);
    if (database.rowCount === 0) await client.query(`create database ${name} owner ${role}`);
  }
} finally {
  await client.end();
}
