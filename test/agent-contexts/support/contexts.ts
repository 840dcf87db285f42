import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { Contexts } from '../../../agent/contexts/contexts.ts';
import type { ExecuteEvent, ExecutionError, ExecutionResult } from '../../../agent/contexts/execution-output.ts';

/** Contexts with real kernels, in a separate home folder. */
export class TestContexts {
  readonly home = fs.mkdtempSync(path.join(os.tmpdir(), 'contexts-test-'));
  readonly contexts: Contexts;

  /** @param env is added to a plain environment; `PATH` precedes the system's */
  constructor(env: Record<string, string> = {}, options: { interruptGraceMs?: number; defaultFolder?: string } = {}) {
    const system = '/usr/local/bin:/usr/bin:/bin';
    const variables = { HOME: this.home, ...env, PATH: env.PATH ? `${env.PATH}:${system}` : system };
    this.contexts = new Contexts({
      environment: { variables: () => variables, home: () => this.home, searchPath: () => variables.PATH },
      scripts: path.resolve(import.meta.dirname, '../../../agent/contexts/kernels'),
      // No test waits for its end, and a kernel must not be ended because the machine stalls.
      interruptGraceMs: 60_000,
      ...options,
    });
  }

  async create(language: string, cwd = ''): Promise<string> {
    return (await this.contexts.create({ language, cwd }, never)).id;
  }

  /** The events of an execution as they arrive. */
  stream(
    run: { contextId?: string; language?: string; code: string; envVars?: Record<string, string>; wantsData?: boolean },
    signal: AbortSignal = never,
  ): AsyncGenerator<ExecuteEvent> {
    return this.contexts.execute({ contextId: '', language: '', envVars: {}, wantsData: false, ...run }, signal);
  }

  /** Runs code to its end. */
  async run(run: Parameters<TestContexts['stream']>[0]): Promise<ExecutionRecord> {
    return record(this.stream(run));
  }

  async close(): Promise<void> {
    await this.contexts.close();
    fs.rmSync(this.home, { recursive: true, force: true });
  }
}

/** A signal that never aborts. */
const never = new AbortController().signal;

/** The output of an execution. */
export interface ExecutionRecord {
  events: ExecuteEvent[];
  stdout: string;
  stderr: string;
  /** The result that ended the execution. */
  main: ExecutionResult | undefined;
  displays: ExecutionResult[];
  error: ExecutionError | undefined;
}

export async function record(events: AsyncIterable<ExecuteEvent>): Promise<ExecutionRecord> {
  const found: ExecutionRecord = {
    events: [],
    stdout: '',
    stderr: '',
    main: undefined,
    displays: [],
    error: undefined,
  };
  for await (const event of events) {
    found.events.push(event);
    if (event.type === 'error') found.error = event.error;
    else if (event.type !== 'result') found[event.type] += event.content;
    else if (event.result.isMainResult) found.main = event.result;
    else found.displays.push(event.result);
  }
  const last = found.events.at(-1);
  const ended = last?.type === 'error' || (last?.type === 'result' && last.result.isMainResult);
  if (!ended) throw new Error(`a run must end with its main result or an error, not with ${JSON.stringify(last)}`);
  return found;
}

/** The output in its order, with adjacent pieces joined: `['out a', 'err b', 'display']`. */
export function outline({ events }: ExecutionRecord): string[] {
  const lines: string[] = [];
  for (const event of events) {
    const name = { stdout: 'out', stderr: 'err', result: 'result', error: 'error' }[event.type];
    const text = event.type === 'stdout' || event.type === 'stderr' ? event.content : '';
    if (text && lines.at(-1)?.startsWith(`${name} `)) lines[lines.length - 1] += text;
    else lines.push(text ? `${name} ${text}` : name);
  }
  return lines;
}

/** Whether a process with this pid exists and is not a zombie. */
export function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(fs.readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}
