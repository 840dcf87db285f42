import fs from 'node:fs/promises';
import https from 'node:https';
import net from 'node:net';
import { CoreV1Api, type KubeConfig, type V1Node } from '@kubernetes/client-node';
import type { NodeFiguresOptions } from './options.ts';
import { within } from './within.ts';

/** How long one node may take to answer. */
const answerMs = 3000;
/** A summary has some KB for each pod of its node. */
const maxBytes = 16 * 1024 ** 2;
const summaryPath = '/stats/summary';
const kubeletPort = 10_250;
/** The shortest validity that an API server allows for a token. A new token is requested after half of it. */
const tokenSeconds = 600;
/** How long the API server may take to create a token. */
const tokenMs = 10_000;

/** Asks one node for its summary. @throws {Error} also when the answer is too large or late */
export type AskNode = (node: V1Node) => Promise<string>;
/**
 * Reads credentials and authorities again, because they may have been replaced.
 * @throws {Error} when some are missing
 */
export type PrepareSummaries = () => Promise<AskNode>;

/** A node, or the API server on its behalf, has answered with an error. */
export class SummaryRefused extends Error {
  override name = 'SummaryRefused';
  readonly status: number;

  /** @param right the resource that the platform must have the verb `get` on */
  constructor(status: number, right: string) {
    super(
      status === 403
        ? `the platform may not read what nodes use: it needs the verb get on ${right}`
        : `the summary of a node was answered with ${status}`,
    );
    this.status = status;
  }
}

/** Returns the source of summaries that the options select. */
export function createSummarySource(
  config: KubeConfig,
  options: NodeFiguresOptions = { via: 'kubelet' },
): PrepareSummaries {
  if (options.via === 'api-server') return () => throughApiServer(config);
  const { caFile, account } = options;
  const requestToken = account && kubeletTokens(config, account);
  return async () => {
    const own: https.RequestOptions = {};
    await config.applyToHTTPSOptions(own);
    const ca = caFile === undefined ? own.ca : await fs.readFile(caFile);
    // Without this check, Node would trust all public authorities.
    if (!ca) throw new Error('no authority of the kubelets is known: PLATFORM_KUBERNETES_KUBELET_CA_FILE names it');
    const credentials = requestToken
      ? { headers: { authorization: `Bearer ${await requestToken()}` } }
      : { headers: own.headers, cert: own.cert, key: own.key, pfx: own.pfx, passphrase: own.passphrase };
    return (node) => {
      const at = { ...findKubelet(node), path: summaryPath };
      // The other TLS settings of the API server's connection are not used, such as a server name or no verification.
      return read({ ...at, ...credentials, ca, rejectUnauthorized: true, agent: false }, 'nodes/stats');
    };
  };
}

async function throughApiServer(config: KubeConfig): Promise<AskNode> {
  const options: https.RequestOptions = {};
  await config.applyToHTTPSOptions(options);
  const { hostname, port, pathname } = new URL(config.getCurrentCluster()!.server);
  return ({ metadata }) => {
    const node = encodeURIComponent(metadata!.name!);
    const path = `${pathname.replace(/\/$/, '')}/api/v1/nodes/${node}/proxy${summaryPath}`;
    return read({ ...options, host: hostname.replace(/^\[|\]$/g, ''), port, path }, 'nodes/proxy');
  };
}

/** The address of a node's kubelet. The kubelet's certificate must be valid for it. */
function findKubelet({ status }: V1Node): { host: string; port: number } {
  const host = status?.addresses?.find(({ type, address }) => type === 'InternalIP' && net.isIP(address) > 0)?.address;
  if (!host) throw new Error('the node has no internal address');
  return { host, port: status?.daemonEndpoints?.kubeletEndpoint?.Port ?? kubeletPort };
}

/** Requests tokens of an account that may only read figures, so a node cannot use a token that it receives for more. */
function kubeletTokens(config: KubeConfig, account: { namespace: string; name: string }): () => Promise<string> {
  const core = config.makeApiClient(CoreV1Api);
  let current: { token: string; untilMs: number } | null = null;
  return async () => {
    if (current && performance.now() < current.untilMs) return current.token;
    const untilMs = performance.now() + (tokenSeconds * 1000) / 2;
    // A token without audiences is valid for the API server, which kubelets ask to check tokens.
    const body = { spec: { audiences: [], expirationSeconds: tokenSeconds } };
    const { status } = await within(core.createNamespacedServiceAccountToken({ ...account, body }), tokenMs);
    if (!status?.token) throw new Error('the API server has given no token for kubelets');
    const { token } = status;
    current = { token, untilMs };
    return token;
  };
}

/** Sends the request and returns the body of the answer. It follows no redirect. */
function read(options: https.RequestOptions, right: string): Promise<string> {
  const answer = Promise.withResolvers<string>();
  const request = https.get(options, (response) => {
    response.on('error', answer.reject);
    if (response.statusCode !== 200) {
      answer.reject(new SummaryRefused(response.statusCode ?? 0, right));
      request.destroy();
      return;
    }
    const chunks: Buffer[] = [];
    let bytes = 0;
    response.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > maxBytes) request.destroy(new Error('the summary of a node is too large'));
      else chunks.push(chunk);
    });
    response.on('end', () => answer.resolve(Buffer.concat(chunks).toString()));
  });
  const late = setTimeout(() => request.destroy(new Error('the summary of a node did not come in time')), answerMs);
  request.on('error', answer.reject);
  request.on('close', () => clearTimeout(late));
  return answer.promise;
}
