import { LocalHost, nothing, onHost, shell } from './local-host.ts';

/** Parts that a running sandbox lost, and their repair by a host. */
let host: LocalHost;
beforeAll(async () => {
  host = await LocalHost.open({ agentStartTimeoutSeconds: 20 });
}, 300_000);
afterAll(() => host.close());
afterEach(async () => {
  await host.driver.reconcile([]);
  expect(await host.inventory()).toMatchObject(nothing);
});

const made = async () => {
  const spec = host.spec();
  const place = await host.driver.create(spec);
  await shell(place, spec, 'echo kept >/dev/shm/memory; echo kept >/root/disk; sync');
  const [link] = (await host.inventory()).interfaces;
  return { spec, place, link: link!, linked: [{ sandboxId: spec.sandboxId, allowInternetAccess: false }] };
};
type Made = Awaited<ReturnType<typeof made>>;

const losses: [string, (made: Made) => void][] = [
  ['its link', ({ link }) => onHost('ip', 'link', 'delete', 'dev', link)],
  ['its route', ({ place }) => onHost('ip', 'route', 'delete', place.address)],
  ['its link, which is down', ({ link }) => onHost('ip', 'link', 'set', 'dev', link, 'down')],
  ["the firewall's group of its link", ({ link }) => onHost('ip', 'link', 'set', 'dev', link, 'group', '0')],
];

test.each(losses)(
  'a running sandbox that lost %s gets it back and keeps its memory',
  async (_, lose) => {
    const sandbox = await made();
    expect(await host.driver.repairLinks(sandbox.linked)).toEqual([]);
    lose(sandbox);
    expect(await host.driver.repairLinks(sandbox.linked)).toEqual([sandbox.spec.sandboxId]);
    expect((await shell(sandbox.place, sandbox.spec, 'cat /dev/shm/memory')).output).toBe('kept');
    expect(await host.driver.repairLinks(sandbox.linked)).toEqual([]);
    expect(onHost('cat', `/sys/class/net/${sandbox.link}/netdev_group`)).not.toBe('0');
  },
  300_000,
);

test.each(losses)(
  'a frozen sandbox that lost %s is resumed at once',
  async (_, lose) => {
    const sandbox = await made();
    await host.driver.pause(sandbox.spec.sandboxId);
    lose(sandbox);
    expect((await host.driver.resume(sandbox.spec)).from).toBe('thaw');
    expect((await shell(sandbox.place, sandbox.spec, 'cat /dev/shm/memory')).output).toBe('kept');
  },
  300_000,
);

describe('a restart needs nothing from the processes', () => {
  const ways: [string, (made: Made) => Promise<unknown>][] = [
    ['runs', async () => {}],
    ['is frozen', ({ spec }) => host.driver.pause(spec.sandboxId)],
    ['has an agent that hangs', async () => process.kill((await host.inventory()).processes[1]!, 'SIGSTOP')],
    ['has no link', async ({ link }) => onHost('ip', 'link', 'delete', 'dev', link)],
  ];
  test.each(ways)(
    'in a sandbox that %s: memory goes, the disk stays',
    async (_, arrange) => {
      const sandbox = await made();
      await arrange(sandbox);
      const spec = { ...sandbox.spec, run: 2 };
      await host.driver.requireStartable(spec);
      const place = await host.driver.restart(spec);
      expect(place.from).toBe('cold');
      const { output } = await shell(place, spec, 'cat /root/disk; ls /dev/shm/memory 2>&1 || true');
      expect(output).toMatch(/^kept\n.*No such file/);
      // A repeated restart, as after a crash of the host worker, ends nothing.
      expect(await host.driver.restart(spec)).toEqual({ ...place, from: 'existing' });
      expect(await host.driver.inspect(spec.sandboxId)).toMatchObject({ state: 'running', run: 2 });
    },
    300_000,
  );
});
