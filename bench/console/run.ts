import { runningPlatformEnv } from '../../ops/local-stack/supervisor/running-platform.ts';
import { ConsoleBrowser, type ConsoleTab } from '../../test/support/console-browser.ts';
import { newRoot } from '../../test/support/console-people.ts';
import { RunningPlatform } from '../../test/support/running-platform.ts';
import { addEndedSandboxes } from '../lifecycle/list-page.ts';
import { inTurn, summarize, timed } from '../statistics.ts';
import { holdAgainst, printTable, type Row } from '../table.ts';

/** The console in Chromium, for an account with 10,000 sandboxes. */
const times = Number(process.env.BENCH_TIMES ?? 20);
const sandboxes = 10_000;

async function measureConsole(): Promise<Row[]> {
  const platform = new RunningPlatform({ PLATFORM_WARM_POOL_SIZE: '0' });
  await platform.start();
  const browser = await ConsoleBrowser.open(platform.env.PLATFORM_URL);
  try {
    const root = await newRoot(platform);
    const sandbox = await platform.client(root.apiKey).createSandbox({ timeout: 3600 });
    const databaseUrl = runningPlatformEnv(platform.dataDir, {}).DATABASE_URL!;
    await addEndedSandboxes(databaseUrl, sandbox.sandbox_id, sandboxes);
    const seen = await browser.tabOf(root);
    const cookies = await seen.context.cookies();
    /** A browser that is signed in and has nothing of the console in its cache. */
    const newTab = async () => {
      const tab = await browser.newTab();
      await tab.context.addCookies(cookies);
      return tab;
    };
    const first = async (open: (tab: ConsoleTab) => Promise<unknown>) => {
      const tab = await newTab();
      const ms = await timed(() => open(tab));
      await tab.close();
      return ms;
    };
    const list = async ({ page }: ConsoleTab) => {
      await page.goto('sandboxes');
      await page.getByRole('row').nth(50).waitFor();
    };
    await first(list);
    const floor = summarize(await inTurn(times, () => first(({ page }) => page.goto('icon.svg'))));
    const cold = summarize(await inTurn(times, () => first(list)));
    const warm = summarize(await inTurn(times, () => timed(() => list(seen))));
    const next = summarize(
      await inTurn(times, async (index) => {
        const { page } = seen;
        const shown = `${(index * 50 + 51).toLocaleString('en-GB')}–`;
        return timed(async () => {
          await page.getByRole('button', { name: 'Next' }).click();
          await page.getByText(shown).waitFor();
        });
      }),
    );
    return [
      { measure: 'floor: a picture of the console in a new tab', value: floor, unit: 'ms' },
      {
        measure: 'first view of the list, nothing cached',
        value: cold,
        unit: 'ms',
        goal: holdAgainst(cold.p50, 1000, 'ms'),
      },
      { measure: 'the same view again', value: warm, unit: 'ms' },
      { measure: 'next page', value: next, unit: 'ms' },
      { measure: 'first load, over the wire', value: (await loadedKilobytes(await newTab())).toFixed(0), unit: 'KB' },
    ];
  } finally {
    await browser.close();
    await platform.stop();
    await platform.hostRemains();
    platform.removeData();
  }
}

/** What the browser loads until the list is shown: the document, scripts, styles and replies, compressed. */
async function loadedKilobytes(tab: ConsoleTab): Promise<number> {
  const { page } = tab;
  const sizes: Promise<{ responseBodySize: number; responseHeadersSize: number }>[] = [];
  page.on('requestfinished', (request) => sizes.push(request.sizes()));
  await page.goto('sandboxes');
  await page.getByRole('row').nth(50).waitFor();
  const bytes = (await Promise.all(sizes)).map((each) => each.responseBodySize + each.responseHeadersSize);
  return bytes.reduce((sum, each) => sum + each, 0) / 1000;
}

printTable(`Console, ${sandboxes} sandboxes`, await measureConsole());
