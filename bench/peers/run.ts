import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { cacheDir } from '../../ops/setup/toolchain/locations.mjs';
import { isInstalled } from '../../platform/config/programs.mjs';
import { ensureBaseImage } from '../../runtime/images/base-image.ts';
import { SecondMachine } from '../../test/support/second-machine.ts';
import { measureContainerFloor } from '../lifecycle/container-floor.ts';
import { inTurn, summarize, timed } from '../statistics.ts';
import { printTable, type Row } from '../table.ts';
import { type Contender, firstOutput, type Times } from './contender.ts';
import { OpenSandbox } from './opensandbox.ts';
import { OwnPlatform } from './own-platform.ts';

/**
 * Measures OpenSandbox with its Docker runtime beside this platform, in turns: from the create to the first output of a
 * command. `BENCH_EXECD_IMAGE`: the image of OpenSandbox's agent, as a file of `docker save`. Without it the first
 * output is that of Docker's exec.
 */
const times = Number(process.env.BENCH_TIMES ?? 20);
const warmUps = 3;
const concurrent = 10;
/** How often ten are created at once. */
const bursts = 3;
const needed = {
  ...{ dockerd: 'docker.io', docker: 'docker.io or docker-cli', iptables: 'iptables' },
  ...{ python3: 'python3 and python3-venv', unshare: 'util-linux', nsenter: 'util-linux', ip: 'iproute2' },
};

const notes = ({ versions, hasAgent }: OpenSandbox) => `${versions}.

- Both sides: the same image, 1 core, 256 MB, a client on this machine, no image pull. Containers on one kernel (runc and crun), so the same class of isolation.
- ${
  hasAgent
    ? 'OpenSandbox is asked as its SDK asks it, except that it is asked every 5 ms whether the agent answers, not every 200 ms.'
    : "OpenSandbox's agent is left out: its copy into the container, its start, and the way of a command through it."
}
- This platform also does in this time: a durable workflow, quotas, metering and events; own user ids and a disk limit for the sandbox; its token, checked at the agent, and the gateway on the way to it.
- OpenSandbox on Docker has no warm pool. Its optional egress sidecar is not used.`;

const missing = Object.entries(needed).filter(([program]) => !isInstalled(program));
if (process.getuid!() !== 0) throw new Error('The bench of peers needs root');
if (missing.length > 0) {
  const lines = missing.map(([program, from]) => `  ${program} (Debian package ${from})`);
  throw new Error(`The bench of peers needs programs that this machine lacks:\n${lines.join('\n')}`);
}

const undo = new AsyncDisposableStack();
let undone: Promise<void> | undefined;
const cleanUp = () => {
  undone ??= undo.disposeAsync();
  return undone;
};
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => void cleanUp().finally(() => process.exit(1)));
}
try {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'sandbox-platform-peers-'));
  undo.defer(() => rmSync(folder, { recursive: true, force: true }));
  const machine = SecondMachine.make();
  undo.defer(() => machine.close());
  const { rootfs } = await ensureBaseImage({ cacheDir: cacheDir() });
  const peer = await OpenSandbox.start(machine, folder, rootfs, process.env.BENCH_EXECD_IMAGE);
  undo.defer(() => peer.stop());
  const contenders: Contender[] = [peer];
  for (const pool of [0, concurrent + 2]) {
    const own = await OwnPlatform.start(pool);
    undo.defer(() => own.stop());
    contenders.push(own);
  }

  const dockerRun = () => timed(() => peer.daemon.docker('run', '--rm', 'bench-base', 'echo'));
  await dockerRun();
  const crun = await measureContainerFloor(times, 1);
  printTable('Floors: a bare container of the same image', [
    { measure: '`crun run` of `true`', value: summarize(crun.inTurn), unit: 'ms' },
    { measure: '`docker run` of `echo`', value: summarize(await inTurn(times, dockerRun)), unit: 'ms' },
  ]);
  await measureInTurns(contenders, warmUps, 1);
  printTimes('One at a time, in turns', await measureInTurns(contenders, times, 1));
  printTimes(`${concurrent} at once, in turns`, await measureInTurns(contenders, bursts, concurrent));
  console.log(`\nLoad of the machine: ${os.loadavg()[0]!.toFixed(1)}\n\n${notes(peer)}`);
} finally {
  await cleanUp();
}

interface Measured {
  contender: Contender;
  lives: Times[];
  /** For each turn, until the last sandbox had its output. */
  together: number[];
}

/** The contenders take turns, so that they share what else the machine does. */
async function measureInTurns(contenders: readonly Contender[], turns: number, atOnce: number): Promise<Measured[]> {
  const measured = contenders.map((contender): Measured => ({ contender, lives: [], together: [] }));
  for (let turn = 0; turn < turns; turn += 1) {
    for (const { contender, lives, together } of measured) {
      const made = await Promise.all(Array.from({ length: atOnce }, () => firstOutput(contender)));
      lives.push(...made.map((each) => each.times));
      together.push(Math.max(...made.map((each) => each.times.output)));
      await Promise.all(made.map(({ sandbox }) => sandbox.remove()));
      await contender.settle();
      // What was removed may still be cleaned up in the background.
      await delay(1000);
    }
  }
  return measured;
}

function printTimes(title: string, measured: readonly Measured[]): void {
  const p50 = ({ lives }: Measured) => summarize(lives.map(({ output }) => output)).p50;
  const rows = measured.flatMap((each): Row[] => {
    const { contender, lives, together } = each;
    const ratio = each === measured[0] ? '' : `${(p50(each) / p50(measured[0]!)).toFixed(2)} × of OpenSandbox`;
    const of = (pick: (times: Times) => number) => summarize(lives.map(pick));
    return [
      {
        measure: `${contender.name}: create → first output`,
        value: of((each) => each.output),
        unit: 'ms',
        goal: ratio,
      },
      { measure: '… until the reply of the create', value: of(({ replied }) => replied), unit: 'ms' },
      ...(together.length < lives.length
        ? [{ measure: '… until the last had its output', value: summarize(together), unit: 'ms' }]
        : []),
    ];
  });
  printTable(title, rows);
}
