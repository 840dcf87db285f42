import type { AgentClient } from './agent-client.ts';
import type { Chart, ExecuteResponseError, Result } from './generated/agent.ts';

/** A value in each form that it has. Pictures and PDFs are base64. */
export interface CodeResult {
  text?: string;
  html?: string;
  markdown?: string;
  svg?: string;
  png?: string;
  jpeg?: string;
  pdf?: string;
  latex?: string;
  json?: unknown;
  javascript?: string;
  /** A pandas DataFrame as `{column: [values]}`. */
  data?: unknown;
  /** The data of a plot. */
  chart?: Chart;
  /** Other formats by MIME type. */
  extra: Record<string, string>;
  /** The value of the code, not something that it displayed on its way. */
  isMainResult: boolean;
}

export interface Execution {
  /** The text of the main result. */
  text: string | undefined;
  results: CodeResult[];
  stdout: string;
  stderr: string;
  /** What the code raised. */
  error: ExecuteResponseError | null;
  exitCode: number;
  executionCount: number;
}

export interface RunCodeOptions {
  /** `python` by default. */
  language?: string;
  /** Of `createCodeContext`; default: the default context of the language. */
  contextId?: string;
  envs?: Record<string, string>;
  onStdout?: (text: string) => void;
  onStderr?: (text: string) => void;
  onResult?: (result: CodeResult) => void;
  /** Interrupts the code. */
  signal?: AbortSignal;
}

/** Runs code in a context, which keeps its state between runs. */
export async function runCode(agent: AgentClient, code: string, options: RunCodeOptions = {}): Promise<Execution> {
  const { language = options.contextId ? '' : 'python', contextId = '', envs = {} } = options;
  const message = { code, language, contextId, envVars: envs };
  const execution: Execution = {
    ...{ text: undefined, results: [], stdout: '', stderr: '', error: null, exitCode: 0, executionCount: 0 },
  };
  for await (const event of agent.stream('ExecutionService/Execute', message, options.signal)) {
    if (event.stdout) {
      execution.stdout += event.stdout.content;
      options.onStdout?.(event.stdout.content);
    } else if (event.stderr) {
      execution.stderr += event.stderr.content;
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
      execution.results.push(result);
      options.onResult?.(result);
    }
  }
  return execution;
}

const textFormats = ['text', 'html', 'markdown', 'svg', 'png', 'jpeg', 'pdf', 'latex', 'javascript'] as const;

function codeResult(result: Result): CodeResult {
  const found: CodeResult = { extra: result.extra, isMainResult: result.isMainResult };
  for (const format of textFormats) if (result[format]) found[format] = result[format];
  if (result.json) found.json = JSON.parse(result.json);
  if (result.data) found.data = JSON.parse(result.data);
  if (result.chart) found.chart = result.chart;
  return found;
}
