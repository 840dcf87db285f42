import { type FSWatcher, type Stats, watch } from 'node:fs';
import fs from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { isNotFound } from '../agent-client.ts';
import { FileChangedError, type Progress, walkFolder } from '../archive-writer.ts';
import type { FileInfo } from '../files.ts';
import { printableLine } from '../printable.ts';
import { Sandbox } from '../sandbox.ts';
import { type CliCommand, print, UsageError } from './command.ts';
import { untilInterrupted } from './interrupts.ts';
import { parsePlace } from './place.ts';
import { ProgressLine } from './progress.ts';

/** A change is copied when there was no other one for this time, because programs write many files at once. */
const quietMs = 100;
/** The longest wait while changes follow each other. */
const maxWaitMs = 2000;
/** Another look after changes: the watch of a new folder may have begun after its first files. */
const againMs = 1000;

export const sync: CliCommand = {
  name: 'sync',
  maxWords: 2,
  usage: 'FOLDER SANDBOX:PATH [--watch] [--delete]',
  summary:
    'copy what differs in size, time, mode or target into a folder of a sandbox; --watch continues until Ctrl-C; --delete removes what is not in FOLDER; --json prints an object for each look that changed something',
  options: { watch: { type: 'boolean' }, delete: { type: 'boolean' } },
  async run({ words, options, connection, json }) {
    const [from, to] = words.map(parsePlace);
    if (!from || !to || from.sandbox !== null || to.sandbox === null) {
      throw new UsageError('Give a folder of this machine and one in a sandbox: SANDBOX:PATH');
    }
    if (!(await fs.stat(from.path)).isDirectory()) throw new UsageError(`${from.path} is not a folder`);
    const sandbox = await Sandbox.get(to.sandbox, connection);
    const done = await untilInterrupted(async (signal) => {
      const mirror = await Mirror.of(sandbox, from.path, to.path || '~', options.delete === true, json, signal);
      // The watch begins before the first look, so that no change between them is lost.
      const changes = options.watch ? new Changes(from.path, signal) : null;
      if (changes && !json) process.stderr.write(`Watching ${printableLine(from.path)}\n`);
      let isFirst = true;
      try {
        do {
          try {
            const isChanged = await mirror.update();
            if (isChanged) changes?.lookAgain();
            if (json && (isChanged || isFirst)) print(JSON.stringify(mirror.takeReport()));
            isFirst = false;
          } catch (error) {
            if (!changes || !(error instanceof FileChangedError)) throw error;
            changes.lookAgain();
          }
        } while (await changes?.next());
      } finally {
        changes?.close();
      }
      return true;
    });
    // Ctrl-C is the usual end of a watch.
    return done || options.watch ? 0 : 130;
  },
};

/** What a copy keeps of an entry. Two entries with the same facts are the same. */
interface Facts {
  kind: 'file' | 'folder' | 'link';
  size: number;
  modifiedMs: number;
  mode: number;
  target: string | null;
}

/** What was done, by the paths below the folder. */
interface Report {
  copied: string[];
  removed: string[];
  /** Sockets, pipes and devices, which are not copied. */
  skipped: number;
}

const newReport = (): Report => ({ copied: [], removed: [], skipped: 0 });

/** A folder in the sandbox that gets the content of a local one. */
class Mirror {
  readonly #sandbox: Sandbox;
  readonly #local: string;
  readonly #remote: string;
  readonly #removes: boolean;
  readonly #json: boolean;
  readonly #signal: AbortSignal;
  /** What is in the sandbox, by the path below the folder. */
  readonly #there: Map<string, Facts>;
  readonly #line = new ProgressLine();
  /** Whether the folder in the sandbox exists. */
  #isMade = false;
  /** The entry that was printed last. */
  #told = '';
  /** For `json`. */
  #report = newReport();

  private constructor(
    ...[sandbox, local, remote, removes, json, signal, there]: [
      Sandbox,
      string,
      string,
      boolean,
      boolean,
      AbortSignal,
      Map<string, Facts>,
    ]
  ) {
    this.#sandbox = sandbox;
    this.#local = local;
    this.#remote = remote;
    this.#removes = removes;
    this.#json = json;
    this.#signal = signal;
    this.#there = there;
  }

  static async of(
    ...[sandbox, local, remote, removes, json, signal]: [Sandbox, string, string, boolean, boolean, AbortSignal]
  ) {
    const there = new Map<string, Facts>();
    let isMade = true;
    try {
      const { path: root } = await sandbox.files.stat(remote);
      const start = root.endsWith('/') ? root : `${root}/`;
      for (const entry of await sandbox.files.list(root, { depth: 1000 })) {
        if (entry.path.startsWith(start)) there.set(entry.path.slice(start.length), factsThere(entry));
      }
    } catch (error) {
      if (!isNotFound(error)) throw error;
      isMade = false;
    }
    const mirror = new Mirror(sandbox, local, remote, removes, json, signal, there);
    mirror.#isMade = isMade;
    return mirror;
  }

