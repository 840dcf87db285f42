import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import { innerLoopbackAddress } from '../domain/outbound-addresses.ts';
import { operatorTokens } from '../platform/config/secrets.ts';
import type { Settings } from '../platform/config/settings.ts';
import { type MetricsServer, serveMetrics } from '../platform/monitoring/metrics-server.ts';

const sdkTimeoutMs = 5000;

/**
 * Serves the metrics of a worker, followed by those of its Temporal SDK.
 * @param port 0: the metrics are not served
 * @param sdkPort the port of `innerLoopbackAddress` on which the SDK serves its own metrics
 * @returns null when the metrics are not served
 */
export async function serveWorkerMetrics(options: {
  settings: Settings;
  port: number;
  sdkPort: number | null;
  registry: Registry;
  beforeCollecting?: () => Promise<void>;
  logger: Logger;
}): Promise<MetricsServer | null> {
  const { settings, port, sdkPort, registry, beforeCollecting, logger } = options;
  if (!port) return null;
  return serveMetrics({
    host: settings.PLATFORM_METRICS_HOST,
    port,
    tokens: operatorTokens(settings).metrics,
    async collect() {
      await beforeCollecting?.();
      const [own, ofSdk] = await Promise.all([registry.metrics(), sdkPort === null ? '' : readSdkMetrics(sdkPort)]);
      return `${own}\n${ofSdk}`;
    },
    onError: (error) => logger.warn({ err: error }, 'the metrics port could not be served'),
  });
}

async function readSdkMetrics(port: number): Promise<string> {
  const reply = await fetch(`http://${innerLoopbackAddress}:${port}/metrics`, {
    signal: AbortSignal.timeout(sdkTimeoutMs),
  });
  if (!reply.ok) throw new Error(`the SDK answers ${reply.status} for its metrics`);
  return reply.text();
}
