import fs from 'node:fs';
import { findAccount } from '../process/identity.ts';

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
