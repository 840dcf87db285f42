import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { pino } from 'pino';
import type { Orm } from '../../db/orm.ts';
import type { SandboxId } from '../../domain/ids.ts';
import { Cgroups } from '../../runtime/oci/cgroups.ts';
import { UsageMeter } from '../../runtime/oci/sandbox-meters.ts';
import { MetricsSampler } from '../../worker/usage/metrics-sampler.ts';
import { readCpuMs } from '../process-cpu.ts';

const intervalMs = 5000;

export interface SamplesCost {
  /** Processor milliseconds of each sample, in this process and in the database's. */
  samplerMs: number;
  databaseMs: number;
}

/**
 * The cost of samples of many sandboxes: real control groups with a process in each, the real meter and sampler, a real
 * database. Only the waits between samples are skipped.
 * @param sandboxIds existing rows
 * @param orm with one connection, so that it has one server process
 */
export async function measureSamplesCost(
  orm: Orm,
  sandboxIds: readonly SandboxId[],
  samples: number,
): Promise<SamplesCost> {
  const cgroups = new Cgroups(`bench-metrics-${process.pid}`);
  const processes: ChildProcess[] = [];
  try {
    const meter = new UsageMeter(cgroups);
    for (const sandboxId of sandboxIds) {
      const files = cgroups.usageFiles(sandboxId);
      const sleeping = spawn('sleep', ['600'], { stdio: 'ignore' });
      processes.push(sleeping);
      for (const folder of new Set(Object.values(files).map((file) => path.dirname(file)))) {
        mkdirSync(folder, { recursive: true });
        writeFileSync(`${folder}/cgroup.procs`, String(sleeping.pid));
      }
      meter.begin(sandboxId, { files, diskFolder: '/proc/self/root', interface: 'lo' });
    }
    let nowMs = Math.floor(Date.now() / intervalMs) * intervalMs;
    const sampler = new MetricsSampler({
      orm,
      driver: { usage: () => meter.read() },
      hostId: 'bench',
      logger: pino({ level: 'silent' }),
      clock: () => nowMs,
    });
    const sample = async () => {
      await sampler.sample();
      nowMs += intervalMs;
    };
    for (let warmUp = 0; warmUp < 3; warmUp++) await sample();
    const [{ pid }] = (await orm.em.fork().execute('select pg_backend_pid() as pid')) as [{ pid: number }];
    const [own, database] = [process.cpuUsage(), readCpuMs(pid)];
    for (let index = 0; index < samples; index++) await sample();
    const used = process.cpuUsage(own);
    return {
      samplerMs: (used.user + used.system) / 1000 / samples,
      databaseMs: (readCpuMs(pid) - database) / samples,
    };
  } finally {
    await Promise.all(processes.map((each) => each.kill('SIGKILL') && once(each, 'exit')));
    for (const sandboxId of sandboxIds) await cgroups.destroy(sandboxId);
    await cgroups.teardown();
  }
}
