/** The encodings in which prepared files are sent, best first. */
const prepared = ['br', 'gzip'] as const;
export type PreparedEncoding = (typeof prepared)[number];

/**
 * The best prepared encoding that a client accepts (RFC 9110, 12.5.3). Null: the file must be sent as it is. A wildcard
 * counts as no encoding, because no browser sends one alone.
 * @param accepted the field `Accept-Encoding`
 */
export function chooseEncoding(accepted: string): PreparedEncoding | null {
  const accepts = (name: string) =>
    new RegExp(`(^|[\\s,])${name}\\s*(,|$|;\\s*q=(1|0\\.0*[1-9]))`, 'i').test(accepted.slice(0, 1024));
  return prepared.find(accepts) ?? null;
}
