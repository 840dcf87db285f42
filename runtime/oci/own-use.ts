import type { MemoryUse } from './own-files.ts';

/** The use of one sandbox according to its control groups, in the units of `OwnUse`. */
export interface GroupUse {
  memory: MemoryUse;
  user: number;
  system: number;
  processes: number;
}

/**
 * Reads the texts of the files of a sandbox's control groups.
 * @param texts.memory bytes
 * @param texts.time `cpuacct.stat` of version 1, `cpu.stat` of version 2
 */
export function readGroupUse(
  version: 1 | 2,
  texts: { memory: string; memoryStat: string; time: string; processes: string },
): GroupUse {
  const kib = (name: string) => Math.floor(numberIn(texts.memoryStat, name) / 1024);
  const [prefix, cache, anonymous, mapped] =
    version === 2 ? ['', 'file', 'anon', 'file_mapped'] : ['total_', 'total_cache', 'total_rss', 'total_mapped_file'];
  const time = (name: string) =>
    version === 2 ? Math.floor(numberIn(texts.time, `${name}_usec`) / 10_000) : numberIn(texts.time, name);
  return {
    memory: {
      total: Math.floor(Number(texts.memory) / 1024),
      cache: kib(cache),
      anonymous: kib(anonymous),
      shared: kib(`${prefix}shmem`),
      mapped: kib(mapped),
      activeAnonymous: kib(`${prefix}active_anon`),
      inactiveAnonymous: kib(`${prefix}inactive_anon`),
      activeFile: kib(`${prefix}active_file`),
      inactiveFile: kib(`${prefix}inactive_file`),
    },
    user: time('user'),
    system: time('system'),
    processes: Number(texts.processes),
  };
}

/** The number in the line `<name> <number>`. 0 if there is none. */
function numberIn(text: string, name: string): number {
  const at = `\n${text}`.indexOf(`\n${name} `);
  return at < 0 ? 0 : Number.parseInt(text.slice(at + name.length + 1), 10);
}
