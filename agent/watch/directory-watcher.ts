import fs from 'node:fs';
import path from 'node:path';
import { Code } from '@connectrpc/connect';
import { nameOfBytes, systemPath } from '../filesystem/path.ts';
import { isStagedName, wasReplaced } from '../filesystem/staged-names.ts';
import { EventType } from '../proto/gen/sandboxagent_pb.js';
import { ConnectError } from '../rpc/connect-error.ts';
import { toConnectError } from '../rpc/errors.ts';
import { type InotifyEvent, inotify, mask } from './inotify.ts';

/** A change, with its path relative to the watched directory. `.` is the directory itself. */
export interface DirectoryChange {
  name: string;
  type: EventType;
}

/** The number of events that are kept for a slow reader. */
const queueMax = 65_536;
/** How long a scan of a tree may block the event loop at a time. */
const sliceMs = 5;
/** How long names that a scan has reported are remembered, because the kernel may report them as well. */
const scannedMs = 1000;

/**
 * Watches a directory and, with `recursive`, all directories below it, including later ones. Events wait for the reader
 * in a bounded queue. If that queue or the kernel's overflows, `take` throws `data_loss`.
 */
export class DirectoryWatcher {
  readonly #root: string;
  readonly #recursive: boolean;
  readonly #onChange: () => void;
  /** The relative path of each watched directory by the kernel's number. '' is the root. */
  readonly #directories = new Map<number, string>();
  #queue: DirectoryChange[] = [];
  #lost: ConnectError | undefined;
  /** Nothing more can be told, so the error stays. */
  #isBroken = false;
  #pending: { relative: string; announce: boolean }[] = [];
  #scanning = false;
  /** The kernel dropped events, and the tree is being watched anew. */
  #isRewatching = false;
  #scanned = new Map<string, number>();
  #rootWatch = -1;
  #rootInode = '';
  /** The root was removed, so nothing is left to watch. */
  over = false;

  private constructor(root: string, recursive: boolean, onChange: () => void) {
    this.#root = root;
    this.#recursive = recursive;
    this.#onChange = onChange;
  }

