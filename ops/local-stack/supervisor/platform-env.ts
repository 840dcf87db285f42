import fs from 'node:fs';
import path from 'node:path';
import { writeFileDurablySync } from '../../../platform/config/durable-file.ts';

/**
 * The addresses and keys that clients and operators of a running copy need, for `set -a; . .data/platform.env; set +a`.
 */
export interface PlatformEnv {
  PLATFORM_URL: string;
  /** The key of the first account. Absent if a start with another data folder made that account. */
  PLATFORM_API_KEY?: string | undefined;
  PLATFORM_GATEWAY: string;
  /** PEM file of the certificate authority that signed the gateway's certificate. */
  PLATFORM_CA?: string | undefined;
  TEMPORAL_ADDRESS: string;
  TEMPORAL_NAMESPACE: string;
  TEMPORAL_UI_URL?: string | undefined;
}

/** The path of the file, for a data folder. */
export function platformEnvFile(dataDir: string): string {
  return path.join(dataDir, 'platform.env');
}

/** Writes the file (mode 600) in a form that shells, compose and systemd read alike. */
export function writePlatformEnv(dataDir: string, values: PlatformEnv): void {
  const file = platformEnvFile(dataDir);
  const lines = Object.entries(values)
    .filter(([, value]) => value)
    .map(([name, value]) => `${name}='${value}'\n`);
  writeFileDurablySync(file, lines.join(''));
}

/** The values of the last start. Empty if there was none. */
export function readPlatformEnv(dataDir: string): Partial<PlatformEnv> {
  const file = platformEnvFile(dataDir);
  if (!fs.existsSync(file)) return {};
  const pairs = fs.readFileSync(file, 'utf8').matchAll(/^([A-Z_]+)='(.*)'$/gm);
  return Object.fromEntries([...pairs].map(([, name, value]) => [name, value]));
}

/** The file exists from the start that made the first API key until the first successful start. */
const newApiKeyFile = (dataDir: string) => path.join(dataDir, 'api-key-not-shown');

/** Records that the API key was not shown yet. Call this before the key is written to platform.env. */
export function markNewApiKey(dataDir: string): void {
  fs.writeFileSync(newApiKeyFile(dataDir), '');
}

/** The first API key, if it was not shown yet. Afterwards it counts as shown. */
export function takeNewApiKey(dataDir: string): string | undefined {
  if (!fs.existsSync(newApiKeyFile(dataDir))) return undefined;
  fs.rmSync(newApiKeyFile(dataDir));
  return readPlatformEnv(dataDir).PLATFORM_API_KEY;
}
