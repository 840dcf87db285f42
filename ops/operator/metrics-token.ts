import { deriveSecrets } from '../../config/secrets.ts';

/** `node ops/operator/metrics-token.ts`: the token that the metrics of all processes ask for. Keep it in a file of Prometheus. */
const { PLATFORM_SECRET_KEY } = process.env;
if (!PLATFORM_SECRET_KEY) {
  console.error('Needs PLATFORM_SECRET_KEY.');
  process.exit(1);
}
console.log(deriveSecrets({ PLATFORM_SECRET_KEY }).metricsToken);
