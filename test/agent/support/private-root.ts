import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { ensureRuntimeFolder } from '../../../runtime/sandbox-agent/runtime-folder.ts';
import type { AgentOptions } from './agent.ts';

/** Runs the words after the first three (scratch folder, tree, runtime folder) in a temporary copy of the tree. */
const inTree = `set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" "$1/root"
mkdir "$1/root/.platform"
mount --bind "$3" "$1/root/.platform"
mount -t proc proc "$1/root/proc"
root=$1/root
shift 3
exec chroot "$root" "$@"`;

/**
 * A separate root for an agent over an unchanged tree: its writes disappear with the agent, and nothing outside can be
 * written.
 */
export class PrivateRoot {
  readonly #scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-root-'));
  readonly #tree: string;
  readonly #runtime: string;

  private constructor(tree: string, runtime: string) {
    this.#tree = tree;
    this.#runtime = runtime;
  }

  /** A root over an unpacked image. */
  static async over(tree: string, cacheDir: string): Promise<PrivateRoot> {
    const runtime = await ensureRuntimeFolder(cacheDir, path.resolve(import.meta.dirname, '../../../agent/dist'));
    return new PrivateRoot(tree, runtime);
  }

  /** For `TestAgent.start`, with the environment of the agent. */
  options(env: Record<string, string> = {}): AgentOptions {
    const unshare = ['unshare', '--mount', '--propagation', 'private', 'sh', '-c', inTree, 'sh'];
    return {
      through: [...unshare, this.#scratch, this.#tree, this.#runtime],
      node: '/.platform/bin/node',
      folder: '/.platform/agent',
      env: { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', ...env },
    };
  }

  /** Call it after the end of the agent. */
  remove(): void {
    fs.rmdirSync(this.#scratch);
  }
}
