import { existsSync, readFileSync } from 'node:fs';
import { isInstalled } from '../../platform/config/programs.mjs';
import { CommandError, runCommand } from '../process/command.ts';

/**
 * Docker, ufw and firewalld drop packets that do not belong to them, and a packet must pass every table. So the sandboxes'
 * interfaces are exempted there, and the sandboxes' own firewall decides. Rules that were lost are put back by the
 * network's guard.
 */

/** Docker, ufw and others write their rules with one of these programs. Each program only shows its own rules. */
const backends = ['iptables-nft', 'iptables-legacy'];
/** Docker creates this chain for rules of others, evaluates it before its own rules, and keeps it across restarts. */
const dockerChain = 'DOCKER-USER';

export interface OtherFirewalls {
  /** The chains and zones in which an exemption was missing. */
  changed: string[];
  /** What only an operator can change. */
  advice: string[];
}

/**
 * Exempts the sandboxes' interfaces from the machine's other firewalls.
 * @param prefix the prefix of the interfaces
 */
export async function passOtherFirewalls(prefix: string): Promise<OtherFirewalls> {
  const changed: string[] = [];
  for (const { backend, rules } of await iptables()) {
    for (const rule of missingExemptions(rules, prefix)) {
      await runCommand(backend, ['--wait', '5', '--insert', ...words(rule)]);
      changed.push(`${backend} ${rule[0]}`);
    }
  }
  const zones = await firewalldInput();
  if (zones === null || zones.includes(`"${prefix}*"`)) return { changed, advice: [] };
  const command = ['--zone=trusted', `--add-interface=${prefix}+`];
  if (!isInstalled('firewall-cmd')) {
    // firewalld is outside of this container. Its permanent configuration survives its reloads.
    const permanently = `firewall-cmd --permanent ${command.join(' ')} && firewall-cmd --reload`;
    return { changed, advice: [`firewalld drops connections of sandboxes. Run on the machine: ${permanently}`] };
  }
  await runCommand('firewall-cmd', command);
  return { changed: [...changed, 'firewalld zone trusted'], advice: [] };
}

/**
 * Chains of nftables that an operator wrote, and that drop what they do not know. Only the operator knows where a rule
 * belongs in them.
 * @returns what to do, one line for each chain
 */
export async function droppingChains(prefix: string): Promise<string[]> {
  const { nftables } = JSON.parse(await runCommand('nft', ['-j', 'list', 'chains']));
  const chains = (nftables as { chain?: Chain }[]).flatMap(({ chain }) => (chain ? [chain] : []));
  const advice: string[] = [];
  for (const { family, table, name, hook = '', policy } of chains) {
    const isIptables = name === hook.toUpperCase();
    if (policy !== 'drop' || isIptables || !['inet', 'ip'].includes(family) || !['forward', 'input'].includes(hook))
      continue;
    const rules = (await outputOf('nft', ['list', 'chain', family, table, name])) ?? '';
    if (/ifname "sb/.test(rules) || rules.includes(prefix)) continue;
    const ends = hook === 'forward' ? 'iifname "sb*" and oifname "sb*"' : 'iifname "sb*"';
    advice.push(
      `The chain ${name} of the table ${family} ${table} drops connections of sandboxes. Let it accept ${ends}`,
    );
  }
  return advice;
}

/** As `nft -j` prints it. */
interface Chain {
  family: string;
  table: string;
  name: string;
  hook?: string;
  policy?: string;
}

/** Removes the exemptions. */
export async function forgetOtherFirewalls(prefix: string): Promise<void> {
  for (const { backend, rules } of await iptables()) {
    const own = exemptions(prefix, [dockerChain, 'FORWARD'], ['INPUT']).filter((rule) => rules.includes(text(rule)));
    for (const rule of own) await runCommand(backend, ['--wait', '5', '--delete', ...words(rule)]);
  }
  const zones = await firewalldInput();
  if (!zones?.includes(`"${prefix}*"`) || !isInstalled('firewall-cmd')) return;
  await runCommand('firewall-cmd', ['--zone=trusted', `--remove-interface=${prefix}+`]);
}

/** A chain, and the end of a packet's way that is a sandbox. */
type Exemption = [chain: string, end: '-i' | '-o', interfaces: string];
const words = ([chain, end, interfaces]: Exemption) => [chain, end, interfaces, '-j', 'ACCEPT'];
/** As `--list-rules` prints it. */
const text = (rule: Exemption) => `-A ${words(rule).join(' ')}`;

function exemptions(prefix: string, forward: string[], input: string[]): Exemption[] {
  return [
    ...forward.flatMap((chain): Exemption[] => [
      [chain, '-i', `${prefix}+`],
      [chain, '-o', `${prefix}+`],
    ]),
    ...input.map((chain): Exemption => [chain, '-i', `${prefix}+`]),
  ];
}

/** An empty chain that accepts everything stays as it is. */
function missingExemptions(rules: string[], prefix: string): Exemption[] {
  const decides = (chain: string) =>
    rules.some((rule) => new RegExp(`^-(A ${chain} |P ${chain} (?!ACCEPT))`).test(rule));
  const forward = rules.includes(`-N ${dockerChain}`) ? [dockerChain] : ['FORWARD'].filter(decides);
  const wanted = exemptions(prefix, forward, ['INPUT'].filter(decides));
  return wanted.filter((rule) => !rules.includes(text(rule)));
}

/** The filter tables of iptables, as lines of `--list-rules`. */
async function iptables(): Promise<{ backend: string; rules: string[] }[]> {
  const found: { backend: string; rules: string[] }[] = [];
  for (const backend of backends) {
    if (!isInstalled(backend) || (backend === 'iptables-legacy' && !hasLegacyTables())) continue;
    const output = await outputOf(backend, ['--wait', '5', '--list-rules']);
    if (output !== null) found.push({ backend, rules: output.split('\n') });
  }
  return found;
}

/** Does not call iptables-legacy, because a query would create its tables. */
function hasLegacyTables(): boolean {
  const file = '/proc/net/ip_tables_names';
  return existsSync(file) && /^filter$/m.test(readFileSync(file, 'latin1'));
}

/** The rules by which firewalld selects the zone of an incoming packet. Null: firewalld does not run. */
function firewalldInput(): Promise<string | null> {
  return outputOf('nft', ['list', 'chain', 'inet', 'firewalld', 'filter_INPUT_ZONES']);
}

/** Null: the program failed, because there is no such table or chain. */
async function outputOf(program: string, args: string[]): Promise<string | null> {
  try {
    return await runCommand(program, args);
  } catch (error) {
    if (error instanceof CommandError && error.exitCode !== null) return null;
    throw error;
  }
}
