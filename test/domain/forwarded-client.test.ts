import { readForwardedClient, signForwardedClient } from '../../domain/forwarded-client.ts';

const [key, other] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)];

test.each(['192.0.2.1', '2001:db8::1', '::'])('an address is read back with the key that signed it: %s', (address) => {
  const signed = signForwardedClient(address, key);
  expect(readForwardedClient(signed, [key])).toBe(address);
  expect(readForwardedClient(signed, [other, key])).toBe(address);
  expect(readForwardedClient(signed, [other])).toBeNull();
  expect(readForwardedClient(signed, [])).toBeNull();
});

test.each([
  ['nothing', ''],
  ['an address alone', '192.0.2.1'],
  ['the signature of another address', signForwardedClient('192.0.2.1', key).replace('192.0.2.1', '192.0.2.2')],
  ['two values', [1, 2].map((n) => signForwardedClient(`192.0.2.${n}`, key)).join(', ')],
  ['what is no address', signForwardedClient('1:2', key)],
  ['a longer signature', `${signForwardedClient('192.0.2.1', key)}A`],
  ['a line end', `${signForwardedClient('192.0.2.1', key)}\n`],
])('%s is not read', (_what, value) => {
  expect(readForwardedClient(value, [key])).toBeNull();
});
