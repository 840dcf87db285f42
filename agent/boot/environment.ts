import fs from 'node:fs';

/** The environment of the sandbox's processes and contexts. It is one object, filled by the boot document. */
export interface AgentEnvironment {
  /**
   * The variables of every process: those of the image, overridden by those of the sandbox, and defaults for `HOME`,
   * `USER`, `PATH`, the operator's certificates and others.
   */
  variables(): Record<string, string>;
  /**
   * Where a command is searched: `PATH` of its variables, and then that of the image, because callers set `PATH` to texts
   * such as `/opt/x:$PATH`, which nothing expands.
   */
  searchPath(variables: Record<string, string>): string;
  /** Home directory of the agent's user, where relative paths start. Also the default `cwd`. */
  home(): string;
}

const defaultPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** The name, ids and home of a user in one line of passwd(5). */
export interface Account {
  name: string;
  uid: number;
  gid: number;
  home: string;
  shell: string;
}

/** The account with that name or number in `/etc/passwd`. Undefined when there is no such account or file. */
export function findAccount(nameOrUid: string | number): Account | undefined {
  let text: string;
  try {
    text = fs.readFileSync('/etc/passwd', 'utf8');
  } catch {
    // An image made from scratch has no accounts.
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
 * The environment of processes in this sandbox. `sandboxVariables` is called each time, so `init` can set the variables
 * late.
 * @param defaults variables that the image and the sandbox may override
 */
export function createEnvironment(
  sandboxVariables: () => Record<string, string>,
  defaults: Record<string, string> = {},
): AgentEnvironment {
  const uid = process.getuid?.() ?? 0;
  const account = findAccount(uid);
  const name = account?.name ?? (uid === 0 ? 'root' : String(uid));
  // A missing home directory is not used, because no process can start in it.
  const home =
    [account?.home, uid === 0 ? '/root' : undefined].find((folder) => folder && fs.existsSync(folder)) ?? '/';
  const image: Record<string, string> = {};
  for (const [key, value] of Object.entries(process.env)) {
    // Processes must not see the agent's own settings, which contain tokens.
    if (value !== undefined && !key.startsWith('AGENT_') && !key.startsWith('NODE_')) image[key] = value;
  }
  return {
    variables() {
      const own = { PATH: defaultPath, HOME: home, USER: name, LOGNAME: name, ...defaults };
      return { ...own, ...image, ...sandboxVariables() };
    },
    searchPath: ({ PATH }) => [PATH, image.PATH ?? defaultPath].filter(Boolean).join(':'),
    home: () => home,
  };
}
