import { pino } from 'pino';
import { logDestination } from '../../../platform/config/log-destination.ts';

/** Logs endlessly, and reports on its channel to the parent that it is still alive. */
const logger = pino({}, logDestination());
setInterval(() => {
  for (let line = 0; line < 50; line += 1) logger.info({ text: 'x'.repeat(200) }, 'a line');
  process.send?.('alive');
}, 20);
