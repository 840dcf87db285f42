import { pino } from 'pino';
import { logDestination } from '../../platform/config/log-destination.ts';
import { loadSettings } from '../../platform/config/settings.ts';
import { stopSignal } from '../../platform/config/stop-signal.ts';
import { createClusterGuard } from '../../runtime/choose-driver.ts';

/**
 * Ends the sandboxes of a host that is a cluster when no host worker has renewed the host's lease. It runs beside each
 * host worker in a separate process, and on a cluster in a separate container, so that it outlives the worker.
 */
const settings = loadSettings();
const logger = pino({ level: settings.PLATFORM_LOG_LEVEL, name: 'cluster-guard' }, logDestination());
const guard = createClusterGuard(settings, logger);
guard.start();
logger.info({ hostId: settings.PLATFORM_HOST_ID }, 'ready');
await stopSignal();
await guard.stop();
process.exit(0);
