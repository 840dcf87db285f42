import { createHash, randomBytes } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { loadPlans } from '../../db/billing/plans.ts';
import { isApiKeyShape, makeApiKey, readApiKey, spellForE2b } from '../../domain/accounts/api-key.ts';
import { checkPlanLimits, defaultStorageGb } from '../../domain/billing/plans.ts';
import { isId, makeId } from '../../domain/ids.ts';
import { checkApiKeyName, checkProjectName, checkSandboxName, generateSandboxName } from '../../domain/names.ts';
import { expiryWarningMs, persistenceDaysRemaining, persistenceExpiresAt } from '../../domain/sandboxes/clock.ts';
import { listUdpPorts, type Port, udpMappings, unionOfPorts } from '../../domain/sandboxes/ports.ts';
import { nextWarning, timeoutWarnings } from '../../domain/sandboxes/timeout-warnings.ts';
import { parseCustomCommand, parseReadyCommand } from '../../domain/templates/commands.ts';

const refusal = (code: string) => expect.objectContaining({ code });

describe('ids', () => {
  test('carry their kind, fit a DNS label and never repeat', () => {
    const ids = Array.from({ length: 1000 }, () => makeId('sandbox', randomBytes));
    for (const id of ids) expect(id).toMatch(/^sbx-[a-z0-9]{20}$/);
    expect(new Set(ids).size).toBe(ids.length);
  });

  test('differ from other kinds and from anything else', () => {
    expect(isId('sandbox', makeId('sandbox', randomBytes))).toBe(true);
    for (const other of [
      makeId('project', randomBytes),
      'sbx-',
      'sbx-A',
      'sbx-a/../b',
      'sbx-a.b',
      `sbx-${'a'.repeat(41)}`,
    ]) {
      expect(isId('sandbox', other)).toBe(false);
    }
  });
});

describe('API keys', () => {
  test('have a prefix, 256 bits and a checksum that finds every single wrong character', () => {
    const key = makeApiKey(createHash('sha256').update('seed').digest());
    expect(key).toMatch(/^spk_[0-9A-Za-z]{49}$/);
    expect(isApiKeyShape(key)).toBe(true);
    for (let i = 4; i < key.length; i++) {
      const wrong = key.slice(0, i) + (key[i] === 'a' ? 'b' : 'a') + key.slice(i + 1);
      expect(isApiKeyShape(wrong)).toBe(false);
    }
  });

  test('have a second spelling, `e2b_` and the hexadecimal digits of the key, and both are read as one key', () => {
    const key = makeApiKey(createHash('sha256').update('seed').digest());
    const spelled = spellForE2b(key);
    expect(spelled).toMatch(/^e2b_[0-9a-f]{106}$/);
    expect(Buffer.from(spelled.slice(4), 'hex').toString()).toBe(key);
    expect([readApiKey(key), readApiKey(spelled)]).toEqual([key, key]);
  });

  test('are not read from any other text', () => {
    const spelled = spellForE2b(makeApiKey(createHash('sha256').update('seed').digest()));
    const digits = spelled.slice(4);
    const twice = `e2b_${Buffer.from(spelled).toString('hex')}`;
    for (const other of [
      ...['', 'e2b_', 'spk_', digits, `${spelled}0`, `${spelled}00`, spelled.slice(0, -1), spelled.slice(0, -2), twice],
      ...[`e2b_${digits.toUpperCase()}`, `E2B_${digits}`, `e2b_${digits.slice(0, -2)}zz`, `spk_${digits}`],
      `e2b_${digits.slice(0, -2)}${digits.endsWith('41') ? '42' : '41'}`,
    ]) {
      expect([other, readApiKey(other)]).toEqual([other, null]);
    }
  });
});

