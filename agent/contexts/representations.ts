import { parseChart } from './chart.ts';
import type { Representations } from './execution-output.ts';

/** A Jupyter MIME bundle: one value in several formats. */
export type MimeBundle = Record<string, unknown>;

/** The MIME type that `kernels/python_app.py` and `kernels/node_kernel.mjs` use for charts. */
const chartMime = 'application/vnd.sandbox.chart+json';
/** `{text}`, the JSON text of a table, or `{missing}`, the reason why there is none. */
const dataMime = 'application/vnd.sandbox.data+json';
/** The key of `extra` for the reason why a table has no `data`. */
const dataMissing = 'data_missing';

const fields: Record<string, 'text' | 'html' | 'markdown' | 'svg' | 'png' | 'jpeg' | 'pdf' | 'latex' | 'javascript'> = {
  'text/plain': 'text',
  'text/html': 'html',
  'text/markdown': 'markdown',
  'image/svg+xml': 'svg',
  'image/png': 'png',
  'image/jpeg': 'jpeg',
  'application/pdf': 'pdf',
  'text/latex': 'latex',
  'application/javascript': 'javascript',
  'text/javascript': 'javascript',
};
const base64 = new Set(['image/png', 'image/jpeg', 'application/pdf']);

/** The contract's fields for a MIME bundle. Formats without a field go to `extra`. */
export function representations(bundle: MimeBundle): Representations {
  const found: Representations = {};
  for (const [mime, value] of Object.entries(bundle)) {
    const field = fields[mime];
    if (field) found[field] = base64.has(mime) ? asText(value).replaceAll(/\s/g, '') : asText(value);
    else if (mime === 'application/json') {
      found.json = JSON.stringify(value);
      found.chart ??= parseChart(value);
    } else if (mime === chartMime) found.chart = parseChart(value);
    else if (mime === dataMime) {
      const table = value as { text?: unknown; missing?: unknown } | null;
      if (typeof table?.text === 'string') found.data = table.text;
      else if (typeof table?.missing === 'string') found.extra = { ...found.extra, [dataMissing]: table.missing };
    } else {
      found.extra ??= {};
      found.extra[mime] = asText(value);
    }
  }
  return found;
}

/** A text may be a list of lines. */
function asText(value: unknown): string {
  if (typeof value === 'string') return value;
  if (Array.isArray(value) && value.every((line) => typeof line === 'string')) return value.join('');
  return JSON.stringify(value) ?? '';
}
