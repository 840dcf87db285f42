import fs, { constants } from 'node:fs';
import type { z } from 'zod';

/** Larger than any document that the platform writes. */
const limitBytes = 1024 * 1024;

/**
 * The file exists but was not written by the platform: it is truncated, not JSON, of another kind, or owned by another
 * user.
 */
export class DamagedFileError extends Error {
  override name = 'DamagedFileError';
}

/**
 * Reads a JSON document that the platform wrote. Null when there is none.
 * @throws {DamagedFileError} when it is empty, larger than 1 MiB, not JSON, not of this shape, not a regular file, or
 * belongs to another user
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
 * `readDocument` for documents that can be recreated: a damaged file is renamed to `<file>.damaged` for operators.
 * @param onDamage called with the problem
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

/** Renames the file to `<name>.damaged`, replacing an older one. */
export function setAside(file: string): void {
  const target = `${file}.damaged`;
  fs.rmSync(target, { recursive: true, force: true });
  fs.renameSync(file, target);
}

function readWhole(file: string): string | null {
  let descriptor: number;
  try {
    // A pipe in its place must not block the reader.
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
