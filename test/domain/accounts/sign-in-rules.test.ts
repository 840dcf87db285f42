import { describe, expect, test } from '@jest/globals';
import { emailKey, readEmailAddress } from '../../../domain/accounts/email-address.ts';
import { checkNewPassword } from '../../../domain/accounts/password-rules.ts';
import { signInThrottles } from '../../../domain/accounts/sign-in-throttle.ts';

describe('e-mail addresses', () => {
  test.each([
    ['ann@example.com', 'ann@example.com'],
    [' Ann.Smith+x@Example.COM ', 'Ann.Smith+x@example.com'],
    ['root@platform.localhost', 'root@platform.localhost'],
    ['root@localhost', 'root@localhost'],
    ['ann@ｅxample.com', 'ann@example.com'],
    ['ann@bücher.example', 'ann@xn--bcher-kva.example'],
    ['ann@ехample.com', 'ann@xn--ample-ywe6i.com'],
  ])('%j is read as %j', (text, address) => {
    expect(readEmailAddress(text)).toBe(address);
  });

  test.each([
    ['a Cyrillic letter', 'аnn@example.com'],
    ['the Kelvin sign, which folds to k', '\u212Aim@example.com'],
    ['the Turkish dotless i', 'admın@example.com'],
    ['a full-width letter', 'ａnn@example.com'],
    ['an invisible space', 'an\u200bn@example.com'],
    ['a line break', 'ann@example.com\r\nBcc: eve@example.com'],
    ['two at signs', 'ann@example.com@evil.example'],
    ['a comment', 'ann(x)@example.com'],
    ['quotes', '"ann b"@example.com'],
    ['a port', 'ann@example.com:25'],
    ['an IP address', 'ann@127.0.0.1'],
    ['a short IP address', 'ann@127.1'],
    ['a bracketed IP address', 'ann@[127.0.0.1]'],
    ['a path', 'ann@example.com/x'],
    ['a percent sign in the domain', 'ann@example%2ecom'],
    ['no local part', '@example.com'],
    ['no domain', 'ann@'],
    ['dots in a row', 'ann..b@example.com'],
    ['an underscore in the domain', 'ann@exa_mple.com'],
    ['a local part of 65 characters', `${'a'.repeat(65)}@example.com`],
    ['300 characters', `ann@${'a.'.repeat(148)}com`],
    ['a megabyte', `${'a'.repeat(1_000_000)}@example.com`],
    ['nothing', ''],
  ])('an address with %s is invalid', (_what, text) => {
    expect(readEmailAddress(text)).toBeNull();
  });

  test('are the same in any case', () => {
    expect(emailKey(readEmailAddress('Ann@Example.com')!)).toBe(emailKey(readEmailAddress('aNN@EXAMPLE.com')!));
  });
});

describe('new passwords', () => {
  const names = ['maryjane.watson@example.com', 'spiderling'];
  const check = (password: string) => checkNewPassword(password, 'new_password', names);

  test.each([
    ['seven characters', 'k8!fQ2z', 'at least 8'],
    ['seven characters of two units each', '😀😁😂🤣😃😄😅', 'at least 8'],
    ['one of the most common', 'password', 'most common'],
    ['one of them in capitals', 'BaseBall', 'most common'],
    ['one of them with an end', 'Password1!', 'most common'],
    ['a common row of keys', '1qaz2wsx', 'most common'],
    ['one character again and again', 'zzzzzzzzzzzz', 'different characters'],
    ['two characters', 'abababababab', 'different characters'],
    ['the e-mail', 'MaryJane.Watson@example.com', 'your name'],
    ['the first half of the e-mail', 'maryjane.watson1', 'your name'],
    ['the user name', 'spiderling', 'your name'],
    ['1025 bytes', `aB3${'x'.repeat(1022)}`, 'at most 1024 bytes'],
    ['a megabyte', 'aB3'.repeat(350_000), 'at most 1024 bytes'],
  ])('%s is refused', (_what, password, reason) => {
    expect(() => check(password)).toThrow(expect.objectContaining({ code: 'weak_password' }));
    expect(() => check(password)).toThrow(reason);
  });

  test.each(['korrekt pferd batterie', 'пароль-длинный-7', 'k8!fQ2zW', 'aB3'.repeat(341)])(
    '%j is accepted',
    (password) => {
      expect(() => check(password)).not.toThrow();
    },
  );
});

test('the count of this e-mail from this address takes precedence: only it applies to a known address', () => {
  const listKeys = (email: string, address: string) => signInThrottles({ email, address }).map(({ key }) => key);
  const [pair, address, email] = listKeys('ann@example.com', '192.0.2.1');
  expect(new Set([pair, address, email]).size).toBe(3);
  expect(listKeys('bob@example.com', '192.0.2.1')).toEqual([
    expect.not.stringMatching(pair!),
    address,
    expect.anything(),
  ]);
  expect(listKeys('ann@example.com', '192.0.2.2')[2]).toBe(email);
  expect([pair, address, email]).not.toContain(listKeys('ann@example.com', '192.0.2.2')[0]);
});
