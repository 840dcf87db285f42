/**
 * A text as a literal of SQL, the same as MikroORM's and that of `pg`. MikroORM joins it character by character, which for
 * JSON of some kilobytes takes as long as several requests to an endpoint of a webhook, and leaves much garbage.
 */
export function escapeLiteral(text: string): string {
  const quoted = `'${text.replaceAll("'", "''")}'`;
  return quoted.includes('\\') ? ` E${quoted.replaceAll('\\', '\\\\')}` : quoted;
}
