#!/usr/bin/env node
import type { AddressInfo } from 'node:net';
import { parseArgs } from 'node:util';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { createHttpServer } from './http-server.ts';
import { createMcpServer } from './tools.ts';

const usage = `sandbox-platform-mcp                     over stdio, for the program that starts it
sandbox-platform-mcp --http [--host 127.0.0.1] [--port 7090] [--allow-origin ORIGIN]…

PLATFORM_URL names the platform. Over stdio the key is PLATFORM_API_KEY; over HTTP each request brings its own.`;

const values = readOptions();
const { PLATFORM_URL: apiUrl, PLATFORM_GATEWAY: gatewayUrl, PLATFORM_API_KEY: apiKey } = process.env;

if (values === null) {
  process.exitCode = 2;
} else if (values.help) {
  process.stdout.write(`${usage}\n`);
} else if (!apiUrl || (!values.http && !apiKey)) {
  process.stderr.write(`sandbox-platform-mcp needs ${apiUrl ? 'PLATFORM_API_KEY' : 'PLATFORM_URL'}\n\n${usage}\n`);
  process.exitCode = 2;
} else if (values.http) {
  const server = createHttpServer({ apiUrl, gatewayUrl, allowedOrigins: values['allow-origin'] });
  server.on('error', (error) => {
    process.stderr.write(`sandbox-platform-mcp: ${error.message}\n`);
    process.exitCode = 1;
  });
  server.listen(Number(values.port), values.host, () => {
    const { address, port } = server.address() as AddressInfo;
    process.stderr.write(`MCP at http://${address.includes(':') ? `[${address}]` : address}:${port}/mcp\n`);
  });
} else {
  await createMcpServer({ apiUrl, apiKey: apiKey!, ...(gatewayUrl && { gatewayUrl }) }).connect(
    new StdioServerTransport(),
  );
}

/** The options of the command line; null for wrong ones, which it reports. */
function readOptions() {
  try {
    return parseArgs({
      options: {
        http: { type: 'boolean' },
        host: { type: 'string', default: '127.0.0.1' },
        port: { type: 'string', default: '7090' },
        'allow-origin': { type: 'string', multiple: true, default: [] },
        help: { type: 'boolean', short: 'h' },
      },
    }).values;
  } catch (error) {
    process.stderr.write(`sandbox-platform-mcp: ${(error as Error).message}\n\n${usage}\n`);
    return null;
  }
}
