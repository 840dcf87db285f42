import dns from 'node:dns';
import { text } from 'node:stream/consumers';
import { jest } from '@jest/globals';
import { exchange } from '../../clients/typescript/src/http-exchange.ts';
import { publicUrl, resolveServer } from '../../clients/typescript/src/sandbox-address.ts';
import { formatHost, type StartedGateway, startGateway } from '../gateway/started-gateway.ts';
import { startHttpUpstream, type UpstreamServer } from '../gateway/upstream-server.ts';

let started: StartedGateway;
let sandbox: UpstreamServer;
const connection = (apiUrl: string, gatewayUrl: string | null = null) => ({ apiUrl, gatewayUrl, apiKey: 'a key' });

beforeAll(async () => {
  started = await startGateway();
  sandbox = await startHttpUpstream((request, response) => response.end(`served ${request.headers.host}`));
  started.routes.set({ sandboxId: 'sbx-one' as never, address: sandbox.address, agentPort: sandbox.port });
});
afterAll(async () => {
  await started.stop();
  await sandbox.stop();
});

test.each<[string, () => ReturnType<typeof connection>]>([
  ['at the host of the API', () => connection('http://127.0.0.1:7080')],
  ['at the gateway that is given', () => connection('http://api.invalid', `http://127.0.0.1:${started.port}`)],
])('a sandbox is reached %s, without a lookup of its name', async (_, at) => {
  const lookup = jest.spyOn(dns, 'lookup');
  try {
    const domain = `${formatHost('sbx-one')}:${started.port}`;
    const reply = await exchange(resolveServer(domain, at()), '/', { method: 'GET', headers: {}, isAlone: true });
    expect(await text(reply)).toBe(`served ${domain}`);
    expect(lookup.mock.calls.map(([name]) => name).filter((name) => name.includes('sbx-'))).toEqual([]);
  } finally {
    lookup.mockRestore();
  }
});

test('other names are resolved by the DNS, and links for people always have the name', () => {
  const domain = 'sbx-one.sandboxes.example:8443';
  expect(resolveServer(domain, connection('https://api.example'))).toEqual({ origin: `https://${domain}`, host: null });
  expect(resolveServer(domain, connection('https://api.example', 'https://10.0.0.7:8443/'))).toEqual({
    origin: 'https://10.0.0.7:8443',
    host: domain,
  });
  expect(publicUrl(formatHost('sbx-one'), connection('http://127.0.0.1:7080'))).toBe(`http://${formatHost('sbx-one')}`);
});
