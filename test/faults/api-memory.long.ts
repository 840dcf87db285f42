import { LoadedApi } from '../support/loaded-api.ts';

const mebibyte = 1024 * 1024;

test('after 40,000 requests, half of them hostile, the API uses no more memory than after the first tenth', async () => {
  const api = await LoadedApi.start();
  try {
    await api.load(4000);
    const first = await api.memory();
    let most = first;
    for (let tenth = 2; tenth <= 10; tenth++) {
      await api.load(4000);
      const { live, rss } = await api.memory();
      most = { live: Math.max(most.live, live), rss: Math.max(most.rss, rss) };
      console.log(
        `after ${tenth * 4000}: live ${Math.round(live / mebibyte)} MiB, resident ${Math.round(rss / mebibyte)} MiB`,
      );
    }
    expect(most.live / first.live).toBeLessThan(1.2);
    expect(most.rss / first.rss).toBeLessThan(1.2);
  } finally {
    await api.stop();
  }
}, 1_800_000);
