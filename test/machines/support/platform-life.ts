import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { until } from '../../support/until.ts';
import { inProject } from './project-files.ts';
import type { VirtualMachine } from './virtual-machine.ts';

/**
 * The whole platform, as `npm start` runs it, on a machine with cgroup v2 alone.
 * @param boot a machine with the project
 */
export function testPlatform(boot: () => Promise<VirtualMachine>): void {
  let machine: VirtualMachine;
  beforeAll(async () => {
    machine = await boot();
    await start();
  }, 7_200_000);
  afterAll(() => machine?.close());

  /** Without npm, which runs the same commands. */
  const main = 'node ops/setup/main.mjs';
  const variables = '. .data/platform.env && export PLATFORM_URL PLATFORM_API_KEY &&';

  async function start(): Promise<void> {
    await machine.run(`${inProject} systemd-run --unit=platform --collect --working-directory=$PWD \
    -p Environment=PATH=$PATH -p Environment=PLATFORM_CACHE_DIR=$PLATFORM_CACHE_DIR -p KillMode=mixed \
    -p Environment=PLATFORM_IMAGES_AHEAD=none -p Environment=PLATFORM_WARM_POOL_SIZE=0 \
    $(command -v node) ops/setup/main.mjs --then ops/local-stack/start.ts`);
    const isReady = async () => {
      const { status, output } = await machine.try(`${inProject} ${variables} node -e '
      fetch(process.env.PLATFORM_URL + "/readyz").then((reply) => process.exit(reply.ok ? 0 : 1))'`);
      if (status !== 0 && (await machine.try('systemctl is-active platform')).status !== 0) {
        throw new Error(`the platform ended: ${output}\n${await machine.run('journalctl -u platform --no-pager')}`);
      }
      return status === 0;
    };
    await until(isReady, 1_800_000, 5000);
  }

  test('a sandbox is created, runs a command and is deleted with `npm run try`', async () => {
    let tried = { status: null as number | null, output: '' };
    // An emulated machine is so busy with the start that the host takes no sandboxes for a while.
    await until(
      async () => {
        tried = await machine.try(`${inProject} ${main} --for packages --then ops/development/try.ts`);
        return !tried.output.includes('no_capacity');
      },
      900_000,
      10_000,
    );
    expect(tried).toEqual({
      status: 0,
      output: expect.stringMatching(/sbx-\w+ is running after \d+ ms\nhello from sbx-\w+\nexit code 0, /),
    });
  }, 1_800_000);

  test('files, commands, a pause and a resume work through the client', async () => {
    const output = await machine.run(`${inProject} ${variables} node test/machines/inside/one-life.ts`);
    expect(JSON.parse(output)).toEqual({ stdout: '144\n', text: 'import sys; print(int(sys.argv[1]) ** 2)\n' });
  }, 600_000);

  test('of an index for two architectures, the image for this one is imported and runs', async () => {
    const output = await machine.run(`${inProject} ${variables} node test/machines/inside/import-index.ts`);
    expect(output).toMatch(/^tini version/);
  }, 1_200_000);

  test('after its stop nothing of the platform is left on the machine', async () => {
    await machine.run('systemctl stop platform');
    const left = await machine.run('ls /sys/fs/cgroup; ip -brief link; nft list tables; losetup --list --noheadings');
    expect(left).not.toMatch(/sandboxes|sb[0-9a-f]+|loop/);
  }, 600_000);
}
