import { allowsOneMoreSandbox } from '../../domain/quotas.ts';

test.each([
  [null, 1000, true],
  [0, 1000, true],
  [1, 0, true],
  [1, 1, false],
  [3, 2, true],
  [3, 4, false],
])('with a limit of %p concurrent sandboxes and %d of them, one more is allowed: %p', (limit, active, allowed) => {
  expect(allowsOneMoreSandbox(limit, active)).toBe(allowed);
});
