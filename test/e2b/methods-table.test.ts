import { expect, test } from '@jest/globals';
import { namesOf, versionsOfPage } from './methods-table.ts';
import { npmPackages, pythonPackages } from './published-packages.ts';
import { commandLineCommands, javaScriptMethods, pythonMethods } from './surfaces.ts';

/**
 * The tables of docs/e2b.md against the packages themselves. A method that a newer package adds, and a new class, fail
 * here until the page says what they do.
 */
const all = ['yes', 'refused', 'local'] as const;

function expectTable(listed: string[], versions: Set<string>[]): void {
  const there = new Set(versions.flatMap((methods) => [...methods]));
  expect({
    unlisted: [...there].filter((name) => !listed.includes(name)),
    inNoVersion: listed.filter((name) => !there.has(name)),
    listedTwice: listed.filter((name, index) => listed.indexOf(name) !== index),
  }).toEqual({ unlisted: [], inNoVersion: [], listedTwice: [] });
}

test('the page lists exactly the methods of the npm packages', () => {
  const packages = [npmPackages.e2b, npmPackages['code-interpreter']].flatMap((versions) => Object.values(versions));
  expectTable(namesOf('javaScript', ...all), packages.map(javaScriptMethods));
});

test('the page lists exactly the methods of the Python packages, with and without asyncio', async () => {
  const versions = await Promise.all(Object.values(pythonPackages.e2b).map(pythonMethods));
  expectTable(namesOf('python', ...all), versions);
}, 300_000);

test('the page lists exactly the commands of the command line', async () => {
  // The newest version. Older ones have fewer commands.
  expectTable(namesOf('commands', ...all), [await commandLineCommands(npmPackages.cli['2.19.0'])]);
}, 60_000);

test('the page names the versions that are tried', () => {
  const { e2b, 'code-interpreter': interpreter } = pythonPackages;
  const packages = [...Object.values(npmPackages), e2b, interpreter];
  expect(versionsOfPage()).toEqual(packages.flatMap((versions) => Object.keys(versions)).sort());
});
