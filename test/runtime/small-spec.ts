import type { SandboxSpec } from '../../runtime/driver.ts';

/** A sandbox for tests of drivers: small, without internet access, with secrets for which tests search. */
export function smallSpec(
  own: Pick<SandboxSpec, 'sandboxId' | 'image'>,
  overrides: Partial<SandboxSpec> = {},
): SandboxSpec {
  return {
    ...own,
    run: 1,
    accountId: 'acc-test',
    cpuCount: 1,
    memoryMb: 256,
    storageGb: 1,
    allowInternetAccess: false,
    env: { GREETING: 'hello' },
    accessToken: 'access-token-of-the-test',
    platformToken: 'platform-token-of-the-test',
    command: null,
    readyProbe: null,
    udpPorts: [],
    ...overrides,
  };
}
