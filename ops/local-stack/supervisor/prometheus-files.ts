import fs from 'node:fs';
import path from 'node:path';
import { writeFileDurablySync } from '../../../platform/config/durable-file.ts';
import { operatorTokens } from '../../../platform/config/secrets.ts';
import type { Settings } from '../../../platform/config/settings.ts';
import { reachable } from './addresses.ts';
import { metricsPorts } from './listened-ports.mjs';

/**
 * Writes the files for a Prometheus on this machine into `<data folder>/prometheus`: `targets.json` for
 * `file_sd_configs`, and `token` (mode 600) for `authorization.credentials_file`. `ops/monitoring/prometheus.yml` uses
 * both.
 */
export function writePrometheusFiles(
  dataDir: string,
  settings: Settings,
  ports: Readonly<Record<(typeof metricsPorts)[keyof typeof metricsPorts], number>>,
): void {
  const folder = path.join(dataDir, 'prometheus');
  fs.mkdirSync(folder, { recursive: true });
  const host = reachable(settings.PLATFORM_METRICS_HOST);
  const targets = Object.entries(metricsPorts).map(([name, port]) => ({
    targets: [`${host}:${ports[port]}`],
    labels: { process: name },
  }));
  writeFileDurablySync(path.join(folder, 'targets.json'), `${JSON.stringify(targets, null, 2)}\n`);
  writeFileDurablySync(path.join(folder, 'token'), operatorTokens(settings).metrics[0]!);
}
