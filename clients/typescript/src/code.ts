import type { AgentClient } from './agent-client.ts';
import { SandboxError } from './errors.ts';
import type { Chart, ExecuteResponseError, Result } from './generated/agent.ts';
import { parseReply } from './http-exchange.ts';
import { defaultOutputLength, OutputText } from './output-text.ts';

/** A value in each of its formats. Pictures and PDFs are base64. */
export interface CodeResult {
  text?: string;
  html?: string;
  markdown?: string;
  svg?: string;
  png?: string;
  jpeg?: string;
  pdf?: string;
  latex?: string;
  /** Integers that a number would change are `bigint` (Node 21 and later). */
  json?: unknown;
  javascript?: string;
  /**
   * A pandas DataFrame as `{column: [values]}`, with `bigint` like `json`. If it is absent, `extra.data_missing` has the
   * reason.
   */
  data?: unknown;
  /** The data of a plot. */
  chart?: Chart;
  /** Other formats by MIME type. */
  extra: Record<string, string>;
  /** The value of the code, and not a value that it displayed before its end. */
  isMainResult: boolean;
}

export interface Execution {
  /** The text of the main result. */
  text: string | undefined;
  results: CodeResult[];
  stdout: string;
  stderr: string;
  /** The exception of the code. */
  error: ExecuteResponseError | null;
  exitCode: number;
  executionCount: number;
  /** Output or results were removed, see `maxOutputLength` and `maxResultsLength`. */
  truncated: boolean;
}

export interface RunCodeOptions {
  /** `python` by default. */
  language?: string;
  /** A context of `createCodeContext`, or its id. The default is the default context of the language. */
  context?: string | { id: string };
  envs?: Record<string, string>;
  onStdout?: (text: string) => void;
  onStderr?: (text: string) => void;
  onResult?: (result: CodeResult) => void;
  /** The code is interrupted after that; `timed_out`. Default: no limit. */
  timeoutMs?: number;
  /** Interrupts the code. */
  signal?: AbortSignal;
  /** Maximum length of stdout and of stderr, in characters; longer output loses its beginning. Default 8 Mi. */
  maxOutputLength?: number;
  /** The maximum length of all results together, in characters of JSON; later results are left out. Default 64 Mi. */
  maxResultsLength?: number;
}

const defaultResultsLength = 64 * 1024 * 1024;

/**
 * Runs code in a context, which keeps its state between runs.
 * @throws {SandboxError}
 */
export async function runCode(agent: AgentClient, code: string, options: RunCodeOptions = {}): Promise<Execution> {
  const { timeoutMs } = options;
  if (timeoutMs === undefined) return execute(agent, code, options);
  const limit = new AbortController();
  const onTimeout = () =>
    limit.abort(new SandboxError('timed_out', `The code did not end in ${timeoutMs} ms and was interrupted`));
  const timer = setTimeout(onTimeout, timeoutMs);
  const signal = options.signal ? AbortSignal.any([options.signal, limit.signal]) : limit.signal;
  try {
    return await execute(agent, code, { ...options, signal });
  } finally {
    clearTimeout(timer);
  }
}

async function execute(agent: AgentClient, code: string, options: RunCodeOptions): Promise<Execution> {
  const { context = '', language = context ? '' : 'python', envs = {} } = options;
  const contextId = typeof context === 'string' ? context : context.id;
  const message = { code, language, contextId, envVars: envs };
  const execution: Execution = {
    ...{ text: undefined, results: [], stdout: '', stderr: '', error: null, exitCode: 0, executionCount: 0 },
    truncated: false,
  };
  const { maxOutputLength = defaultOutputLength, maxResultsLength = defaultResultsLength } = options;
  const stdout = new OutputText(maxOutputLength);
  const stderr = new OutputText(maxOutputLength);
  let resultsLength = 0;
  for await (const event of agent.stream('ExecutionService/Execute', message, options.signal)) {
    if (event.stdout) {
      stdout.addText(event.stdout.content);
      options.onStdout?.(event.stdout.content);
    } else if (event.stderr) {
      stderr.addText(event.stderr.content);
      options.onStderr?.(event.stderr.content);
    } else if (event.error) {
      execution.error = event.error;
      execution.exitCode = 1;
    } else if (event.result) {
      const result = codeResult(event.result);
      if (event.result.isMainResult) {
        execution.text = result.text;
        execution.exitCode = event.result.exitCode;
        execution.executionCount = event.result.executionCount;
      }
      options.onResult?.(result);
      resultsLength += JSON.stringify(event.result).length;
      if (resultsLength <= maxResultsLength) execution.results.push(result);
      else execution.truncated = true;
    }
  }
  for (const output of [stdout, stderr]) output.finish();
  execution.stdout = stdout.text;
  execution.stderr = stderr.text;
  execution.truncated ||= stdout.isTruncated || stderr.isTruncated;
  return execution;
}

/** A reviver for integers that a number would change. Node before 21 does not pass the source text. */
function bigInteger(_key: string, value: unknown, context?: { source?: string }): unknown {
  const isInexact = typeof value === 'number' && /^-?\d+$/.test(context?.source ?? '') && !Number.isSafeInteger(value);
  return isInexact ? BigInt(context!.source!) : value;
}

const textFormats = ['text', 'html', 'markdown', 'svg', 'png', 'jpeg', 'pdf', 'latex', 'javascript'] as const;

function codeResult(result: Result): CodeResult {
  const found: CodeResult = { extra: result.extra, isMainResult: result.isMainResult };
  for (const format of textFormats) if (result[format]) found[format] = result[format];
  if (result.json) found.json = parseReply(result.json, bigInteger);
  if (result.data) found.data = parseReply(result.data, bigInteger);
  if (result.chart) found.chart = result.chart;
  return found;
}
