import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js';
import { createMcpServer } from '../../clients/mcp/src/tools.ts';
import { releaseVersion } from '../../platform/config/release.ts';
import { startApi } from '../api/test-api.ts';

const root = path.join(import.meta.dirname, '../..');
const read = (file: string) => readFileSync(path.join(root, file), 'utf8');

test.each(['package.json', 'clients/typescript/package.json', 'clients/mcp/package.json'])(
  '%s has the version of the release',
  (file) => {
    expect(JSON.parse(read(file)).version).toBe(releaseVersion);
  },
);

test('the lock file, the Python package and the Helm chart have the version of the release', () => {
  expect(JSON.parse(read('package-lock.json'))).toMatchObject({
    ...{ version: releaseVersion, packages: { '': { version: releaseVersion } } },
  });
  expect(/^version = "(.+)"$/m.exec(read('clients/python/pyproject.toml'))?.[1]).toBe(releaseVersion);
  const chart = read('ops/helm/sandbox-platform/Chart.yaml');
  expect([...chart.matchAll(/^(?:version|appVersion): "?([^"\n]+)"?$/gm)].map(([, version]) => version)).toEqual([
    releaseVersion,
    releaseVersion,
  ]);
});

test('the documentation installs the wheel of this release', () => {
  const pages = [
    'README.md',
    ...globSync(['docs/*.md', 'clients/**/README.md'], { cwd: root, exclude: ['**/node_modules'] }),
  ];
  const named = pages.flatMap((page) => [...read(page).matchAll(/sandbox_platform_client-([^-\s]+)-py3/g)]);
  expect(named.length).toBeGreaterThan(2);
  expect(new Set(named.map(([, version]) => version))).toEqual(new Set([releaseVersion]));
});

test('the OpenAPI documents have the version of the release', async () => {
  const api = await startApi();
  try {
    for (const url of ['/openapi.json', '/agent-openapi.json']) {
      const reply = await api.app.inject(url);
      expect([url, reply.json().info.version]).toEqual([url, releaseVersion]);
    }
  } finally {
    await api.stop();
  }
});

test('the MCP server tells the version of the release', async () => {
  const server = createMcpServer({ apiUrl: 'http://127.0.0.1:9', apiKey: 'none' });
  const client = new Client({ name: 'test', version: '1' });
  const [ours, theirs] = InMemoryTransport.createLinkedPair();
  try {
    await Promise.all([server.connect(theirs), client.connect(ours)]);
    expect(client.getServerVersion()?.version).toBe(releaseVersion);
  } finally {
    await client.close();
    await server.close();
  }
});
