import { CutHost } from './power-cut.ts';

test('after a power cut every acknowledged sandbox is there with what it synced, and starts', async () => {
  const host = await CutHost.open();
  try {
    for (const cut of await host.liveThrough(2)) await host.comeBack(cut);
  } finally {
    await host.close();
  }
}, 180_000);
