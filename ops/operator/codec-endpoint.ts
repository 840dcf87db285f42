import { codecAccessToken } from '../../platform/temporal/codec-access.ts';

/** `node ops/operator/codec-endpoint.ts`: prints the codec endpoint for a Temporal Web UI. Its path is a secret. */
const { PLATFORM_URL, PLATFORM_SECRET_KEY } = process.env;
if (!PLATFORM_URL || !PLATFORM_SECRET_KEY) {
  console.error('Needs PLATFORM_URL and PLATFORM_SECRET_KEY.');
  process.exit(1);
}
console.log(`${PLATFORM_URL}/codec/${codecAccessToken(PLATFORM_SECRET_KEY)}`);
