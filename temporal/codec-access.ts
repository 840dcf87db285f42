import { deriveSecrets } from '../config/secrets.ts';

/** The token in the codec server's path, for the Web UI's and the CLI's settings. */
export function codecAccessToken(platformSecretKey: string): string {
  return deriveSecrets({ PLATFORM_SECRET_KEY: platformSecretKey }).codecAccessToken;
}
