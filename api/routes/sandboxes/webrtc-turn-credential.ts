import { z } from 'zod';
import { AppError } from '../../../domain/errors.ts';
import { unionOfPorts } from '../../../domain/sandboxes/ports.ts';
import { iceServers, turnCredential } from '../../../domain/sandboxes/turn.ts';
import { turnSettings } from '../../../platform/config/turn-settings.ts';
import { anyUser } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { envelope, failures, success } from '../../schemas/replies.ts';
import { readSandboxRow, sandboxPath } from './reply.ts';

const turnCredentialSchema = z
  .object({
    ice_servers: z
      .array(z.object({ urls: z.array(z.string()), username: z.string(), credential: z.string() }))
      .describe('As `RTCConfiguration.iceServers`'),
    username: z.string().describe('`<Unix expiry in seconds>:<sandbox_id>`'),
    credential: z.string(),
    turn_public_host: z.string(),
    turn_public_port: z.int(),
  })
  .meta({ id: 'TurnCredential' });

/** `GET /v1/sandboxes/{sandbox_id}/webrtc-turn-credential`. */
export function getTurnCredential(api: Api, deps: ApiDependencies): void {
  const turn = turnSettings(deps.settings);
  api.route({
    method: 'GET',
    url: '/v1/sandboxes/:sandbox_id/webrtc-turn-credential',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'getWebrtcTurnCredential',
      tags: ['Sandboxes'],
      summary: 'Get a short-lived TURN credential for peers of a sandbox with a WEBRTC port',
      description:
        'For browsers and other peers that connect to the WEBRTC ports of the sandbox through the TURN server.',
      params: sandboxPath,
      response: {
        200: envelope(turnCredentialSchema, 'The credential'),
        ...failures('not_found', 'sandbox_not_running', 'webrtc_port_required', 'turn_not_configured'),
      },
    },
    handler: async (request, reply) => {
      const sandbox = await readSandboxRow(deps, request, request.params.sandbox_id);
      if (!turn) throw new AppError('turn_not_configured', 'No TURN server is configured on this platform');
      if (sandbox.status !== 'running') {
        throw new AppError('sandbox_not_running', `The sandbox is ${sandbox.status}, not running`);
      }
      const ports = unionOfPorts(sandbox.templatePorts, sandbox.customPorts);
      if (!ports.some((port) => port.protocol === 'WEBRTC')) {
        throw new AppError('webrtc_port_required', 'The sandbox has no WEBRTC port; add one first');
      }
      const { secret, publicAddress, credentialTtlSeconds: ttlSeconds } = turn;
      const credential = turnCredential({ secret, sandboxId: sandbox.sandboxId, ttlSeconds, now: new Date() });
      reply.header('cache-control', 'no-store');
      return success({
        ice_servers: iceServers(publicAddress, credential),
        ...credential,
        turn_public_host: publicAddress.host,
        turn_public_port: publicAddress.port,
      });
    },
  });
}