  /** Copies what differs. Returns whether something did. */
  async update(): Promise<boolean> {
    const { files } = this.#sandbox;
    const here = new Map<string, { facts: Facts; local: string }>();
    // The copies of an update that failed are made again; what it removed stays removed.
    this.#report = { ...newReport(), removed: this.#report.removed };
    for await (const { name, local } of walkFolder(this.#local)) {
      const facts = name === './' ? null : await factsHere(local);
      if (facts === 'special') this.#report.skipped += 1;
      else if (facts) here.set(name.replace(/\/$/, ''), { facts, local });
    }
    const gone = [...this.#there].filter(([name, there]) => {
      const kind = here.get(name)?.facts.kind;
      return kind === undefined || (kind !== there.kind && (kind === 'folder' || there.kind === 'folder'));
    });
    if (this.#removes) {
      // A folder comes before its content in this order, and is removed with it.
      let removed = '';
      for (const [name] of gone.sort(([a], [b]) => (`${a}/` < `${b}/` ? -1 : 1))) {
        this.#there.delete(name);
        if (removed !== '' && name.startsWith(removed)) continue;
        this.#signal.throwIfAborted();
        await files.remove(path.posix.join(this.#remote, name));
        removed = `${name}/`;
        if (this.#json) this.#report.removed.push(name);
        else this.#tell(`removed ${name}`);
      }
    }
    const differing = [...here].filter(([name, { facts }]) => !isSame(facts, this.#there.get(name)));
    if (differing.length === 0 && this.#isMade) return this.#removes && gone.length > 0;
    try {
      await files.uploadEntries(
        this.#remote,
        [{ name: './', local: this.#local }, ...differing.map(([name, { local }]) => ({ name, local }))],
        { signal: this.#signal, onProgress: (progress) => this.#progress(progress) },
      );
    } finally {
      this.#line.clear();
    }
    this.#isMade = true;
    for (const [name, { facts }] of differing) this.#there.set(name, facts);
    return true;
  }

  /** What was done since the last report. */
  takeReport(): Report {
    const report = this.#report;
    this.#report = newReport();
    return report;
  }

  #progress(progress: Progress): void {
    const isFolder = progress.name === './';
    if (progress.name !== this.#told && !isFolder) {
      if (this.#json) this.#report.copied.push(progress.name);
      else this.#tell(progress.name);
    }
    this.#told = progress.name;
    this.#line.show(progress);
  }

  #tell(text: string): void {
    this.#line.clear();
    print(printableLine(text));
  }
}

function factsThere({ type, size, modifiedAt, mode, symlinkTarget }: FileInfo): Facts {
  const kind = symlinkTarget !== null ? 'link' : type === 'directory' ? 'folder' : 'file';
  return { kind, size, modifiedMs: modifiedAt.getTime(), mode: mode & 0o7777, target: symlinkTarget };
}

/** Null: it has vanished. `special`: it is a socket, pipe or device. */
async function factsHere(local: string): Promise<Facts | 'special' | null> {
  let stat: Stats;
  try {
    stat = await fs.lstat(local);
    const kind = stat.isSymbolicLink() ? 'link' : stat.isDirectory() ? 'folder' : stat.isFile() ? 'file' : null;
    if (!kind) return 'special';
    const target = kind === 'link' ? await fs.readlink(local) : null;
    return { kind, size: stat.size, modifiedMs: stat.mtimeMs, mode: stat.mode & 0o7777, target };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

/** A folder that is there keeps its mode. The time of the agent is in whole milliseconds here. */
function isSame(here: Facts, there: Facts | undefined): boolean {
  if (here.kind !== there?.kind) return false;
  if (here.kind === 'folder') return true;
  if (here.kind === 'link') return here.target === there.target;
  return here.size === there.size && here.mode === there.mode && Math.abs(here.modifiedMs - there.modifiedMs) < 2;
}

/** Tells when something in a local folder has changed. */
class Changes {
  readonly #watcher: FSWatcher;
  readonly #signal: AbortSignal;
  #changedMs: number | null = null;
  #failure: Error | null = null;
  #wake: () => void = () => undefined;

  constructor(folder: string, signal: AbortSignal) {
    this.#signal = signal;
    this.#watcher = watch(folder, { recursive: true }, () => this.#change(performance.now()));
    this.#watcher.on('error', (error) => {
      this.#failure = error;
      this.#wake();
    });
    signal.addEventListener('abort', () => this.#wake());
  }

  /** `next` resolves after a while, also without a change. */
  lookAgain(): void {
    setTimeout(() => this.#change(performance.now()), againMs).unref();
  }

  /** Resolves after a change that no other one has followed for a while. @throws the reason of the signal's abort */
  async next(): Promise<true> {
    while (this.#changedMs === null) {
      this.#signal.throwIfAborted();
      if (this.#failure) throw this.#failure;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    const untilMs = performance.now() + maxWaitMs;
    for (
      let waitMs = quietMs;
      waitMs > 0 && performance.now() < untilMs;
      waitMs = this.#changedMs + quietMs - performance.now()
    ) {
      await delay(waitMs, undefined, { signal: this.#signal });
    }
    this.#changedMs = null;
    return true;
  }

  close(): void {
    this.#watcher.close();
  }

  #change(nowMs: number): void {
    this.#changedMs = nowMs;
    this.#wake();
  }
}
