/** The longest path of a socket on Linux, without the zero at the end. */
const maxSocketPath = 107;

/** Whether the path is short enough for a Unix socket. */
export function isSocketPath(path: string): boolean {
  return Buffer.byteLength(path) <= maxSocketPath;
}
