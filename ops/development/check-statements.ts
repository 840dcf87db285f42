import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { Client } from 'pg';
import { createOrm } from '../../db/orm.ts';
import { freeLoopbackPort } from '../../platform/config/free-port.ts';
import { startPostgres } from '../local-stack/embedded/postgres.ts';
import { checkStatements } from './check/statements/check.ts';
import * as examples from './check/statements/examples.ts';
import { checkFunctions } from './check/statements/functions.ts';

/**
 * A part of `npm run check`: compares each SQL statement, and the functions of the schema, with a migrated database of
 * its own.
 */
const root = path.resolve(import.meta.dirname, '../..');
const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-platform-statements-'));
fs.chmodSync(dir, 0o711);
try {
  const postgres = await startPostgres({
    dir: path.join(dir, 'cluster'),
    home: { logDir: dir },
    port: await freeLoopbackPort(),
    password: 'statements',
    forgetful: true,
  });
  try {
    const databaseUrl = postgres.url('postgres');
    const orm = await createOrm(databaseUrl, 1, null);
    await orm.migrator.up();
    await orm.close();
    const findings = await checkStatements({ root, folders: ['db'], databaseUrl, examples });
    const client = new Client({ connectionString: databaseUrl });
    await client.connect();
    findings.push(...(await checkFunctions(client)));
    await client.end();
    for (const finding of findings) console.error(finding);
    if (findings.length > 0) process.exitCode = 1;
  } finally {
    await postgres.stop();
  }
} finally {
  fs.rmSync(dir, { recursive: true, force: true });
}
