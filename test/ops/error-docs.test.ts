import fs from 'node:fs';
import path from 'node:path';
import { errorStatus } from '../../domain/errors.ts';

const document = fs.readFileSync(path.resolve(import.meta.dirname, '../../docs/errors.md'), 'utf8');
const codes = document.slice(document.indexOf('\n## Codes\n'));
/** `| code | status | what it means | what to do |`, with a text in each. */
const rows = [...codes.matchAll(/^\| `(\w+)` \| (\d{3}) \| [^|]*\S[^|]* \| [^|]*\S[^|]* \|$/gm)];

test('docs/errors.md has one row for each error code, with its status, and no other row', () => {
  const documented = rows.map(([, code, status]) => [code!, Number(status)] as const);
  expect(documented.map(([code]) => code).sort()).toEqual(Object.keys(errorStatus).sort());
  expect(Object.fromEntries(documented)).toEqual(errorStatus);
});

test('every line of the table of codes is read', () => {
  const lines = codes.split('\n').filter((line) => line.startsWith('| ') && !line.startsWith('| code |'));
  expect(lines).toHaveLength(rows.length);
});
