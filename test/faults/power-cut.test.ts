import { CutHost } from './power-cut.ts';

test('after a power cut every acknowledged sandbox is there with its synced data, and starts', async () => {
  await CutHost.with(async (host) => {
    for (const cut of await host.liveThrough(2)) await host.comeBack(cut);
  });
}, 180_000);
