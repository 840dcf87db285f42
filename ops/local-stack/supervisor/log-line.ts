/** pino's number for `warn`. */
const warnLevel = 40;

/**
 * The facts of a log line that the supervisor needs.
 * @returns undefined for a line that is not pino's
 */
export function readLogLine(line: string): { isReady: boolean; warning?: string } | undefined {
  if (!line.startsWith('{')) return undefined;
  let entry: { level?: number; msg?: string; err?: { message?: string }; error?: string };
  try {
    entry = JSON.parse(line);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
  const isReady = entry.msg === 'ready';
  if ((entry.level ?? 0) < warnLevel) return { isReady };
  const cause = entry.err?.message ?? entry.error;
  return { isReady, warning: [entry.msg, cause].filter(Boolean).join(': ') };
}
