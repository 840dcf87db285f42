import { parseExactly } from '../contexts/exact-json.ts';
import type { ExecuteEvent, ExecutionResult } from '../contexts/execution-output.ts';
import { chartJson } from './interpreter-charts.ts';

/** The lines of a `/execute` reply for an event, each with its line end. */
export function eventLines(event: ExecuteEvent): string[] {
  switch (event.type) {
    case 'stdout':
    case 'stderr':
      return [line({ type: event.type, text: event.content, timestamp: new Date().toISOString() })];
    case 'error':
      return [countLine(event.executionCount), line({ type: 'error', ...event.error })];
    case 'result':
      return resultLines(event.result);
  }
}

/** A value's formats are a line. The last result of the code may have none: then there is only the error or the end. */
function resultLines(result: ExecutionResult): string[] {
  const { isMainResult, executionCount, exitCode } = result;
  const formats = resultFormats(result);
  const hasFormats = Object.values(formats).some((format) => format !== undefined);
  const lines: string[] = [];
  if (isMainResult) lines.push(countLine(executionCount));
  if (hasFormats) {
    lines.push(line({ type: 'result', ...formats, extra: formats.extra ?? {}, is_main_result: isMainResult }));
  }
  // A shell's code that fails is an error without a name.
  if (exitCode !== 0) lines.push(line({ type: 'error', name: '', value: String(exitCode), traceback: '' }));
  return lines;
}

function resultFormats(result: ExecutionResult) {
  const { text, html, markdown, svg, png, jpeg, pdf, latex, javascript, json, data, chart, extra } = result;
  return {
    text: text === undefined ? undefined : withoutQuotes(text),
    html,
    markdown,
    svg,
    png,
    jpeg,
    pdf,
    latex,
    javascript,
    json: parseIfJson(json),
    data: parseIfJson(data),
    chart: chart && chartJson(chart),
    extra: extra && Object.fromEntries(Object.entries(extra).map(([mime, value]) => [mime, extraValue(mime, value)])),
  };
}

/** E2B's texts of strings have no quotes. */
function withoutQuotes(text: string): string {
  const [first, last] = [text.at(0), text.at(-1)];
  return text.length > 1 && first === last && (first === "'" || first === '"') ? text.slice(1, -1) : text;
}

/** JSON formats are objects. `representations` has made a text of them. */
function extraValue(mime: string, value: string): unknown {
  return /[/+]json$/.test(mime) ? (parseIfJson(value) ?? value) : value;
}

/** Undefined if the code of the sandbox displayed something else. */
function parseIfJson(text: string | undefined): unknown {
  if (text === undefined) return undefined;
  try {
    return parseExactly(text);
  } catch {
    return undefined;
  }
}

function countLine(executionCount: number): string {
  return line({ type: 'number_of_executions', execution_count: executionCount });
}

function line(event: object): string {
  return `${JSON.stringify(event)}\n`;
}
