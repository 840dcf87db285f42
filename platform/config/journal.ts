import fs from 'node:fs';

/** The priorities of syslog(3), by the levels of pino and by those of Temporal's servers. */
const priorities = new Map<unknown, number>([
  [60, 2],
  ['fatal', 2],
  [50, 3],
  ['error', 3],
  [40, 4],
  ['warn', 4],
  [30, 6],
  ['info', 6],
]);
const plainPriority = 6;
const debugPriority = 7;

/** Whether this process's standard output is systemd's journal, as systemd says in `JOURNAL_STREAM`: systemd.exec(5). */
export function writesToJournal(): boolean {
  const { JOURNAL_STREAM: journal } = process.env;
  if (!journal) return false;
  const { dev, ino } = fs.fstatSync(1, { bigint: true });
  return journal === `${dev}:${ino}`;
}

/**
 * A line for the journal, which itself shows the time, the machine and the process. A line of JSON with a level, as pino
 * and Temporal write them, becomes its message, followed by the other fields, with its priority before it: sd-daemon(3).
 * @param line without a line break at its end
 * @param program comes first; for a log of several programs
 */
export function journalLine(line: string, program?: string): string {
  const { priority, text } = readEntry(line) ?? { priority: plainPriority, text: line };
  return `<${priority}>${program ? `${program}: ` : ''}${text}\n`;
}

function readEntry(line: string): { priority: number; text: string } | null {
  if (!line.startsWith('{')) return null;
  let entry: unknown;
  try {
    entry = JSON.parse(line);
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
  const { level, time: _time, ts: _ts, pid: _pid, hostname: _hostname, name: _name, msg, ...fields } = entry as Entry;
  if (level === undefined) return null;
  // A message with a line break would begin another line of the journal.
  const message = typeof msg === 'string' ? msg.replaceAll(/\p{Cc}+/gu, ' ') : '';
  const rest = Object.keys(fields).length > 0 ? JSON.stringify(fields) : '';
  return { priority: priorities.get(level) ?? debugPriority, text: [message, rest].filter(Boolean).join(' ') };
}

type Entry = Partial<Record<'level' | 'time' | 'ts' | 'pid' | 'hostname' | 'name' | 'msg', unknown>>;
