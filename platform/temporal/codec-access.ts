import { operatorTokens } from '../config/secrets.ts';

/** The token in the codec server's path. Operators put it into the settings of the Web UI and the CLI. */
export function codecAccessToken(platformSecretKey: string): string {
  return operatorTokens({ PLATFORM_SECRET_KEY: platformSecretKey }).codecAccess[0]!;
}
