import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { summarize } from '../statistics.ts';
import { burst, downloadSpeed, echoLatency, startTrue, stdoutSpeed, uploadSpeed, watchLatency } from './measures.ts';
import { Subject } from './subject.ts';

/**
 * `node bench/agent/run.ts`: measures the agent on loopback and the floor alternately, so that other load of the
 * machine affects both. Prints each measure with its ratio to the floor, and the goal.
 */
const rounds = 3;
const startRuns = 15;
const transferMib = 256;
const stdoutMib = 1024;

type Name = Subject['name'];
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-bench-'));
const rows: Record<string, string | number>[] = [];

const p50 = (values: readonly number[]) => summarize(values).p50;

/** A row. `better` is the direction of improvement. `goal` is a number or a share of the floor. */
function row(
  measure: string,
  agent: number,
  floor: number | undefined,
  better: 'less' | 'more',
  goal: number | `${number} × floor`,
): void {
  const bound = typeof goal === 'number' ? goal : Number.parseFloat(goal) * floor!;
  const met = better === 'less' ? agent <= bound : agent >= bound;
  const digits = (value: number) => Number(value.toPrecision(3));
  rows.push({
    measure,
    agent: digits(agent),
    floor: floor === undefined ? '–' : digits(floor),
    ratio: floor === undefined ? '–' : digits(agent / floor),
    goal: `${better === 'less' ? '≤' : '≥'} ${goal}`,
    verdict: met ? 'met' : `${digits(better === 'less' ? agent / bound : bound / agent)} × off`,
  });
}

/** Measures both alternately, `rounds` times, and returns their medians. */
async function inTurns(
  subjects: Subject[],
  measure: (subject: Subject) => Promise<number>,
  times = rounds,
): Promise<Record<Name, number>> {
  const values: Record<Name, number[]> = { agent: [], floor: [] };
  for (let i = 0; i < times; i++) for (const subject of subjects) values[subject.name].push(await measure(subject));
  return { agent: p50(values.agent), floor: p50(values.floor) };
}

const agent = new Subject('agent');
const floor = new Subject('floor');
const both = [agent, floor];
try {
  const start = await inTurns(
    both,
    async (subject) => {
      const ms = await subject.start();
      await subject.stop();
      return ms;
    },
    startRuns,
  );
  row('exec to /health, ms', start.agent, start.floor, 'less', '1.1 × floor');

  for (const subject of both) await subject.start();
  await new Promise((resolve) => setTimeout(resolve, 4500));
  row('private memory idle, MiB', agent.privateMib(), floor.privateMib(), 'less', 15);

  const many = path.join(folder, 'thousand');
  fs.mkdirSync(many);
  for (let i = 0; i < 1000; i++) fs.writeFileSync(path.join(many, `file-${String(i).padStart(4, '0')}`), 'x');
  const stat = (subject: Subject) => (connection: Parameters<Parameters<typeof burst>[3]>[0]) =>
    subject.unary(connection, 'Filesystem/Stat', { path: path.join(many, 'file-0500') });
  const statOne = await inTurns(both, async (subject) => p50((await burst(subject, 1, 3000, stat(subject))).latencyMs));
  row('Stat, 1 connection, p50 ms', statOne.agent, statOne.floor, 'less', '1.111 × floor');
  const statMany = await inTurns(both, async (subject) => (await burst(subject, 32, 8000, stat(subject))).perSecond);
  row('Stat, 32 connections, req/s', statMany.agent, statMany.floor, 'more', '0.7 × floor');
  const list = await inTurns(both, async (subject) =>
    p50(
      (
        await burst(subject, 1, 100, (connection) =>
          subject.unary(connection, 'Filesystem/ListDir', { path: many, depth: 1 }),
        )
      ).latencyMs,
    ),
  );
  row('ListDir of 1,000, p50 ms', list.agent, list.floor, 'less', '1.2 × floor');

  const exec = await inTurns(both, async (subject) =>
    p50((await burst(subject, 1, 150, (connection) => startTrue(subject, connection))).latencyMs),
  );
  row('Start /bin/true, p50 ms', exec.agent, exec.floor, 'less', 5);
  const execMany = await inTurns(
    both,
    async (subject) => (await burst(subject, 16, 500, (connection) => startTrue(subject, connection))).perSecond,
  );
  row('Start, 16 at once, /s', execMany.agent, execMany.floor, 'more', 400);

  const json = await inTurns(both, (subject) => stdoutSpeed(subject, stdoutMib, 'json'), 2);
  row('stdout 1 GiB JSON, MB/s', json.agent, json.floor, 'more', 180);
  const proto = await inTurns([agent], (subject) => stdoutSpeed(subject, stdoutMib, 'proto'), 2);
  row('stdout 1 GiB binary, MB/s', proto.agent, undefined, 'more', 300);

  const file = path.join(folder, 'blob');
  const up = await inTurns(both, (subject) => uploadSpeed(subject, file, transferMib));
  row('upload 256 MiB, MB/s', up.agent, up.floor, 'more', 280);
  fs.writeFileSync(file, Buffer.alloc(transferMib * 2 ** 20, 7));
  const down = await inTurns(both, (subject) => downloadSpeed(subject, file));
  row('download 256 MiB, MB/s', down.agent, down.floor, 'more', 800);

  let lost = 0;
  const watch = await inTurns(both, async (subject) => {
    const seen = await watchLatency(subject, fs.mkdtempSync(path.join(folder, 'watched-')), 200);
    if (subject === agent) lost += seen.lost;
    return p50(seen.latencyMs);
  });
  row('watch event, p50 ms', watch.agent, watch.floor, 'less', 0.5);
  row('watch events lost', lost, undefined, 'less', 0);
  const echo = await inTurns(both, async (subject) => p50(await echoLatency(subject, 400)));
  row('stdin echo, p50 ms', echo.agent, echo.floor, 'less', 0.4);
  row('private memory after load, MiB', agent.privateMib(), floor.privateMib(), 'less', 60);
} finally {
  for (const subject of both) await subject.stop();
  fs.rmSync(folder, { recursive: true, force: true });
}
console.table(rows);
