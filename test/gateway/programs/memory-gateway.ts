import path from 'node:path';
import { pino } from 'pino';
import { GatewayProcesses } from '../../../gateway/processes/primary.ts';

/** `gateway/server.ts` without a database: see `memory-serving-process.ts`. */
const logger = pino({ name: 'gateway' });
const processes = new GatewayProcesses({
  program: path.join(import.meta.dirname, 'memory-serving-process.ts'),
  count: Number(process.env.GATEWAY_PROCESSES),
  host: '127.0.0.1',
  port: 0,
  logger,
  onGivenUp: () => process.exit(1),
});
process.once('SIGTERM', () => processes.stop().then(() => process.exit(0)));
logger.info(await processes.start(), 'ready');
