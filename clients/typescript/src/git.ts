import type { CommandResult, Commands } from './commands.ts';

export interface GitOptions {
  /** A user of the sandbox, by name or number. Default: root. */
  user?: string;
  /** The command is killed after this time, with the error `timed_out`. */
  timeoutMs?: number;
  signal?: AbortSignal;
}

/**
 * A token for a server over HTTPS. It is passed to one command in its environment, and stored nowhere. Git sends it only
 * to the scheme, host and port of the given URL or remote, also after a redirect.
 */
export interface GitCredentials {
  token?: string;
  /** Default: `x-access-token`, which GitHub and most other servers accept with any token. */
  username?: string;
}

export interface CloneOptions extends GitOptions, GitCredentials {
  /** The folder to make. Default: the name of the repository, in the home folder. */
  path?: string;
  branch?: string;
  /** The number of commits to fetch. Default: all. */
  depth?: number;
}

export interface CommitOptions extends GitOptions {
  /** `Name <address>`. Default: that of the configuration of git. */
  author?: string;
  /** The files to commit. Default: all changes of the repository, with new files. */
  files?: string[];
}

export interface PushOptions extends GitOptions, GitCredentials {
  /** Default `origin`. */
  remote?: string;
  /** Default: the current branch. */
  branch?: string;
}

/** A changed file. The states are the letters of `git status --short`; a space means unchanged. */
export interface GitFile {
  path: string;
  /** The state in the index. */
  staged: string;
  /** The state in the folder. */
  unstaged: string;
}

export interface GitStatus {
  /** Null: the commit is on no branch. */
  branch: string | null;
  /** Commits that the branch upstream does not have, and the other way round. */
  ahead: number;
  behind: number;
  files: GitFile[];
}

/** Git in the sandbox. The template must have `git`. A failure is a `CommandFailedError` with the message of git. */
export class Git {
  readonly #commands: Commands;

  constructor(commands: Commands) {
    this.#commands = commands;
  }

  /** Clones a repository. The token is not stored in the repository. */
  async clone(url: string, { path, branch, depth, ...options }: CloneOptions = {}): Promise<void> {
    const words = ['clone', '--quiet'];
    if (branch !== undefined) words.push('--branch', branch);
    if (depth !== undefined) words.push('--depth', String(depth));
    await this.#run([...words, '--', url, ...(path === undefined ? [] : [path])], options, url);
  }

  async status(path: string, options: GitOptions = {}): Promise<GitStatus> {
    const words = ['-C', path, 'status', '--porcelain=v1', '--branch', '--untracked-files=all', '-z'];
    return parseStatus((await this.#run(words, options)).stdout);
  }

  /** Commits changes and returns the id of the commit. */
  async commit(path: string, message: string, { author, files, ...options }: CommitOptions = {}): Promise<string> {
    await this.#run(['-C', path, 'add', ...(files ? ['--', ...files] : ['--all'])], options);
    const identity: string[] = [];
    if (author !== undefined) {
      const [, name, address] = /^([^<>]*?) *<([^<>]*)>$/.exec(author) ?? ['', author, ''];
      identity.push('-c', `user.name=${name}`, '-c', `user.email=${address}`);
    }
    await this.#run(
      [...identity, '-C', path, 'commit', '--quiet', `--message=${message}`, ...(files ? ['--', ...files] : [])],
      options,
    );
    return (await this.#run(['-C', path, 'rev-parse', 'HEAD'], options)).stdout.trim();
  }

  async push(path: string, { remote = 'origin', branch = 'HEAD', ...options }: PushOptions = {}): Promise<void> {
    const words = ['-C', path, 'push', '--quiet', '--', remote, branch];
    const { token: _token, username: _username, ...plain } = options;
    let url = remote;
    if (options.token !== undefined && serverOf(remote) === undefined) {
      // It fails if `remote` is a path, which needs no token.
      const asked = await this.#commands.run(['git', '-C', path, 'remote', 'get-url', '--push', '--', remote], plain);
      url = asked.stdout;
    }
    await this.#run(words, options, url);
  }

  /** @param url whose server gets the token */
  #run(
    words: string[],
    { token, username = 'x-access-token', ...options }: GitOptions & GitCredentials,
    url = '',
  ): Promise<CommandResult> {
    const envs: Record<string, string> = { GIT_TERMINAL_PROMPT: '0', LC_ALL: 'C.UTF-8' };
    const server = serverOf(url);
    if (token === undefined || server === undefined) {
      return this.#commands.run(['git', ...words], { ...options, envs, check: true });
    }
    // The first helper is empty, so no other helper stores the token. Git asks the second one only for this server.
    const helper = ['-c', 'credential.helper=', '-c', `credential.${server}.helper=${fromEnvironment}`];
    const secret = { GIT_USERNAME: username, GIT_TOKEN: token };
    return this.#commands.run(['git', ...helper, ...words], { ...options, envs: { ...envs, ...secret }, check: true });
  }
}

/** The scheme, host and port of a URL, as git matches them. A `*` would match other hosts. */
function serverOf(url: string): string | undefined {
  const [, scheme, host] = /^(https?:\/\/)(?:[^/?#@]*@)?([^/?#@*=\s]+)(?=[/?#\s]|$)/i.exec(url) ?? [];
  return host === undefined ? undefined : `${scheme}${host}`;
}

/** A helper of git that answers with the token in the environment. */
const fromEnvironment =
  '!f() { test "$1" = get && printf "username=%s\\npassword=%s\\n" "$GIT_USERNAME" "$GIT_TOKEN"; }; f';

/** The output of `git status --porcelain=v1 --branch -z`. */
function parseStatus(output: string): GitStatus {
  const [head = '', ...entries] = output.split('\0');
  const [, name = ''] = /^## (?:No commits yet on )?(.*?)(?:\.\.\..*)?$/.exec(head) ?? [];
  const files: GitFile[] = [];
  for (let at = 0; at < entries.length; at++) {
    const entry = entries[at]!;
    if (entry === '') continue;
    files.push({ path: entry.slice(3), staged: entry[0]!, unstaged: entry[1]! });
    // The former name of a renamed or copied file follows.
    if (/[RC]/.test(entry.slice(0, 2))) at++;
  }
  return {
    branch: name === 'HEAD (no branch)' ? null : name,
    ahead: Number(/ahead (\d+)/.exec(head)?.[1] ?? 0),
    behind: Number(/behind (\d+)/.exec(head)?.[1] ?? 0),
    files,
  };
}
