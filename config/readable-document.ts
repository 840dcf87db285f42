import fs, { constants } from 'node:fs';
import type { z } from 'zod';

/** Larger than any document that the platform writes for itself. */
const limitBytes = 1024 * 1024;

/** A file is there and is not what the platform wrote: cut short, garbage, of another kind, somebody else's. */
export class DamagedFileError extends Error {
  override name = 'DamagedFileError';
}

/**
 * Reads a JSON document that the platform wrote; null when there is none.
 * @throws {DamagedFileError} when it is empty, larger than 1 MiB, no JSON, not of this shape, no regular file, or
 *   belongs to another user
 */
export function readDocument<Schema extends z.ZodType>(file: string, schema: Schema): z.output<Schema> | null {
  const text = readWhole(file);
  if (text === null) return null;
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch {
    throw new DamagedFileError(`${file} is ${text === '' ? 'empty' : 'no JSON'}`);
  }
  const parsed = schema.safeParse(document);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new DamagedFileError(`${file} is not as expected: ${issue?.path.join('.') || 'document'}: ${issue?.message}`);
}

/**
 * `readDocument` for what can be made again: a damaged file is renamed to `<file>.damaged`, for operators to look at.
 * @param onDamage gets what is wrong with it
 */
export function readDocumentOrSetAside<Schema extends z.ZodType>(
  file: string,
  schema: Schema,
  onDamage: (problem: string) => void = () => {},
): z.output<Schema> | null {
  try {
    return readDocument(file, schema);
  } catch (error) {
    if (!(error instanceof DamagedFileError)) throw error;
    setAside(file);
    onDamage(error.message);
    return null;
  }
}

/** Renames what has this name to `<name>.damaged`, in place of an older one. */
export function setAside(file: string): void {
  const target = `${file}.damaged`;
  fs.rmSync(target, { recursive: true, force: true });
  fs.renameSync(file, target);
}

function readWhole(file: string): string | null {
  let descriptor: number;
  try {
    // A pipe in its place must not hold the reader up.
    descriptor = fs.openSync(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return null;
    if (code === 'ELOOP' || code === 'ENXIO') throw new DamagedFileError(`${file} is no regular file`);
    throw error;
  }
  try {
    const about = fs.fstatSync(descriptor);
    if (!about.isFile()) throw new DamagedFileError(`${file} is no regular file`);
    if (about.uid !== process.geteuid!()) throw new DamagedFileError(`${file} belongs to user ${about.uid}`);
    if (about.size > limitBytes) throw new DamagedFileError(`${file} has ${about.size} bytes`);
    return fs.readFileSync(descriptor, 'utf8');
  } finally {
    fs.closeSync(descriptor);
  }
}
