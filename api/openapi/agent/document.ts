import { readFileSync } from 'node:fs';
import path from 'node:path';
import { releaseVersion } from '../../../platform/config/release.ts';
import { type AgentOperation, agentOperations } from './operations.ts';
import { createSamples } from './samples.ts';

/** Schemas of the agent's messages, made from its proto file (`test/clients/generated-types.test.ts`). */
const messages = JSON.parse(readFileSync(path.join(import.meta.dirname, 'messages.json'), 'utf8'));

/**
 * The OpenAPI document of the agent in each sandbox, for the reference. Its schemas are generated from the proto file.
 */
export function agentDocument(baseDomain: string): object {
  const procedures = agentOperations.map((operation) => [
    `/sandboxagent.${operation.procedure}`,
    { post: describeProcedure(operation) },
  ]);
  return {
    openapi: '3.1.0',
    info: {
      title: 'Agent in the sandbox',
      version: releaseVersion,
      description:
        'Files, processes and code of one sandbox, at its own domain through the gateway. `DOMAIN` is its `sandbox_domain`, `TOKEN` its ' +
        '`envd_access_token`; both are in the sandbox object. Procedures speak the Connect protocol, gRPC-Web, and gRPC over HTTP/2, in JSON or ' +
        'protobuf. If the domain of the sandbox does not resolve, send requests to the gateway with `-H "Host: ' +
        '$DOMAIN"`.',
    },
    servers: [
      { url: `http://{sandbox}.${baseDomain}`, variables: { sandbox: { default: 'sbx-5k2vq8m3w7xj4r6t9ypz1hdn' } } },
    ],
    components: {
      securitySchemes: { accessToken: { type: 'apiKey', in: 'header', name: 'X-Access-Token' } },
      schemas: { ...messages, ...errorSchemas },
    },
    security: [{ accessToken: [] }],
    tags: ['Files', 'Filesystem', 'Process', 'ContextService', 'ExecutionService'].map((name) => ({ name })),
    paths: { ...plainPaths, ...Object.fromEntries(procedures) },
  };
}

const errorSchemas = {
  AgentError: {
    type: 'object',
    properties: {
      code: { type: 'string', examples: ['not_found'] },
      message: { type: 'string', examples: ['/x: not found: no such file or directory'] },
    },
  },
  FileError: { type: 'object', properties: { message: { type: 'string' } } },
};

const refusal = (schema: string) => ({
  description: 'A refusal',
  content: { 'application/json': { schema: { $ref: `#/components/schemas/${schema}` } } },
});

function describeProcedure(operation: AgentOperation): object {
  const [tag, method] = operation.procedure.split('/') as [string, string];
  const input = { $ref: `#/components/schemas/${operation.input ?? `${method}Request`}` };
  const output = { $ref: `#/components/schemas/${operation.output ?? `${method}Response`}` };
  const type = operation.stream ? 'application/connect+json' : 'application/json';
  const [request, reply] = [operation.requests, operation.replies].map((all) => (all.length === 1 ? all[0] : all));
  const frames = { server: 'The reply is a stream of frames.', client: 'The request is a stream of frames.' };
  return {
    operationId: operation.procedure.replace('/', ''),
    tags: [tag],
    summary: operation.summary,
    description: operation.stream ? `${operation.description} ${frames[operation.stream]}` : operation.description,
    ...(operation.withoutToken && { security: [] }),
    requestBody: { required: true, content: { [type]: { schema: input, example: request } } },
    responses: {
      200: { description: operation.summary, content: { [type]: { schema: output, example: reply } } },
      default: refusal('AgentError'),
    },
    'x-codeSamples': createSamples(operation),
  };
}

const binary = { type: 'string', format: 'binary' };
const shell = (source: string) => [{ lang: 'shell', label: 'curl', source }];

const folderParameter = {
  ...{ name: 'path', in: 'query', required: true, schema: { type: 'string' }, example: '/tmp/example' },
  description: 'The folder: absolute, or relative to the home folder.',
};

