import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { checkImports } from '../../ops/development/check/imports.ts';

let root: string;

beforeEach(() => {
  root = fs.mkdtempSync(path.join(os.tmpdir(), 'import-rules-test-'));
});

afterEach(() => fs.rmSync(root, { recursive: true, force: true }));

function write(files: Record<string, string>): void {
  for (const [file, source] of Object.entries(files)) {
    fs.mkdirSync(path.dirname(path.join(root, file)), { recursive: true });
    fs.writeFileSync(path.join(root, file), source);
  }
}

const rules = {
  domain: { from: [], packages: ['decimal.js'] },
  db: { from: ['domain'] },
  workflows: { from: ['domain'], typesFrom: ['activities'] },
  activities: { from: ['db', 'domain'] },
};

test('imports in the right direction are accepted, and types may be imported where values may not', async () => {
  write({
    'domain/ids.ts': `import { Decimal } from 'decimal.js';\nexport const id = new Decimal(1);`,
    'db/rows.ts': `import { id } from '../domain/ids.ts';\nimport pg from 'pg';\nexport const row = [id, pg];`,
    'activities/life.ts': `export { row } from '../db/rows.ts';`,
    'workflows/life.ts': `import type { row } from '../activities/life.ts';\nexport type Row = typeof row;`,
  });
  expect(await checkImports(root, rules)).toEqual([]);
});

test('an import against the direction is reported in every syntax', async () => {
  write({
    'db/rows.ts': 'export const row = 1;',
    'activities/life.ts': 'export const life = 1;',
    'domain/static.ts': `import { row } from '../db/rows.ts';\nexport const a = row;`,
    'domain/type.ts': `import type { row } from '../db/rows.ts';\nexport type A = typeof row;`,
    'domain/again.ts': `export * from '../db/rows.ts';`,
    'domain/late.ts': `export const a = () => import('../db/rows.ts');`,
    'domain/package.ts': `import fs from 'node:fs';\nexport const a = fs;`,
    'workflows/life.ts': `import { life } from '../activities/life.ts';\nexport const a = life;`,
  });
  expect((await checkImports(root, rules)).sort()).toEqual([
    'domain/again.ts: may not import db/rows.ts',
    'domain/late.ts: may not import db/rows.ts',
    'domain/package.ts: may not import node:fs',
    'domain/static.ts: may not import db/rows.ts',
    'domain/type.ts: may not import db/rows.ts',
    'workflows/life.ts: may not import activities/life.ts',
  ]);
});

test('a cycle is reported once, also one of types alone', async () => {
  write({
    'db/a.ts': `import { b } from './b.ts';\nexport const a = () => b;`,
    'db/b.ts': `import { c } from './c.ts';\nexport const b = () => c;`,
    'db/c.ts': `import { a } from './a.ts';\nexport const c = () => a;`,
    'domain/x.ts': `import type { Y } from './y.ts';\nexport interface X { y: Y }`,
    'domain/y.ts': `import type { X } from './x.ts';\nexport interface Y { x: X }`,
  });
  expect((await checkImports(root, rules)).sort()).toEqual([
    'circle: db/a.ts → db/b.ts → db/c.ts → db/a.ts',
    'circle: domain/x.ts → domain/y.ts → domain/x.ts',
  ]);
});

test('a closed folder is imported only by the files that it is open to, even for types', async () => {
  write({
    'db/rows.ts': `import { driver } from './one/driver.ts';\nexport const row = driver;`,
    'db/choose.ts': `import { driver } from './one/driver.ts';\nexport const chosen = driver;`,
    'db/one/driver.ts': `import { part } from './part.ts';\nexport const driver = part;`,
    'db/one/part.ts': 'export const part = 1;',
    'activities/life.ts': `import type { driver } from '../db/one/driver.ts';\nexport type Life = typeof driver;`,
  });
  expect(await checkImports(root, rules, { 'db/one': ['db/choose.ts'] })).toEqual([
    'activities/life.ts: may not import db/one/driver.ts',
    'db/rows.ts: may not import db/one/driver.ts',
  ]);
});

test('a closed package is imported only by the folders that it is open to', async () => {
  write({
    'db/rows.ts': `import { Client } from 'pg';\nexport const row = Client;`,
    'activities/life.ts': `import { Client } from 'pg';\nexport const life = Client;`,
  });
  expect(await checkImports(root, rules, { pg: ['db'] })).toEqual(['activities/life.ts: may not import pg']);
});

test('a folder without a rule is reported', async () => {
  write({ 'elsewhere/a.ts': 'export const a = 1;' });
  expect(await checkImports(root, rules)).toEqual(['elsewhere/a.ts: no rule says what elsewhere/ may import']);
});
