import { LoadedApi } from '../support/loaded-api.ts';

test('the API uses no more memory after many lists and hostile requests than after the first tenth', async () => {
  const api = await LoadedApi.start();
  try {
    await api.load(48);
    const { live } = await api.memory();
    const statuses = await api.load(432);
    expect([...statuses.keys()].filter((status) => status >= 500)).toEqual([]);
    expect(statuses.get(200)).toBeGreaterThan(200);
    expect((await api.memory()).live / live).toBeLessThan(1.2);
  } finally {
    await api.stop();
  }
}, 300_000);
