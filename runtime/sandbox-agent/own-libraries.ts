import { chmod, copyFile, open } from 'node:fs/promises';
import path from 'node:path';
import { runCommand } from '../process/command.ts';

const loaderName = 'ld.so';

/** Copies libraries to `lib` of a folder. The loader, which is one of them, gets the name `ld.so`. */
export async function copyLibraries(libraries: readonly string[], folder: string): Promise<void> {
  for (const library of libraries) {
    const name = path.basename(library);
    await copyFile(library, path.join(folder, 'lib', name.startsWith('ld-linux') ? loaderName : name));
  }
}

/**
 * Copies a program to `bin` of a folder. The copy uses the libraries in `lib` of that folder, and none of the image in
 * which it runs.
 * @param mount where sandboxes see the folder
 * @throws {Error} when the copy does not run
 */
export async function copyWithOwnLibraries(program: string, folder: string, mount: string): Promise<void> {
  const copy = path.join(folder, 'bin', path.basename(program));
  await copyFile(program, copy);
  // Not with patchelf: its version 0.18 breaks Node when it changes both.
  await replaceLoader(copy, `${mount}/lib/${loaderName}`);
  await runCommand('patchelf', ['--force-rpath', '--set-rpath', `${mount}/lib`, copy]);
  await chmod(copy, 0o755);
  const lib = path.join(folder, 'lib');
  await runCommand(path.join(lib, loaderName), ['--library-path', lib, copy, '--version']).catch((error) => {
    throw new Error(`patchelf of this machine makes a ${path.basename(program)} that does not run`, { cause: error });
  });
}

/** Replaces the path of the loader in a program (ELF, 64 bits). @throws {Error} when there is not enough room for it */
async function replaceLoader(file: string, loader: string): Promise<void> {
  await using program = await open(file, 'r+');
  const read = async (position: number, length: number) => {
    const { buffer, bytesRead } = await program.read({ buffer: Buffer.alloc(length), position });
    return buffer.subarray(0, bytesRead);
  };
  const interpreter = 3;
  const header = await read(0, 64);
  const [size, count] = [header.readUInt16LE(54), header.readUInt16LE(56)];
  const table = await read(Number(header.readBigUInt64LE(32)), size * count);
  const index = Array.from({ length: count }, (_, each) => table.readUInt32LE(each * size)).indexOf(interpreter);
  if (index === -1) throw new Error(`${file} has no dynamic loader: only programs for glibc can be taken along`);
  const offset = Number(table.readBigUInt64LE(index * size + 8));
  const room = Buffer.alloc(Number(table.readBigUInt64LE(index * size + 32)));
  if (loader.length >= room.length) throw new Error(`${file} has no room for the loader ${loader}`);
  room.write(loader);
  await program.write(room, 0, room.length, offset);
}
