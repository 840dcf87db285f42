import os from 'node:os';
import path from 'node:path';
import type koffi from 'koffi';

/** Functions of the C library that Node lacks, called through koffi. Loaded on first use (3 ms, 1.5 MiB). */
export interface Libc {
  pipe2(fds: Buffer, flags: number): number;
  close(fd: number): number;
  dup3(from: number, to: number, flags: number): number;
  fcntl(fd: number, command: number, argument: number): number;
  ioctl(fd: number, request: number, argument: Buffer): number;
  poll(fds: Buffer, count: number, timeoutMs: number): number;
  waitpid(pid: number, status: Buffer, options: number): number;
  /** Blocks until the child has executed its program. Call `spawn.async`, which blocks a thread of the pool. */
  posix_spawn: SpawnFunction;
  posix_spawn_file_actions_init(actions: Buffer): number;
  posix_spawn_file_actions_destroy(actions: Buffer): number;
  posix_spawn_file_actions_adddup2(actions: Buffer, from: number, to: number): number;
  posix_spawn_file_actions_addopen(actions: Buffer, fd: number, path: string, flags: number, mode: number): number;
  posix_spawn_file_actions_addchdir_np(actions: Buffer, path: string | Buffer): number;
  posix_spawn_file_actions_addclosefrom_np(actions: Buffer, from: number): number;
  posix_spawnattr_init(attributes: Buffer): number;
  posix_spawnattr_setflags(attributes: Buffer, flags: number): number;
  posix_spawnattr_setsigdefault(attributes: Buffer, signals: Buffer): number;
  posix_spawnattr_setsigmask(attributes: Buffer, signals: Buffer): number;
  posix_openpt(flags: number): number;
  grantpt(fd: number): number;
  unlockpt(fd: number): number;
  ptsname_r(fd: number, name: Buffer, length: number): number;
  malloc_trim(keepBytes: number): number;
  fsetxattr(fd: number, name: string, value: Buffer, bytes: number, flags: number): number;
  getxattr(path: string | Buffer, name: string | Buffer, value: Buffer, bytes: number): number;
  listxattr(path: string | Buffer, names: Buffer, bytes: number): number;
  inotify_init1(flags: number): number;
  inotify_add_watch(fd: number, path: string | Buffer, mask: number): number;
  inotify_rm_watch(fd: number, watch: number): number;
}

type SpawnArguments = [
  pid: Buffer,
  path: string,
  actions: Buffer,
  attributes: Buffer,
  argv: (string | null)[],
  envp: (string | null)[],
];
interface SpawnFunction {
  async(...args: [...SpawnArguments, (error: Error | null, result: number) => void]): void;
}

const signatures: Record<keyof Libc, string> = {
  pipe2: 'int pipe2(void *, int)',
  close: 'int close(int)',
  dup3: 'int dup3(int, int, int)',
  fcntl: 'int fcntl(int, int, long)',
  ioctl: 'int ioctl(int, unsigned long, void *)',
  poll: 'int poll(void *, unsigned long, int)',
  waitpid: 'int waitpid(int, void *, int)',
  posix_spawn: 'int posix_spawn(void *, const char *, void *, void *, const char **, const char **)',
  posix_spawn_file_actions_init: 'int posix_spawn_file_actions_init(void *)',
  posix_spawn_file_actions_destroy: 'int posix_spawn_file_actions_destroy(void *)',
  posix_spawn_file_actions_adddup2: 'int posix_spawn_file_actions_adddup2(void *, int, int)',
  posix_spawn_file_actions_addopen:
    'int posix_spawn_file_actions_addopen(void *, int, const char *, int, unsigned int)',
  posix_spawn_file_actions_addchdir_np: 'int posix_spawn_file_actions_addchdir_np(void *, const char *)',
  posix_spawn_file_actions_addclosefrom_np: 'int posix_spawn_file_actions_addclosefrom_np(void *, int)',
  posix_spawnattr_init: 'int posix_spawnattr_init(void *)',
  posix_spawnattr_setflags: 'int posix_spawnattr_setflags(void *, short)',
  posix_spawnattr_setsigdefault: 'int posix_spawnattr_setsigdefault(void *, void *)',
  posix_spawnattr_setsigmask: 'int posix_spawnattr_setsigmask(void *, void *)',
  posix_openpt: 'int posix_openpt(int)',
  grantpt: 'int grantpt(int)',
  unlockpt: 'int unlockpt(int)',
  ptsname_r: 'int ptsname_r(int, void *, size_t)',
  malloc_trim: 'int malloc_trim(size_t)',
  fsetxattr: 'int fsetxattr(int, const char *, void *, size_t, int)',
  getxattr: 'long getxattr(const char *, const char *, void *, size_t)',
  listxattr: 'long listxattr(const char *, void *, size_t)',
  inotify_init1: 'int inotify_init1(int)',
  inotify_add_watch: 'int inotify_add_watch(int, const char *, unsigned int)',
  inotify_rm_watch: 'int inotify_rm_watch(int, int)',
};

let loaded: { libc: Libc; errno: () => number } | undefined;

function load(): { libc: Libc; errno: () => number } {
  if (loaded) return loaded;
  const addon = { exports: {} as typeof koffi };
  process.dlopen(addon as NodeJS.Module, path.join(path.dirname(process.argv[1]!), 'native', 'koffi.node'));
  const ffi = addon.exports;
  // Calls on threads need little memory. The defaults would use some MiB for each.
  ffi.config({ async_stack_size: 64 * 1024, async_heap_size: 256 * 1024, resident_async_pools: 2 });
  const library = ffi.load(null);
  const functions = Object.entries(signatures).map(([name, signature]) => [name, library.func(signature)]);
  loaded = { libc: Object.fromEntries(functions), errno: ffi.errno };
  return loaded;
}

/** Whether the C library was used yet. */
export function isLoaded(): boolean {
  return loaded !== undefined;
}

/** The C library. */
export function libc(): Libc {
  return load().libc;
}

/** An error in the form of Node's system errors. */
export function systemError(syscall: string, errno: number, subject?: string): NodeJS.ErrnoException {
  const code = Object.entries(os.constants.errno).find(([, number]) => number === errno)?.[0] ?? `errno ${errno}`;
  const error: NodeJS.ErrnoException = new Error(`${code}: ${syscall}${subject === undefined ? '' : ` '${subject}'`}`);
  return Object.assign(error, { errno: -errno, code, syscall, path: subject });
}

/** Returns `result`. If it is -1, throws the errno of the last call. */
export function checked(syscall: string, result: number, subject?: string): number {
  if (result !== -1) return result;
  throw systemError(syscall, load().errno(), subject);
}
