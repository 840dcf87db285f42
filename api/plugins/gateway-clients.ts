import type { IncomingMessage } from 'node:http';
import fp from 'fastify-plugin';
import { forwardedClientField, readForwardedClient } from '../../domain/forwarded-client.ts';

/** `request.ip` is the address of the client also for requests that the platform's gateway forwards. */
export const gatewayClients = fp<{ keys: () => Buffer[] }>(
  async (app, { keys }) => {
    app.decorateRequest('isForwarded', false);
    app.addHook('onRequest', async (request) => {
      const address = readGatewayClient(request.raw, keys());
      if (address === null) return;
      request.isForwarded = true;
      Object.defineProperty(request, 'ip', { value: address });
    });
  },
  { name: 'gateway-clients' },
);

/** The address of the client for which the gateway forwards a request. Null: the gateway does not forward it. */
export function readGatewayClient({ headers }: IncomingMessage, keys: readonly Buffer[]): string | null {
  const value = headers[forwardedClientField];
  return typeof value === 'string' ? readForwardedClient(value, keys) : null;
}
