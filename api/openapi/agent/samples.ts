import type { AgentOperation } from './operations.ts';

/** A sample call of an operation in the form of OpenAPI's `x-codeSamples`. */
interface CodeSample {
  lang: string;
  label: string;
  source: string;
}

/** Samples for curl, a Connect client and a gRPC client. `DOMAIN` is the sandbox's domain, `TOKEN` its access token. */
export function createSamples(operation: AgentOperation): CodeSample[] {
  return [
    { lang: 'shell', label: 'curl', source: operation.stream ? curlStream(operation) : curl(operation) },
    { lang: 'typescript', label: 'Connect', source: typescript(operation, 'Connect') },
    { lang: 'typescript', label: 'gRPC', source: typescript(operation, 'gRPC') },
  ];
}

function curl({ procedure, requests, withoutToken }: AgentOperation): string {
  const token = withoutToken ? '' : ' -H "X-Access-Token: $TOKEN"';
  return `curl -sS --fail-with-body http://$DOMAIN/sandboxagent.${procedure}${token} \\
  -H 'Content-Type: application/json' -d '${JSON.stringify(requests[0])}'`;
}

/**
 * Each message of a stream is framed with one byte of flags and four bytes of length. The shell function writes the
 * frame.
 */
function curlStream({ procedure, requests, isEndless }: AgentOperation): string {
  const frames = requests.map((request) => `frame '${JSON.stringify(request)}'`).join('; ');
  const endless = isEndless ? ' --max-time 5' : '';
  return `frame() { printf "\\\\x00$(printf '%08x' \${#1} | sed 's/../\\\\x&/g')"; printf %s "$1"; }
{ ${frames}; } | curl -sS --fail-with-body${endless} http://$DOMAIN/sandboxagent.${procedure} -H "X-Access-Token: $TOKEN" \\
  -H 'Content-Type: application/connect+json' --data-binary @- | tr -d '\\000'`;
}

function typescript(operation: AgentOperation, protocol: 'Connect' | 'gRPC'): string {
  const [service = '', method = ''] = operation.procedure.split('/');
  const call = `${method[0]!.toLowerCase()}${method.slice(1)}`;
  const schema = `${operation.input ?? `${method}Request`}Schema`;
  const messages = operation.requests.map((request) => `fromJson(${schema}, ${JSON.stringify(request)})`);
  const options = '{ headers: { "X-Access-Token": process.env.TOKEN! } }';
  const transport =
    protocol === 'Connect'
      ? `createConnectTransport({ baseUrl: \`http://\${process.env.DOMAIN}\`, httpVersion: '1.1' })`
      : `createGrpcTransport({ baseUrl: \`http://\${process.env.DOMAIN}\` })`;
  const work = {
    none: `console.log(toJson(${operation.output ?? `${method}Response`}Schema, await client.${call}(${messages[0]}, ${options})));`,
    server: `for await (const message of client.${call}(${messages[0]}, ${options})) {
  console.log(toJson(${operation.output ?? `${method}Response`}Schema, message));
}`,
    client: `async function* messages() {
${messages.map((message) => `  yield ${message};`).join('\n')}
}
console.log(toJson(${operation.output ?? `${method}Response`}Schema, await client.${call}(messages(), ${options})));`,
  }[operation.stream ?? 'none'];
  return `import { fromJson, toJson } from '@bufbuild/protobuf';
import { createClient } from '@connectrpc/connect';
import { create${protocol === 'Connect' ? 'Connect' : 'Grpc'}Transport } from '@connectrpc/connect-node';
// Generated from sandboxagent.proto: buf generate
import { ${service}, ${schema}, ${operation.output ?? `${method}Response`}Schema } from './gen/sandboxagent_pb.js';

const client = createClient(${service}, ${transport});
${work}`;
}
