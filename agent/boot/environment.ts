import fs from 'node:fs';

/** The environment of the sandbox's processes and contexts. One object, filled by the boot document. */
export interface AgentEnvironment {
  /**
   * Variables of every process: the image's, the sandbox's over them, and `HOME`, `USER`, `PATH`, … where neither has
   * them.
   */
  variables(): Record<string, string>;
  /** Home directory of the agent's user: where relative paths start, and the default `cwd`. */
  home(): string;
}

const defaultPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** One line of passwd(5): a user's name, ids and home. */
export interface Account {
  name: string;
  uid: number;
  gid: number;
  home: string;
  shell: string;
}

/** The account of that name or number in `/etc/passwd`; undefined where there is none, or no such file. */
export function findAccount(nameOrUid: string | number): Account | undefined {
  let text: string;
  try {
    text = fs.readFileSync('/etc/passwd', 'utf8');
  } catch {
    // An image made from scratch has no accounts at all.
    return undefined;
  }
  for (const line of text.split('\n')) {
    const [name, , uid, gid, , home, shell] = line.split(':');
    if (name && (name === nameOrUid || uid === String(nameOrUid))) {
      return { name, uid: Number(uid), gid: Number(gid), home: home || '/', shell: shell || '/bin/sh' };
    }
  }
  return undefined;
}

/**
 * The environment of processes in this sandbox; `sandboxVariables` is read anew each time, so `init` can set it late.
 */
export function createEnvironment(sandboxVariables: () => Record<string, string>): AgentEnvironment {
  const uid = process.getuid?.() ?? 0;
  const account = findAccount(uid);
  const name = account?.name ?? (uid === 0 ? 'root' : String(uid));
  // As a login does, use only a home directory that exists: no process can start in a missing one.
  const home =
    [account?.home, uid === 0 ? '/root' : undefined].find((folder) => folder && fs.existsSync(folder)) ?? '/';
  const image: Record<string, string> = {};
  for (const [key, value] of Object.entries(process.env)) {
    // Processes must not see the agent's own settings, which include tokens.
    if (value !== undefined && !key.startsWith('AGENT_') && !key.startsWith('NODE_')) image[key] = value;
  }
  return {
    variables() {
      const merged = { PATH: defaultPath, HOME: home, USER: name, LOGNAME: name, ...image, ...sandboxVariables() };
      return merged;
    },
    home: () => home,
  };
}
