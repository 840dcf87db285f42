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
/** The least that an API server gives a token. A new one is used after half of it. */
const tokenSeconds = 600;
/** How long the API server may take to give one. */
const tokenMs = 10_000;

/** Asks one node for its Summary API's answer. @throws {Error} also when the answer is too large or late */
export type AskNode = (node: V1Node) => Promise<string>;
/** Reads credentials and authorities anew, which may have been replaced. @throws {Error} when some are missing */
export type PrepareSummaries = () => Promise<AskNode>;

/** A node, or the API server in its place, has answered with an error. */
export class SummaryRefused extends Error {
  override name = 'SummaryRefused';
  readonly status: number;

  /** @param right which it needs */
  constructor(status: number, right: string) {
    super(
      status === 403
        ? `the platform may not read what nodes use: it needs the verb get on ${right}`
        : `the summary of a node was answered with ${status}`,
    );
    this.status = status;
  }
}

/** Where the figures of nodes come from. */
export function summariesOf(config: KubeConfig, options: NodeFiguresOptions = { via: 'kubelet' }): PrepareSummaries {
  if (options.via === 'api-server') return () => throughApiServer(config);
  const { caFile, account } = options;
  const tokenOf = account && kubeletTokens(config, account);
  return async () => {
    const own: https.RequestOptions = {};
    await config.applyToHTTPSOptions(own);
    const ca = caFile === undefined ? own.ca : await fs.readFile(caFile);
    // Node would trust all public authorities instead.
    if (!ca) throw new Error('no authority of the kubelets is known: PLATFORM_KUBERNETES_KUBELET_CA_FILE names it');
    const credentials = tokenOf
      ? { headers: { authorization: `Bearer ${await tokenOf()}` } }
      : { headers: own.headers, cert: own.cert, key: own.key, pfx: own.pfx, passphrase: own.passphrase };
    return (node) => {
      const at = { ...kubeletOf(node), path: summaryPath };
      // Without the settings of the API server's connection, which may have another name or no verification.
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

/** The address by which the certificate is checked, too. */
function kubeletOf({ status }: V1Node): { host: string; port: number } {
  const host = status?.addresses?.find(({ type, address }) => type === 'InternalIP' && net.isIP(address) > 0)?.address;
  if (!host) throw new Error('the node has no internal address');
  return { host, port: status?.daemonEndpoints?.kubeletEndpoint?.Port ?? kubeletPort };
}

/** Tokens of an account that may do nothing but read figures: what a node sees is of no use elsewhere. */
function kubeletTokens(config: KubeConfig, account: { namespace: string; name: string }): () => Promise<string> {
  const core = config.makeApiClient(CoreV1Api);
  let current: { token: string; untilMs: number } | null = null;
  return async () => {
    if (current && performance.now() < current.untilMs) return current.token;
    const untilMs = performance.now() + (tokenSeconds * 1000) / 2;
    // Without audiences it is for the API server, which kubelets ask about tokens.
    const body = { spec: { audiences: [], expirationSeconds: tokenSeconds } };
    const { status } = await within(core.createNamespacedServiceAccountToken({ ...account, body }), tokenMs);
    if (!status?.token) throw new Error('the API server has given no token for kubelets');
    const { token } = status;
    current = { token, untilMs };
    return token;
  };
}

/** Follows no redirect. */
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
