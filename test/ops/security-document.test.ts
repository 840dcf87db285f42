import fs from 'node:fs';
import path from 'node:path';

const root = path.resolve(import.meta.dirname, '../..');
const document = fs.readFileSync(path.join(root, 'SECURITY.md'), 'utf8');
const named = [...document.matchAll(/`(test\/[\w./-]+)`/g)].map(([, name]) => name!);

test('each boundary of SECURITY.md names a test that exists', () => {
  expect(named.length).toBeGreaterThan(20);
  const missing = named.filter(
    (name) => !['.test.ts', '.ts'].some((end) => fs.existsSync(path.join(root, name + end))),
  );
  expect(missing).toEqual([]);
});

test('each test of attacks and of hostile input is named in SECURITY.md', () => {
  const attacks = fs
    .readdirSync(path.join(root, 'test/attacks'))
    .filter((file) => /\.(test|long)\.ts$/.test(file))
    .map((file) => `test/attacks/${file.replace(/(\.test)?\.ts$/, '')}`);
  expect(attacks.filter((name) => !named.includes(name))).toEqual([]);
});
