import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { readSandboxCa } from '../../../platform/config/sandbox-ca.ts';
import { loadSettings, SettingsError } from '../../../platform/config/settings.ts';
import { TestCa } from '../../support/test-ca.ts';

let folder: string;
let certificate: string;
let key: string;

beforeAll(async () => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-ca-test-'));
  ({ certificate, key } = (await TestCa.create()).pair);
});
afterAll(() => fs.rmSync(folder, { recursive: true, force: true }));

function read(text: string): string[] | null {
  const file = path.join(folder, 'ca.pem');
  fs.writeFileSync(file, text);
  return readSandboxCa({ PLATFORM_SANDBOX_CA_FILE: file });
}

test('a file may have several certificates, with text between them', () => {
  const pem = `${certificate.trim()}\n`;
  expect(read(`Subject: one\n${certificate}\r\n# two\n${certificate}`)).toEqual([pem, pem]);
  expect(readSandboxCa({ PLATFORM_SANDBOX_CA_FILE: undefined })).toBe(null);
});

test('anything else is refused with the name of the setting', () => {
  const refused: [string, RegExp][] = [
    ['', /contains no certificate in PEM/],
    ['MIIB', /contains no certificate in PEM/],
    [certificate.slice(0, -40), /contains no certificate in PEM/],
    [`${certificate}\n${certificate.slice(0, 200)}`, /something other than whole certificates/],
    [`${certificate}\n${key}`, /contains a private key/],
    [
      `${certificate}\n-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----`,
      /certificate 2 of 2 cannot be read/,
    ],
    [' '.repeat(1024 * 1024 + 1), /is larger than/],
  ];
  for (const [text, reason] of refused) {
    expect(() => read(text)).toThrow(SettingsError);
    expect(() => read(text)).toThrow(reason);
    expect(() => read(text)).toThrow(/^PLATFORM_SANDBOX_CA_FILE: \//);
  }
  const missing = { PLATFORM_SANDBOX_CA_FILE: path.join(folder, 'missing') };
  expect(() => readSandboxCa(missing)).toThrow(/missing cannot be read \(ENOENT\)/);
});

test('it is refused for a cluster, whose nodes do not have the file', () => {
  const env = {
    ...{ PLATFORM_SECRET_KEY: 'k'.repeat(64), DATABASE_URL: 'postgres://localhost/none' },
    ...{ PLATFORM_DRIVER: 'kubernetes', PLATFORM_SANDBOX_CA_FILE: '/ca.pem' },
  };
  expect(() => loadSettings(env)).toThrow(/PLATFORM_SANDBOX_CA_FILE: is not possible with PLATFORM_DRIVER=kubernetes/);
});
