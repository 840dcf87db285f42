import { chmodSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

/** The platforms to which this user has signed in, by name. */
export interface Profiles {
  /** The profile of commands without `--profile`. */
  current: string;
  profiles: Record<string, Profile>;
}

export interface Profile {
  url: string;
  gateway?: string;
  api_key: string;
}

/** The file of the profiles, where the system keeps settings of a user. It contains API keys. */
export function profilesFile(env: NodeJS.ProcessEnv = process.env): string {
  const home = os.homedir();
  const system = {
    darwin: path.join(home, 'Library', 'Application Support'),
    win32: env.APPDATA || path.join(home, 'AppData', 'Roaming'),
  }[process.platform as string];
  return path.join(env.XDG_CONFIG_HOME || system || path.join(home, '.config'), 'sandbox-platform', 'profiles.json');
}

export function readProfiles(file = profilesFile()): Profiles {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { current: 'default', profiles: {} };
    throw new Error(`${file} cannot be read: ${(error as Error).message}`);
  }
}

/** Replaces the file as a whole. Only the user may read it. */
export function writeProfiles(profiles: Profiles, file = profilesFile()): void {
  mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 });
  const unfinished = `${file}.${process.pid}`;
  writeFileSync(unfinished, `${JSON.stringify(profiles, null, 2)}\n`, { mode: 0o600 });
  chmodSync(unfinished, 0o600);
  renameSync(unfinished, file);
}