  /**
   * Resolves when everything is watched. Calls `onChange` whenever there are new changes.
   * @throws {ConnectError} `not_found`, `invalid_argument` when it is not a directory, `resource_exhausted` when the
   * kernel has no more watches
   */
  static async open(root: string, recursive: boolean, onChange: () => void): Promise<DirectoryWatcher> {
    try {
      const real = await fs.promises.realpath(systemPath(root), 'buffer');
      if (!(await fs.promises.stat(real)).isDirectory())
        throw new ConnectError(`${root}: not a directory`, Code.InvalidArgument);
      const watcher = new DirectoryWatcher(nameOfBytes(real), recursive, onChange);
      try {
        watcher.#rootWatch = watcher.#watch('');
        watcher.#rootInode = watcher.#inodeAtRoot();
        if (recursive) {
          watcher.#pending.push({ relative: '', announce: false });
          await watcher.#scan();
        }
        if (watcher.#lost) throw watcher.#lost;
        return watcher;
      } catch (error) {
        watcher.close();
        throw error;
      }
    } catch (error) {
      throw toConnectError(error, root);
    }
  }

  /**
   * The changes since the last call.
   * @throws {ConnectError} `data_loss` when some of them are lost; `resource_exhausted`, and `data_loss` after the
   * directory was moved, when it cannot be watched any more
   */
  take(): DirectoryChange[] {
    if (this.#lost) {
      const error = this.#lost;
      if (!this.#isBroken) this.#lost = undefined;
      this.#queue = [];
      throw error;
    }
    const changes = this.#queue;
    this.#queue = [];
    return changes;
  }

  close(): void {
    for (const watch of this.#directories.keys()) inotify.remove(watch, this);
    this.#directories.clear();
    this.#pending = [];
    this.over = true;
    this.#onChange();
  }

  onOverflow(): void {
    this.#lose('the kernel dropped events');
    if (!this.#recursive) return;
    // The lost events may have been about new and moved directories.
    for (const watch of this.#directories.keys()) if (watch !== this.#rootWatch) this.#unwatch(watch);
    this.#isRewatching = true;
    this.#enter('', false);
  }

  onEvent(event: InotifyEvent): void {
    const directory = this.#directories.get(event.watch);
    if (directory === undefined) return;
    if (event.mask & mask.ignored) this.#directories.delete(event.watch);
    if (event.name.length === 0) {
      // The parent directory's event already reports a directory below the root.
      if (event.watch === this.#rootWatch) this.#onRootEvent(event.mask);
      return;
    }
    const own = nameOfBytes(event.name);
    const name = directory === '' ? own : `${directory}/${own}`;
    // The entry is a temporary file of an upload in progress.
    if (isStagedName(own)) return;
    const isReplaced = (event.mask & mask.movedTo) !== 0 && wasReplaced(path.join(this.#root, name));
    const type = isReplaced ? EventType.WRITE : toEventType(event.mask);
    if (type === EventType.UNSPECIFIED) return;
    const isDirectory = (event.mask & mask.isDirectory) !== 0;
    if (type === EventType.REMOVE || type === EventType.RENAME) this.#scanned.delete(name);
    // An entry that was moved to a scanned name is another one.
    if (event.mask & mask.create && this.#wasScanned(name)) return;
    this.#add({ name, type });
    if (!this.#recursive) return;
    if (type === EventType.CREATE && isDirectory) this.#enter(name, true);
    if (type === EventType.RENAME) {
      if (isDirectory) this.#leave(name);
      this.#announceIfThere(name);
    }
  }

  /** Two entries may swap their names, which the kernel reports as two moves, one after the other. */
  #announceIfThere(name: string): void {
    const stat = fs.lstatSync(systemPath(path.join(this.#root, name)), { throwIfNoEntry: false });
    if (!stat) return;
    this.#announce(name);
    if (stat.isDirectory()) this.#enter(name, true);
  }

  /** Reports an entry that a read of the file system has found. */
  #announce(name: string): void {
    if (this.#scanned.size >= queueMax) this.#scanned.clear();
    this.#scanned.set(name, Date.now() + scannedMs);
    this.#add({ name, type: EventType.CREATE });
  }

  #onRootEvent(eventMask: number): void {
    if (eventMask & mask.attributes) this.#add({ name: '.', type: EventType.CHMOD });
    if (eventMask & mask.moveSelf) this.#add({ name: '.', type: EventType.RENAME });
    if (eventMask & mask.deleteSelf) this.#add({ name: '.', type: EventType.REMOVE });
    if (eventMask & mask.ignored) this.close();
  }

  #add(change: DirectoryChange): void {
    const last = this.#queue.at(-1);
    const repeats = change.type === EventType.WRITE || change.type === EventType.CHMOD;
    if (repeats && last?.type === change.type && last.name === change.name) return;
    if (this.#queue.length >= queueMax) this.#lose('its reader was too slow');
    else this.#queue.push(change);
    this.#onChange();
  }

  #lose(reason: string): void {
    this.#queue = [];
    if (!this.#isBroken) {
      this.#lost = new ConnectError(`events of ${this.#root} were lost: ${reason}; list it again`, Code.DataLoss);
    }
    this.#onChange();
  }

  /** Ends the watching with an error that every later call gets. */
  #break(error: ConnectError): void {
    this.#pending = [];
    this.#lost = error;
    this.#isBroken = true;
    for (const watch of this.#directories.keys()) this.#unwatch(watch);
    this.#onChange();
  }

  #watch(relative: string): number {
    const watch = inotify.add(systemPath(path.join(this.#root, relative)), this);
    this.#directories.set(watch, relative);
    return watch;
  }

  #unwatch(watch: number): void {
    this.#directories.delete(watch);
    inotify.remove(watch, this);
  }

  /** Identifies the directory at the root's path. Empty if there is none. */
  #inodeAtRoot(): string {
    const stat = fs.statSync(systemPath(this.#root), { throwIfNoEntry: false });
    return stat ? `${stat.dev}:${stat.ino}` : '';
  }

  /**
   * Watches a directory that is new in this place, and all below it. With `announce`, reports its entries: they may
   * have been made before the watch existed, or come from elsewhere with a moved directory.
   */
  #enter(relative: string, announce: boolean): void {
    // The names of directories below lead elsewhere once the root or a directory above it has moved.
    if (this.#inodeAtRoot() !== this.#rootInode) {
      this.#break(new ConnectError(`${this.#root} was moved: watch it in its new place`, Code.DataLoss));
      return;
    }
    this.#pending.push({ relative, announce });
    if (!this.#scanning) void this.#scan();
  }

  /** Stops watching a directory that was moved away, and all below it. */
  #leave(relative: string): void {
    for (const [watch, directory] of this.#directories) {
      if (directory !== relative && !directory.startsWith(`${relative}/`)) continue;
      this.#unwatch(watch);
    }
    // Later entries with these names are other ones.
    for (const name of this.#scanned.keys()) if (name.startsWith(`${relative}/`)) this.#scanned.delete(name);
  }

  async #scan(): Promise<void> {
    this.#scanning = true;
    let sliceEnd = performance.now() + sliceMs;
    for (let next = this.#pending.pop(); next; next = this.#pending.pop()) {
      try {
        this.#scanDirectory(next.relative, next.announce);
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException;
        // The directory was removed or replaced during the scan. Events of its parent report that.
        if (code === 'ENOENT' || code === 'ENOTDIR' || code === 'EACCES' || code === 'ENAMETOOLONG') continue;
        const { rawMessage } = toConnectError(error);
        this.#scanning = false;
        this.#break(new ConnectError(`${this.#root} cannot be watched whole: ${rawMessage}`, Code.ResourceExhausted));
        return;
      }
      if (performance.now() > sliceEnd) {
        await new Promise(setImmediate);
        sliceEnd = performance.now() + sliceMs;
      }
    }
    this.#scanning = false;
    if (!this.#isRewatching) return;
    this.#isRewatching = false;
    // A client that listed the tree before all of it was watched again has to list it once more.
    this.#lose('the kernel dropped events');
  }

  #scanDirectory(relative: string, announce: boolean): void {
    if (relative !== '') this.#watch(relative);
    const entries = fs.readdirSync(systemPath(path.join(this.#root, relative)), {
      withFileTypes: true,
      encoding: 'buffer',
    });
    for (const entry of entries) {
      const name = path.join(relative, nameOfBytes(entry.name as Buffer));
      if (isStagedName(name)) continue;
      if (announce) this.#announce(name);
      if (entry.isDirectory()) this.#pending.push({ relative: name, announce });
    }
  }

  #wasScanned(name: string): boolean {
    const now = Date.now();
    for (const [scanned, until] of this.#scanned) {
      if (until >= now) break;
      this.#scanned.delete(scanned);
    }
    return this.#scanned.delete(name);
  }
}

function toEventType(eventMask: number): EventType {
  if (eventMask & (mask.create | mask.movedTo)) return EventType.CREATE;
  if (eventMask & mask.modify) return EventType.WRITE;
  if (eventMask & mask.delete) return EventType.REMOVE;
  if (eventMask & mask.movedFrom) return EventType.RENAME;
  if (eventMask & mask.attributes) return EventType.CHMOD;
  return EventType.UNSPECIFIED;
}
