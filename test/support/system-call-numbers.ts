import koffi from 'koffi';

/** libseccomp has a table of system calls for each architecture, on every machine. */
const library = koffi.load('libseccomp.so.2');
const resolveName = library.func('int seccomp_syscall_resolve_name_arch(uint32_t, const char *)');
const resolveNumber = library.func('str seccomp_syscall_resolve_num_arch(uint32_t, int)');

const tables = { x64: 0xc000003e, arm64: 0xc00000b7 };
export type Architecture = keyof typeof tables;
export const bothArchitectures: Architecture[] = ['x64', 'arm64'];

/** The number of a system call. Negative if the architecture does not have it. */
export function numberOfCall(name: string, architecture = process.arch as Architecture): number {
  return resolveName(tables[architecture], name);
}

/** The names of all system calls of an architecture. */
export function namesOfCalls(architecture: Architecture): string[] {
  const highest = 600;
  const names = Array.from({ length: highest }, (_, number) => resolveNumber(tables[architecture], number));
  return names.filter((name) => name !== null);
}
