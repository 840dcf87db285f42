import fs from 'node:fs';
import os from 'node:os';

/**
 * Writes the sandbox's name into `hostname` and `hosts`, where the first process has another one. The kernel's own name
 * of the machine stays: to change it needs a right that no sandbox has.
 * @param etc the folder of both files
 */
export function writeHostname(hostname: string, etc = '/etc'): void {
  try {
    const hosts = fs.readFileSync(`${etc}/hosts`, 'utf8');
    const earlier = os.hostname();
    const words = hosts.split(/(\s+)/).map((word) => (word === earlier ? hostname : word));
    // In place: they are mounts.
    fs.writeFileSync(`${etc}/hosts`, words.join(''));
    fs.writeFileSync(`${etc}/hostname`, `${hostname}\n`);
  } catch (error) {
    console.error('agent: the name of the sandbox could not be written:', (error as Error).message);
  }
}