/** Paths that are not Connect procedures. */
const plainPaths = {
  '/health': {
    get: {
      ...{ operationId: 'health', tags: ['Files'], summary: 'Whether the agent answers', security: [] },
      description: 'Needs no token.',
      responses: { 200: { description: 'It does', content: { 'text/plain': { example: 'OK' } } } },
      'x-codeSamples': shell('curl -sS --fail-with-body http://$DOMAIN/health'),
    },
  },
  '/upload': {
    post: {
      ...{ operationId: 'upload', tags: ['Files'], summary: 'Write a file' },
      description:
        'The form has the fields `file` and `path` in any order; with a signed URL `path` may be in the query. ' +
        'Missing folders are created. Readers see either the old ' +
        'file or the complete new one.',
      requestBody: {
        required: true,
        content: {
          'multipart/form-data': {
            schema: {
              ...{ type: 'object', required: ['file', 'path'] },
              properties: { path: { type: 'string' }, file: { type: 'string', format: 'binary' } },
            },
            example: { path: '/tmp/example/a.txt', file: 'hello\n' },
          },
        },
      },
      responses: {
        200: { description: 'It is there', content: { 'text/plain': { example: 'uploaded: /tmp/example/a.txt' } } },
        default: refusal('FileError'),
      },
      'x-codeSamples': shell(
        'echo hello | curl -sS --fail-with-body http://$DOMAIN/upload -H "X-Access-Token: $TOKEN" -F path=/tmp/example/a.txt -F file=@-',
      ),
    },
  },
  '/download/{path}': {
    get: {
      ...{ operationId: 'download', tags: ['Files'], summary: 'Read a file' },
      description:
        'Sends a regular file, with `ETag` and `Last-Modified`. Supports `If-None-Match`, `If-Range` and one `Range`.',
      parameters: [
        { name: 'path', in: 'path', required: true, schema: { type: 'string' }, example: 'tmp/example/a.txt' },
      ],
      responses: {
        200: { description: 'Its content', content: { 'application/octet-stream': { example: 'hello\n' } } },
        default: refusal('FileError'),
      },
      'x-codeSamples': shell(
        'curl -sS --fail-with-body http://$DOMAIN/download/tmp/example/a.txt -H "X-Access-Token: $TOKEN"',
      ),
    },
  },
  '/archive': {
    get: {
      ...{ operationId: 'readArchive', tags: ['Files'], summary: 'Read a folder as a tar' },
      parameters: [folderParameter],
      description:
        'With modes, owners, times and symbolic links. The first entry is `./`. Sockets, pipes, devices and the ' +
        'content of file systems such as procfs are left out: the entry of their folder has their number in the ' +
        'extended header `SANDBOX.skipped`. After an error the reply breaks off; if it could be added, the last entry ' +
        'has the reason in `SANDBOX.error`. Signed URLs are not accepted.',
      responses: {
        200: {
          description: 'The tar',
          content: { 'application/x-tar': { schema: binary, example: 'bytes of a tar' } },
        },
        default: refusal('FileError'),
      },
      'x-codeSamples': shell(
        'curl -sS --fail-with-body "http://$DOMAIN/archive?path=/tmp/example" -H "X-Access-Token: $TOKEN" | tar t',
      ),
    },
    post: {
      ...{ operationId: 'writeArchive', tags: ['Files'], summary: 'Unpack a tar into a folder' },
      parameters: [folderParameter],
      description:
        'Creates missing folders. Each file is written beside its place and moved there when it is complete. It ' +
        'replaces a file or link at its place and keeps the owner of that file. Modes and times are those of the tar; ' +
        'a folder that exists keeps its mode. Devices and pipes are left out and counted. A name that leads out of the ' +
        'folder is refused. After an error, files that were complete stay. If the disk is full, the status is 507. ' +
        'Signed URLs are not accepted.',
      requestBody: { required: true, content: { 'application/x-tar': { schema: binary, example: 'bytes of a tar' } } },
      responses: {
        200: {
          description: 'It is unpacked',
          content: {
            'application/json': {
              schema: {
                type: 'object',
                required: ['files', 'folders', 'links', 'skipped', 'bytes'],
                properties: {
                  files: { type: 'integer' },
                  folders: { type: 'integer', description: 'New folders' },
                  links: { type: 'integer' },
                  skipped: { type: 'integer', description: 'Devices and pipes' },
                  bytes: { type: 'integer', description: 'The content of the files' },
                },
              },
              example: { files: 1, folders: 0, links: 0, skipped: 0, bytes: 6 },
            },
          },
        },
        default: refusal('FileError'),
      },
      'x-codeSamples': shell(
        'tar c -C /tmp/example . | curl -sS --fail-with-body "http://$DOMAIN/archive?path=/tmp/example/copy" -H "X-Access-Token: $TOKEN" --data-binary @-',
      ),
    },
  },
};
