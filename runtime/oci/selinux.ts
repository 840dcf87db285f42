import { closeSync, existsSync, openSync, readFileSync, readSync, writeFileSync, writeSync } from 'node:fs';

/** SELinux contexts of one sandbox. */
export interface SelinuxContexts {
  /** Of its processes. */
  process: string;
  /** Of every file that they see. */
  files: string;
}

const folder = '/sys/fs/selinux';
/** Categories of a policy, in two halves: a pair with one of each identifies a sandbox. */
const half = 512;

/** What the agent needs from this process: the boot document, and the host's end of its standard streams. */
const needs: Record<string, string[]> = {
  fd: ['use'],
  fifo_file: ['read', 'write'],
  unix_stream_socket: ['read', 'write'],
};

/**
 * Whether sandboxes get contexts on this machine. They do if its policy has types for containers, and lets containers use
 * this process's sockets. Otherwise they run in the domain of the container runtime.
 * @returns `missing`: what the policy lacks; null when nothing does, or the kernel runs without SELinux
 */
export function findSelinux(): { isUsed: boolean; missing: string | null } {
  if (!existsSync(`${folder}/context`)) return { isUsed: false, missing: null };
  const { process, files } = contextsOf(0);
  if (![process, files].every(isKnown)) return { isUsed: false, missing: 'the types of container-selinux' };
  const own = readFileSync('/proc/self/attr/current', 'latin1').replace('\0', '').trim();
  const refused = Object.entries(needs).filter(([kind, rights]) => !mayUse(process, own, kind, rights));
  if (refused.length === 0) return { isUsed: true, missing: null };
  const rules = refused.map(([kind, rights]) => `allow container_t ${typeOf(own)}:${kind} { ${rights.join(' ')} };`);
  return { isUsed: false, missing: rules.join(' ') };
}

/**
 * The contexts of the sandbox with that number, as container engines give them to containers: the types of
 * container-selinux, and a pair of categories that no other number below 262144 has. So processes that break out of a
 * sandbox may touch neither files of the host nor those of other sandboxes.
 */
export function contextsOf(number: number): SelinuxContexts {
  const level = `s0:c${number % half},c${half + (Math.floor(number / half) % half)}`;
  return {
    process: `system_u:system_r:container_t:${level}`,
    files: `system_u:object_r:container_file_t:${level}`,
  };
}

const typeOf = (context: string) => context.split(':')[2] ?? context;

/** The kernel refuses contexts that its policy does not know. */
function isKnown(context: string): boolean {
  try {
    writeFileSync(`${folder}/context`, context);
    return true;
  } catch (error) {
    // EINVAL: an unknown type. The others: a container that may not ask.
    if (['EINVAL', 'EACCES', 'EPERM', 'EROFS'].includes((error as NodeJS.ErrnoException).code ?? '')) return false;
    throw error;
  }
}

/** Asks the kernel's policy whether a process with one context has these rights to objects of another. */
function mayUse(source: string, target: string, kind: string, rights: string[]): boolean {
  const classFolder = `${folder}/class/${kind}`;
  const number = readFileSync(`${classFolder}/index`, 'latin1').trim();
  const bits = rights.map((right) => 1 << (Number(readFileSync(`${classFolder}/perms/${right}`, 'latin1')) - 1));
  const query = openSync(`${folder}/access`, 'r+');
  try {
    writeSync(query, `${source} ${target} ${number}`);
    const answer = Buffer.alloc(256);
    const allowed = Number.parseInt(answer.toString('latin1', 0, readSync(query, answer)), 16);
    return bits.every((bit) => (allowed & bit) !== 0);
  } finally {
    closeSync(query);
  }
}
