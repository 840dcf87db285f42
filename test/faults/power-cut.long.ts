import { CutHost } from './power-cut.ts';

const rounds = Number(process.env.POWER_CUT_ROUNDS ?? 5);
const cutsOfRound = 4;

test(`${rounds * cutsOfRound} power cuts at any moment`, async () => {
  for (let round = 0; round < rounds; round += 1) {
    await CutHost.with(async (host) => {
      for (const cut of await host.liveThrough(cutsOfRound)) await host.comeBack(cut);
    });
  }
}, 1_800_000);
