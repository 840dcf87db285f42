import { LoadedApi } from '../support/loaded-api.ts';

test('what the API holds after many lists and hostile requests is what it held after the first tenth of them', async () => {
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
