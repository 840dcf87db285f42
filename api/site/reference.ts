import { type Html, html } from '../../domain/html.ts';
import type { GuidePage } from './guide.ts';
import { codeBlock, renderMarkdown, type Section } from './markdown.ts';
import { fieldEntry, fieldList, type Part, type Schemas } from './schema-fields.ts';

interface Operation {
  method: string;
  path: string;
  operation: Part;
}

/** The pages of an OpenAPI document: its introduction with a list of the operations, and a page for each tag. */
export function referencePages(document: Part, { path, title }: { path: string; title: string }): GuidePage[] {
  const byTag = new Map<string, Operation[]>();
  for (const [route, item] of Object.entries<Part>(document.paths)) {
    for (const [method, operation] of Object.entries<Part>(item)) add(byTag, { method, path: route, operation });
  }
  const events = Object.entries<Part>(document.webhooks ?? {});
  const pages = [...byTag].map(([tag, operations]) => tagPage(document, path, tag, operations));
  if (events.length > 0) pages.push(eventsPage(document, path, events));
  return [overview(document, { path, title }, pages), ...pages];
}

function add(byTag: Map<string, Operation[]>, operation: Operation): void {
  const tag = operation.operation.tags?.[0] ?? 'Other';
  byTag.set(tag, [...(byTag.get(tag) ?? []), operation]);
}

function overview(document: Part, { path, title }: { path: string; title: string }, pages: GuidePage[]): GuidePage {
  const { content, sections } = renderMarkdown(document.info.description ?? '', () => null);
  const lists = pages.map(
    (page) => html`<h2 id="${slug(page.title)}"><a href="${page.path}">${page.title}</a></h2>
<ul class="operations">
${page.sections.map(({ id, label, text }) => html`<li><a href="${page.path}#${id}"><code>${label}</code></a> ${text.split('.\n', 1)[0]!}</li>\n`)}</ul>
`,
  );
  return {
    path,
    title,
    content: html`<h1>${title}</h1>
${content}
${lists}`,
    sections: sections.map((section) => ({ ...section, label: title })),
    outline: pages.map((page) => ({ id: slug(page.title), label: page.title, depth: 2 })),
  };
}

