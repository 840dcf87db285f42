import path from 'node:path';
import { pino } from 'pino';
import { logDestination } from '../platform/config/log-destination.ts';
import { operatorTokens } from '../platform/config/secrets.ts';
import { reportReady } from '../platform/config/service-manager.ts';
import { loadSettings } from '../platform/config/settings.ts';
import { stopSignal } from '../platform/config/stop-signal.ts';
import { serveMetrics } from '../platform/monitoring/metrics-server.ts';
import { gatewayMetrics } from './gateway-metrics.ts';
import { GatewayProcesses } from './processes/primary.ts';

/** The gateway: starts and supervises the serving processes. Any number of gateways may run. */
const settings = loadSettings();
const logger = pino({ level: settings.PLATFORM_LOG_LEVEL, name: 'gateway' }, logDestination());
const processes = new GatewayProcesses({
  program: path.join(import.meta.dirname, 'serving-process.ts'),
  count: settings.PLATFORM_GATEWAY_PROCESSES,
  host: settings.PLATFORM_GATEWAY_HOST,
  port: settings.PLATFORM_GATEWAY_PORT,
  logger,
  onGivenUp: () => {
    logger.fatal('no gateway process could be started');
    process.exit(1);
  },
});

// The signal is handled from here on, so that a gateway can be stopped while it starts. Its processes exit with it.
void stopSignal().then(async () => {
  await processes.stop();
  logger.info('stopped');
  process.exit(0);
});

try {
  const { host, port } = await processes.start();
  if (settings.PLATFORM_GATEWAY_METRICS_PORT) {
    await serveMetrics({
      host: settings.PLATFORM_METRICS_HOST,
      port: settings.PLATFORM_GATEWAY_METRICS_PORT,
      tokens: operatorTokens(settings).metrics,
      collect: () => gatewayMetrics(processes),
      onError: (error) => logger.warn({ err: error }, 'the metrics port could not be served'),
    });
  }
  await reportReady();
  logger.info({ host, port, processes: settings.PLATFORM_GATEWAY_PROCESSES }, 'ready');
} catch (error) {
  logger.fatal({ err: error }, 'the gateway could not be started');
  process.exit(1);
}
