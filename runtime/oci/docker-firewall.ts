import { existsSync, readFileSync } from 'node:fs';
import { isInstalled } from '../../platform/config/programs.mjs';
import { CommandError, runCommand } from '../process/command.ts';

/** Docker writes its rules with one of these programs. Each program only shows its own rules. */
const backends = ['iptables-nft', 'iptables-legacy'];
/** Docker creates this chain for rules of others, evaluates it before its own rules, and keeps it across restarts. */
const chain = 'DOCKER-USER';

/**
 * Docker drops forwarded packets that do not belong to its own containers. This rule exempts connections of sandboxes.
 * The chain of the sandboxes' firewall decides which of them are allowed.
 * @param prefix the prefix of the sandboxes' interfaces
 * @returns whether a rule was missing; false without Docker
 */
export async function passDocker(prefix: string): Promise<boolean> {
  let added = false;
  for (const backend of await backendsOfDocker()) {
    for (const rule of rulesFor(prefix)) {
      if (await succeeds(backend, ['--check', chain, ...rule])) continue;
      await runCommand(backend, ['--wait', '5', '--insert', chain, ...rule]);
      added = true;
    }
  }
  return added;
}

/** Removes the rules. */
export async function forgetDocker(prefix: string): Promise<void> {
  for (const backend of await backendsOfDocker()) {
    for (const rule of rulesFor(prefix)) {
      if (await succeeds(backend, ['--check', chain, ...rule])) {
        await runCommand(backend, ['--wait', '5', '--delete', chain, ...rule]);
      }
    }
  }
}

const rulesFor = (prefix: string) =>
  ['--in-interface', '--out-interface'].map((end) => [end, `${prefix}+`, '--jump', 'ACCEPT']);

async function backendsOfDocker(): Promise<string[]> {
  const found: string[] = [];
  for (const backend of backends) {
    if (backend === 'iptables-legacy' && !hasLegacyTables()) continue;
    if (isInstalled(backend) && (await succeeds(backend, ['--list-rules', chain]))) found.push(backend);
  }
  return found;
}

/** Does not call iptables-legacy, because a query would create its tables. */
function hasLegacyTables(): boolean {
  const file = '/proc/net/ip_tables_names';
  return existsSync(file) && /^filter$/m.test(readFileSync(file, 'latin1'));
}

/** Exit status 1: the chain or the rule does not exist. */
async function succeeds(backend: string, args: string[]): Promise<boolean> {
  try {
    await runCommand(backend, ['--wait', '5', ...args]);
    return true;
  } catch (error) {
    if (error instanceof CommandError && error.exitCode !== null) return false;
    throw error;
  }
}