describe('names', () => {
  test.each([
    ...['a', 'My sandbox', 'über-projekt_1', 'v1.2 (old)', 'x'.repeat(24), '-a', 'a/b', '<b>'],
    ...['日本語', '👩‍💻'.repeat(8), 'semi;colon', 'مشروع'],
  ])('%s is allowed for a sandbox', (name) => {
    expect(checkSandboxName(name)).toBe(name);
  });

  test.each(['  ', 'a\n', 'a\tb', 'x'.repeat(25), '👍'.repeat(25), '\u202eabc', 'a\u2028b', '\u0000', '\ue000'])(
    '%j is refused for a sandbox',
    (name) => {
      expect(() => checkSandboxName(name)).toThrow(refusal('invalid_name'));
    },
  );

  test('an empty name is allowed only for a sandbox', () => {
    expect(checkSandboxName('')).toBe('');
    expect(() => checkProjectName('')).toThrow(refusal('invalid_name'));
    expect(() => checkApiKeyName('')).toThrow(refusal('invalid_name'));
  });

  test('a generated name follows the rules', () => {
    const names = Array.from({ length: 500 }, () => generateSandboxName(randomBytes(4)));
    expect(names.map((name) => checkSandboxName(name))).toEqual(names);
  });
});

describe('plans', () => {
  const plans = loadPlans();

  test('are the four of the seed file, and their storage default is half of the maximum', () => {
    expect(plans.all.map((plan) => plan.planName)).toEqual(['hobby', 'pro', 'team', 'enterprise']);
    for (const plan of plans.all) expect(defaultStorageGb(plan)).toBe(Math.floor(plan.maxStorageGbPerSandbox / 2));
  });

  test('values at a limit are accepted, values above it are refused with the name of each field', () => {
    const hobby = plans.get('hobby');
    const most = { cpuCount: 4, memoryMb: 4096, storageGb: 10, timeoutSeconds: 3600 };
    expect(() => checkPlanLimits(hobby, most)).not.toThrow();
    const over = { cpuCount: 5, memoryMb: 4097, storageGb: 11, timeoutSeconds: 3601 };
    expect(() => checkPlanLimits(hobby, over)).toThrow(
      expect.objectContaining({
        code: 'plan_limit_exceeded',
        details: ['cpu_count', 'memory_mb', 'storage_gb', 'timeout'].map((path) => expect.objectContaining({ path })),
      }),
    );
  });
});

describe('persistence', () => {
  const paused = new Date('2026-01-01T00:00:00Z');

  test('rounds days up, until none is left', () => {
    const expires = persistenceExpiresAt(paused, 7)!;
    expect(expires).toEqual(new Date('2026-01-08T00:00:00Z'));
    expect(persistenceDaysRemaining(expires, paused)).toBe(7);
    expect(persistenceDaysRemaining(expires, new Date('2026-01-07T23:59:59Z'))).toBe(1);
    expect(persistenceDaysRemaining(expires, new Date('2026-01-09T00:00:00Z'))).toBe(0);
  });

  test('has no end for a sandbox that is not paused or is kept forever', () => {
    expect(persistenceExpiresAt(null, 7)).toBeNull();
    expect(persistenceExpiresAt(paused, null)).toBeNull();
  });

  test('has a warning a day before its end, or halfway of a shorter time', () => {
    expect(expiryWarningMs(7)).toBe(86_400_000);
    expect(expiryWarningMs(1)).toBe(43_200_000);
  });
});

describe('warnings before a timeout', () => {
  test('lie in the second half of the timeout', () => {
    expect(timeoutWarnings(60)).toEqual([15]);
    expect(timeoutWarnings(300)).toEqual([60, 15]);
    expect(timeoutWarnings(3600)).toEqual([300, 60, 15]);
  });

  test('the next one is the first that has not passed', () => {
    expect(nextWarning(1_000_000, 600, 400_000)).toEqual({ inMs: 300_000, beforeSeconds: 300 });
    expect(nextWarning(1_000_000, 600, 700_000)).toEqual({ inMs: 240_000, beforeSeconds: 60 });
    expect(nextWarning(1_000_000, 600, 990_000)).toBeNull();
  });
});

