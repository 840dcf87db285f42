import { execFileSync } from 'node:child_process';

/** Makes a folder below `top` whose path has `length` characters, also more than the kernel takes in one call. */
export function deepFolder(top: string, length: number): string {
  const names: string[] = [];
  for (let rest = length - top.length; rest > 0; ) {
    const count = rest > 202 ? 200 : rest - 1;
    names.push('d'.repeat(count));
    rest -= count + 1;
  }
  const code =
    'import os, sys\nos.mkdir(sys.argv[1]); os.chdir(sys.argv[1])\nfor name in sys.argv[2:]: os.mkdir(name); os.chdir(name)';
  execFileSync('python3', ['-c', code, top, ...names]);
  return [top, ...names].join('/');
}