function tagPage(document: Part, path: string, tag: string, operations: Operation[]): GuidePage {
  const shown = operations.map((each) => ({ ...each, label: `${each.method.toUpperCase()} ${each.path}` }));
  const schemas = document.components?.schemas ?? {};
  const sections = shown.map(({ operation, label }): Section => {
    const description = (operation.description ?? '').replace(/[*`]/g, '');
    const text = `${operation.summary ?? ''}.\n${description} ${operation.operationId}`;
    return { id: operation.operationId, label, depth: 2, text };
  });
  return {
    path: `${path}/${slug(tag)}`,
    title: tag,
    content: html`<h1>${tag}</h1>
${shown.map((each) => operationSection(each, schemas))}`,
    sections,
    // The first part of the summary is shorter than the path, and says more.
    outline: shown.map(({ operation: { operationId, summary = operationId } }) => {
      return { id: operationId, label: summary.split(/[;:,]/)[0], depth: 2 };
    }),
  };
}

function operationSection({ operation, label, method, path }: Operation & { label: string }, schemas: Schemas): Html {
  const { operationId, summary, description, parameters = [], requestBody, responses } = operation;
  const body = requestBody?.content && Object.entries<Part>(requestBody.content)[0];
  const fields = body && fieldList(body[1].schema, schemas);
  const samples: Part[] = operation['x-codeSamples'] ?? [curlSample(method, path, operation)];
  return html`<section aria-labelledby="${operationId}">
<h2 id="${operationId}"><a href="#${operationId}"><code>${label}</code></a></h2>
<p><strong>${summary ?? ''}</strong></p>
${description ? renderMarkdown(description, () => null).content : null}
${
  parameters.length > 0
    ? html`<h3>Parameters</h3>
<dl class="fields">
${parameters.map((each: Part) => fieldEntry(each.name, { description: each.description, ...each.schema }, each.required, schemas))}</dl>
`
    : null
}${
  fields
    ? html`<h3>Body <span class="quiet">${body[0]}</span></h3>
${fields}`
    : null
}${replies(responses, schemas)}
${samples.map(
  (sample) => html`<details><summary>${sample.label}</summary>
${codeBlock(sample.source, sample.lang === 'shell' ? 'sh' : sample.lang)}</details>
`,
)}</section>
`;
}

/** The successful replies: fields and example are folded, because most are long. */
function replies(responses: Part, schemas: Schemas): Html[] {
  const successful = Object.entries<Part>(responses).filter(([status]) => Number(status) < 400);
  return successful.map(([status, { content = {} }]) => {
    const [type, media] = Object.entries<Part>(content)[0] ?? [];
    if (!type) return html`<h3>Reply ${status}</h3>\n`;
    // The fields of the envelope are the same everywhere.
    const fields = fieldList(media.schema?.properties?.data ?? media.schema, schemas);
    const { example } = media;
    return html`<h3>Reply ${status} <span class="quiet">${type}</span></h3>
${
  fields
    ? html`<details><summary>Fields${media.schema?.properties?.data ? html` of <code>data</code>` : null}</summary>
${fields}</details>
`
    : null
}${
  example === undefined
    ? null
    : html`<details><summary>Example</summary>
${typeof example === 'string' ? codeBlock(example, 'text') : codeBlock(JSON.stringify(example, null, 2), 'json')}</details>
`
}`;
  });
}

function curlSample(method: string, path: string, { requestBody, parameters = [], security }: Part): Part {
  const examples = new Map<string, Part>(parameters.map((each: Part) => [each.name, each.example]));
  const address = path.replace(/\{(\w+)\}/g, (whole, name) => examples.get(name) ?? whole);
  const example = requestBody?.content['application/json']?.example;
  const isPublic = Array.isArray(security) && security.length === 0;
  const lines = [
    `curl -sS${method === 'get' ? '' : ` -X ${method.toUpperCase()}`} "$PLATFORM_URL${address}"`,
    ...(isPublic ? [] : ['-H "X-API-Key: $PLATFORM_API_KEY"']),
    ...(example
      ? [`-H 'Content-Type: application/json'`, `-d '${JSON.stringify(example).replaceAll("'", `'\\''`)}'`]
      : []),
  ];
  return { lang: 'shell', label: 'curl', source: lines.join(' \\\n  ') };
}

/** The events that webhooks send. */
function eventsPage(document: Part, path: string, events: [string, Part][]): GuidePage {
  const schemas = document.components?.schemas ?? {};
  const sections = events.map(([name, { post }]): Section => {
    return { id: name, label: name, depth: 2, text: `${post.summary}.\n${post.description ?? ''}` };
  });
  const [, { post: first }] = events[0]!;
  const content = events.map(([name, { post }]) => {
    const { example } = post.requestBody.content['application/json'];
    return html`<section aria-labelledby="${name}">
<h2 id="${name}"><a href="#${name}"><code>${name}</code></a></h2>
<p>${post.summary}</p>
<details><summary>Example</summary>
${codeBlock(JSON.stringify(example, null, 2), 'json')}</details>
</section>
`;
  });
  return {
    path: `${path}/events`,
    title: 'Events of webhooks',
    content: html`<h1>Events of webhooks</h1>
<p>Each event is a <code>POST</code> to your URL: see <a href="/guide/webhooks">Webhooks</a>.</p>
<h2 id="headers">Headers</h2>
<dl class="fields">
${first.parameters.map((each: Part) => fieldEntry(each.name, { description: each.description, ...each.schema }, each.required, schemas))}</dl>
${content}`,
    sections,
    outline: sections.map(({ id, label, depth }) => ({ id, label, depth })),
  };
}

function slug(text: string): string {
  return text.toLowerCase().replace(/[^a-z0-9]+/g, '-');
}
