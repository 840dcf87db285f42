import { namesAdvice } from '../../ops/local-stack/supervisor/sandbox-names.ts';

test('names that resolve need no advice', async () => {
  expect(await namesAdvice('sandbox.localhost')).toBeNull();
});

test('names that do not resolve are reported with a remedy', async () => {
  expect(await namesAdvice('sandboxes.invalid')).toBe(
    '*.sandboxes.invalid does not resolve in programs here: add a wildcard record for *.sandboxes.invalid to the DNS, ' +
      "or send requests to the gateway's address with the header Host",
  );
});
