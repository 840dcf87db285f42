import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { startApi, type TestApi } from '../test-api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startApi({ planName: 'enterprise' });
});
afterAll(() => api.stop());

test('concurrent creates of a user’s projects, API keys and sandboxes do not deadlock', async () => {
  const rounds = Array.from({ length: 40 }, (_, number) => number);
  const replies = await Promise.all(
    rounds.flatMap((number) => [
      api.send(api.root, 'POST', '/v1/projects', { name: `project ${number}` }),
      api.send(api.root, 'POST', '/v1/sandboxes', { name: `sandbox ${number}` }),
      api.send(api.root, 'POST', '/v1/api-keys', { name: `key ${number}` }),
    ]),
  );
  const failed = replies.filter(({ status }) => status >= 500);
  expect(failed.map(({ status, body }) => `${status} ${body.code}`)).toEqual([]);
  expect(api.log.filter((line) => line.includes('deadlock'))).toEqual([]);
}, 300_000);
