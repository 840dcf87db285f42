import fs from 'node:fs';
import path from 'node:path';
import { file_sandboxagent } from '../../agent/proto/gen/sandboxagent_pb.js';
import { agentTypes } from '../../ops/development/client-types/agent-types.ts';
import { allOperations, apiTypes } from '../../ops/development/client-types/api-types.ts';
import { formFieldsSource } from '../../ops/development/client-types/form-fields.ts';
import { jsonSchemas } from '../../ops/development/client-types/json-schemas.ts';
import { pythonAgent, pythonApi } from '../../ops/development/client-types/python.ts';
import { typescriptAgent, typescriptApi } from '../../ops/development/client-types/typescript.ts';
import { startApi } from '../api/test-api.ts';

const clients = path.resolve(import.meta.dirname, '../../clients');

test('the types of the clients and of the console match the OpenAPI document and the proto file', async () => {
  const { client, stop } = await startApi();
  await stop();
  const api = apiTypes(client.document);
  const agent = agentTypes(file_sandboxagent);
  const generated: Record<string, string> = {
    'typescript/src/generated/api.ts': typescriptApi(api),
    'typescript/src/generated/agent.ts': typescriptAgent(agent),
    '../console/src/api/generated.ts': typescriptApi(apiTypes(client.document, allOperations(client.document))),
    '../console/src/api/generated-forms.ts': formFieldsSource(client.document),
    '../api/openapi/agent/messages.json': `${JSON.stringify(jsonSchemas(agent.declarations), null, 2)}\n`,
    'python/src/sandbox_platform/_generated/api.py': pythonApi(api),
    'python/src/sandbox_platform/_generated/agent.py': pythonAgent(agent),
  };
  for (const [name, text] of Object.entries(generated)) {
    const file = path.join(clients, name);
    if (process.env.UPDATE_CLIENT_TYPES) fs.writeFileSync(file, text);
    expect({ name, text: fs.readFileSync(file, 'utf8') }).toEqual({ name, text });
  }
});
