import { pino } from 'pino';
import { logDestination } from '../config/log-destination.ts';
import { loadSettings } from '../config/settings.ts';
import { stopSignal } from '../config/stop-signal.ts';
import { createClusterGuard } from '../runtime/choose-driver.ts';

/**
 * Ends the sandboxes of a host that is a cluster when no host worker has renewed the host's lease: beside each host
 * worker, in a process, and on a cluster in a container, of its own, so that it outlives that worker.
 */
const settings = loadSettings();
const logger = pino({ level: settings.PLATFORM_LOG_LEVEL, name: 'cluster-guard' }, logDestination());
const guard = createClusterGuard(settings, logger);
guard.start();
logger.info({ hostId: settings.PLATFORM_HOST_ID }, 'ready');
await stopSignal();
await guard.stop();
process.exit(0);
