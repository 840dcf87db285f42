import type { IncomingMessage, ServerResponse } from 'node:http';
import os from 'node:os';
import type { AgentEnvironment } from '../boot/environment.ts';
import { resolvePath, statPath } from '../filesystem/path.ts';
import { judgeSignature, type SignatureVerdict } from '../http/access.ts';
import { serveDownload } from './download.ts';
import { FileRequestError, replyFileError, toFileError } from './file-error.ts';
import { serveUpload, UnverifiedContent } from './upload.ts';

/** The credentials of a file request. */
export interface FileAccess {
  /** The headers contained the sandbox's token, or the sandbox requires none. */
  byHeader: boolean;
  accessToken: string | null;
}

const unverified = new UnverifiedContent();

/** The user name in signatures of the agent's own URLs that name none. */
const ownUser = 'root';

/** `/archive?path=…`: a folder as a tar, authorized by headers only. Its code is loaded when it is first used. */
export async function serveArchive(
  req: IncomingMessage,
  res: ServerResponse,
  access: FileAccess,
  environment: AgentEnvironment,
): Promise<void> {
  try {
    if (!access.byHeader) throw new FileRequestError(401, 'access token missing or wrong');
    if (req.method !== 'GET' && req.method !== 'POST') {
      throw new FileRequestError(405, 'use GET or POST', { allow: 'GET, POST' });
    }
    const given = new URL(req.url!, 'http://agent').searchParams.get('path');
    const folder = resolvePath(given ?? '', environment.home());
    if (req.method === 'POST') await (await import('./unpack-archive.ts')).serveUnpack(req, res, folder);
    else await (await import('./pack-folder.ts')).serveFolder(req, res, folder);
  } catch (error) {
    replyFileError(req, res, toFileError(error));
  }
}

/** `/upload` and `/download/{path}`, authorized by headers or by a signed URL. */
export async function serveFiles(
  req: IncomingMessage,
  res: ServerResponse,
  access: FileAccess,
  environment: AgentEnvironment,
): Promise<void> {
  try {
    const url = new URL(req.url!, 'http://agent');
    const query = url.searchParams;
    const resolve = (given: string) => resolvePath(given, environment.home());
    const operation = url.pathname === '/upload' ? 'write' : 'read';
    const allow = (absolute: string, given: string) => {
      if (!access.byHeader) checkSignature(query, operation, [absolute, given], access.accessToken);
      return absolute;
    };
    if (operation === 'write') {
      if (req.method !== 'POST') throw new FileRequestError(405, 'use POST', { allow: 'POST' });
      if (!access.byHeader && !query.has('signature')) throw new FileRequestError(401, 'access token missing or wrong');
      await serveUpload(req, res, {
        path: query.get('path') ?? undefined,
        resolve: (given) => allow(resolve(given), given),
        unverified: access.byHeader ? null : unverified,
        waitingFolder: os.tmpdir(),
      });
      return;
    }
    if (req.method !== 'GET' && req.method !== 'HEAD')
      throw new FileRequestError(405, 'use GET', { allow: 'GET, HEAD' });
    const given = decodePath(url.pathname.slice('/download/'.length));
    const absolute = allow(resolve(given.startsWith('/') ? given : `/${given}`), given);
    // `/download/notes.txt` may mean the same file as `path=notes.txt` of an upload, but a signature for `/notes.txt`
    // may not.
    const inHome =
      access.byHeader || isSignedFor(query, operation, given, access.accessToken) ? resolve(given) : absolute;
    const missing = inHome !== absolute && (await statPath(absolute).catch(() => undefined)) === undefined;
    await serveDownload(req, res, missing && (await statPath(inHome).catch(() => undefined)) ? inHome : absolute);
  } catch (error) {
    replyFileError(req, res, toFileError(error));
  }
}

function decodePath(encoded: string): string {
  try {
    return decodeURIComponent(encoded);
  } catch {
    throw new FileRequestError(400, 'malformed percent-encoding in the path');
  }
}

/**
 * @param unnamedUser what is signed for a query without a user name
 * @throws {FileRequestError} 401 unless the query is signed for one of `paths`, which are spellings of the same file
 */
export function checkSignature(
  query: URLSearchParams,
  operation: 'read' | 'write',
  paths: string[],
  token: string | null,
  unnamedUser = ownUser,
): void {
  const verdicts = paths.map((path) => signatureVerdict(query, operation, path, token, unnamedUser));
  if (verdicts.includes('valid')) return;
  throw new FileRequestError(401, verdicts.includes('expired') ? 'signature has expired' : 'signature is not valid');
}

function isSignedFor(query: URLSearchParams, operation: 'read' | 'write', path: string, token: string | null): boolean {
  return signatureVerdict(query, operation, path, token, ownUser) === 'valid';
}

/** @throws {FileRequestError} 401 when there is no signature, or no token to check it with */
function signatureVerdict(
  query: URLSearchParams,
  operation: 'read' | 'write',
  path: string,
  token: string | null,
  unnamedUser: string,
): SignatureVerdict {
  // Standard base64 contains `+`, which becomes a space in an unescaped query.
  const signature = query.get('signature')?.replaceAll(' ', '+');
  if (signature === undefined || token === null) throw new FileRequestError(401, 'access token missing or wrong');
  const username = query.get('username') ?? unnamedUser;
  const expiration = query.get('signature_expiration');
  return judgeSignature(signature, { path, operation, username, expiration }, token);
}
