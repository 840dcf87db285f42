import http from 'node:http';
import type net from 'node:net';
import { defaultJsonBounds, exceededBound, type JsonBounds } from '../../domain/json-bounds.ts';
import {
  exchange,
  openStream,
  type SandboxReply,
  type SandboxRequest,
  SandboxStream,
  UnusableReply,
} from './sandbox-exchange.ts';

const jsonBounds: JsonBounds = { ...defaultJsonBounds, maxDepth: 8, maxValues: 128, maxKeys: 128 };

/** The address of an agent, and the token for its `/platform/…` paths (agent/BOOT.md). */
export interface AgentEndpoint {
  address: string;
  port: number;
  platformToken: string;
  /** Opens the connection through the sandbox's machine. Absent: the connection goes directly to the address. */
  openTunnel?: (() => net.Socket) | undefined;
}

export interface PlatformCall {
  method: string;
  path: string;
  body?: object;
  deadlineMs: number;
  maxReplyBytes: number;
  signal?: AbortSignal;
}

/** `json` is untrusted and of unknown shape. It is undefined when the reply has no body. */
export interface AgentReply {
  status: number;
  json: unknown;
}

/**
 * Calls a platform path of an agent.
 * @throws {UnusableReply} when the agent is unreachable or too slow, or its reply exceeds a limit or is not JSON; the
 * signal's reason when it aborts
 */
export async function callAgent(agent: AgentEndpoint, call: PlatformCall): Promise<AgentReply> {
  return asJson(await exchange(requestFor(agent, call), call.maxReplyBytes));
}

/** As `callAgent`, but a reply with status 200 is a stream that the caller destroys. */
export async function callAgentForStream(
  agent: AgentEndpoint,
  call: PlatformCall,
): Promise<AgentReply | SandboxStream> {
  const reply = await openStream(requestFor(agent, call), call.maxReplyBytes);
  return reply instanceof SandboxStream ? reply : asJson(reply);
}

/**
 * A connection, through the agent, to a server that listens on a loopback address of the sandbox. Null: there is no such
 * server, or the agent did not answer in time.
 */
export function connectLoopback(
  { address, port: agentPort, platformToken }: Pick<AgentEndpoint, 'address' | 'port' | 'platformToken'>,
  port: number,
  deadlineMs: number,
  signal: AbortSignal,
): Promise<net.Socket | null> {
  const request = http.request({
    host: address,
    port: agentPort,
    method: 'CONNECT',
    path: `localhost:${port}`,
    headers: { 'x-platform-token': platformToken },
    agent: false,
    signal: AbortSignal.any([signal, AbortSignal.timeout(deadlineMs)]),
  });
  return new Promise((resolve) => {
    request.once('connect', (reply, socket: net.Socket) => {
      if (reply.statusCode === 200) return resolve(socket);
      socket.destroy();
      resolve(null);
    });
    request.once('error', () => resolve(null));
    request.end();
  });
}

function requestFor(agent: AgentEndpoint, { method, path, body, deadlineMs, signal }: PlatformCall): SandboxRequest {
  return {
    address: agent.address,
    port: agent.port,
    openTunnel: agent.openTunnel,
    method,
    path,
    headers: {
      'x-platform-token': agent.platformToken,
      ...(body && { 'content-type': 'application/json' }),
    },
    ...(body && { body: Buffer.from(JSON.stringify(body)) }),
    deadlineMs,
    ...(signal && { signal }),
  };
}

function asJson({ status, body }: SandboxReply): AgentReply {
  if (body.length === 0) return { status, json: undefined };
  const text = body.toString('utf8');
  const exceeded = exceededBound(text, jsonBounds);
  if (exceeded) throw new UnusableReply(`the reply ${exceeded}`);
  try {
    return { status, json: JSON.parse(text) };
  } catch (cause) {
    throw new UnusableReply('the reply is not the JSON of an agent', { cause });
  }
}