describe('ports', () => {
  const port = (number: number, name: string, fields: Partial<Port> = {}): Port => ({
    port: number,
    servicePort: number + 1,
    protocol: 'TCP',
    name,
    isProtected: false,
    ...fields,
  });
  const names = (templatePorts: Port[], customPorts: Port[]) =>
    unionOfPorts(templatePorts, customPorts).map((each) => each.name);

  test('a sandbox’s own port replaces the template’s with the same number, except a protected one', () => {
    expect(names([port(80, 'web'), port(90, 'api')], [port(80, 'mine')])).toEqual(['api', 'mine']);
    expect(names([port(80, 'web', { isProtected: true })], [port(80, 'mine'), port(90, 'more')])).toEqual([
      'web',
      'more',
    ]);
  });

  test('a UDP port is mapped to the port inside, as long as it exists', () => {
    const templatePorts = [port(53, 'dns', { protocol: 'UDP' }), port(80, 'web')];
    const customPorts = [port(53, 'mine'), port(90, 'game', { protocol: 'UDP' })];
    const ports = { templatePorts, customPorts, udpHostPorts: { 53: 20_000, 90: 20_001 } };
    expect(listUdpPorts(ports)).toEqual([53, 90]);
    expect(udpMappings(ports)).toEqual([{ hostPort: 20_001, servicePort: 91 }]);
    expect(udpMappings(ports, 90)).toEqual([]);
    // The template's port is effective again.
    expect(udpMappings(ports, 53)).toEqual([
      { hostPort: 20_000, servicePort: 54 },
      { hostPort: 20_001, servicePort: 91 },
    ]);
    expect(udpMappings({ ...ports, udpHostPorts: {} })).toEqual([]);
  });
});

describe('commands of a template', () => {
  test.each([
    [null, null],
    ['  ', null],
    ['python app.py', { entrypoint: ['/bin/sh', '-c'], cmd: ['python app.py'] }],
    ['{"Entrypoint": ["tini", "--"], "Cmd": ["app"]}', { entrypoint: ['tini', '--'], cmd: ['app'] }],
    ['{"Cmd": ["app"], "Entrypoint": null}', { entrypoint: [], cmd: ['app'] }],
    ['{}', null],
  ])('custom_command %j', (text, words) => expect(parseCustomCommand(text)).toEqual(words));

  test.each(['{"Cmd": "app"}', '{"Entrypoint": [1]}', '{not json'])('custom_command %j is refused', (text) => {
    expect(() => parseCustomCommand(text)).toThrow(SyntaxError);
  });

  test('ready_command accepts its settings next to the type or below it, with defaults', () => {
    const timing = { initialDelaySeconds: 0, periodSeconds: 1, timeoutSeconds: 5, failureThreshold: 60 };
    expect(parseReadyCommand('{"type":"httpGet","httpGet":{"path":"/up","port":8080}}')).toEqual({
      type: 'httpGet',
      path: '/up',
      port: 8080,
      scheme: 'HTTP',
      ...timing,
    });
    expect(parseReadyCommand('{"type":"tcpSocket","port":5432,"failureThreshold":3}')).toEqual({
      type: 'tcpSocket',
      port: 5432,
      ...timing,
      failureThreshold: 3,
    });
    expect(parseReadyCommand('{"type":"exec","command":"test -f /ready"}')).toEqual({
      type: 'exec',
      command: ['/bin/sh', '-c', 'test -f /ready'],
      ...timing,
    });
  });

  test.each(['{"type":"exec"}', '{"type":"httpGet"}', '{"type":"tcpSocket","port":70000}', '{"type":"dns"}', 'x'])(
    'ready_command %j is refused',
    (text) => expect(() => parseReadyCommand(text)).toThrow(SyntaxError),
  );
});
