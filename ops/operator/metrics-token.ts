import { operatorTokens } from '../../platform/config/secrets.ts';

/**
 * `node ops/operator/metrics-token.ts`: prints the token for the metrics of all processes. Store it in a file for
 * Prometheus.
 */
const { PLATFORM_SECRET_KEY } = process.env;
if (!PLATFORM_SECRET_KEY) {
  console.error('Needs PLATFORM_SECRET_KEY.');
  process.exit(1);
}
console.log(operatorTokens({ PLATFORM_SECRET_KEY }).metrics[0]);
