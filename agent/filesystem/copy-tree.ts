import fs from 'node:fs/promises';
import { Code } from '@connectrpc/connect';
import { ConnectError } from '../rpc/connect-error.ts';

/**
 * Copies a tree with its owners, modes, times and links, because rename(2) cannot move it to another file system.
 * @throws {ConnectError} `failed_precondition` for sockets, pipes and devices
 */
export async function copyTree(source: Buffer, destination: Buffer): Promise<void> {
  const stat = await fs.lstat(source);
  if (stat.isSymbolicLink()) {
    await fs.symlink(await fs.readlink(source, 'buffer'), destination);
    await fs.lchown(destination, stat.uid, stat.gid);
    await fs.lutimes(destination, stat.atime, stat.mtime);
    return;
  }
  if (stat.isDirectory()) {
    await fs.mkdir(destination);
    for (const name of await fs.readdir(source, 'buffer')) {
      await copyTree(join(source, name), join(destination, name));
    }
  } else if (stat.isFile()) await fs.copyFile(source, destination, fs.constants.COPYFILE_EXCL);
  else throw new ConnectError('cannot move a special file to another filesystem', Code.FailedPrecondition);
  await fs.chown(destination, stat.uid, stat.gid);
  // After chown, because chown clears the set-id bits.
  await fs.chmod(destination, stat.mode & 0o7777);
  await fs.utimes(destination, stat.atime, stat.mtime);
}

function join(folder: Buffer, name: Buffer): Buffer {
  return Buffer.concat([folder, Buffer.from('/'), name]);
}
