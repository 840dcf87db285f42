import { pino } from 'pino';
import { logDestination } from '../../../platform/config/log-destination.ts';

/** Logs two lines. */
const logger = pino({}, logDestination());
logger.info({ step: 1 }, 'begun');
logger.warn({ step: 2 }, 'odd');
