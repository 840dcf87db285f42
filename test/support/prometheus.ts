import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { freePort } from './free-port.ts';
import { until } from './until.ts';

const monitoring = path.resolve(import.meta.dirname, '../../ops/monitoring');

/** A Prometheus that scrapes a platform with `ops/monitoring/prometheus.yml`, only more often. */
export interface TestPrometheus {
  /** The values of an expression now. */
  query(expression: string): Promise<{ metric: Record<string, string>; value: [number, string] }[]>;
  stop(): Promise<void>;
}

export async function startPrometheus(dataDir: string): Promise<TestPrometheus> {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-platform-prometheus-'));
  const config = fs
    .readFileSync(path.join(monitoring, 'prometheus.yml'), 'utf8')
    .replaceAll('../../.data', dataDir)
    .replaceAll('15s', '1s')
    .replace('alerts.yml', path.join(monitoring, 'alerts.yml'));
  fs.writeFileSync(path.join(dir, 'prometheus.yml'), config);
  const port = await freePort();
  const child = spawn(
    'prometheus',
    [
      `--config.file=${path.join(dir, 'prometheus.yml')}`,
      `--storage.tsdb.path=${path.join(dir, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
    ],
    { stdio: 'ignore' },
  );
  const url = `http://127.0.0.1:${port}`;
  await until(() =>
    fetch(`${url}/-/ready`).then(
      ({ ok }) => ok,
      () => false,
    ),
  );
  return {
    async query(expression) {
      const reply = await fetch(`${url}/api/v1/query?query=${encodeURIComponent(expression)}`);
      const body = (await reply.json()) as { status: string; error?: string; data: { result: never[] } };
      if (body.status !== 'success') throw new Error(`${expression}: ${body.error}`);
      return body.data.result;
    },
    async stop() {
      const ended = once(child, 'exit');
      child.kill('SIGTERM');
      await ended;
      fs.rmSync(dir, { recursive: true });
    },
  };
}
