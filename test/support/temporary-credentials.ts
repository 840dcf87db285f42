import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import type { S3Server } from './s3-server.ts';

type Headers = Record<string, string>;

/**
 * Stands before an S3 server that has no temporary credentials of its own: takes requests that are signed with these
 * and carry their session token, until they expire, and passes them on signed with the server's key.
 */
export class TemporaryCredentials {
  readonly accessKey = 'ASIATEMPORARY5Z';
  readonly secretKey = 'temporary/secret+Kq8';
  readonly sessionToken = 'temporary-session-token-vM3';
  readonly #s3: S3Server;
  readonly #server = http.createServer((request, reply) => this.#serve(request, reply));
  #expired = false;

  private constructor(s3: S3Server) {
    this.#s3 = s3;
  }

  static async before(s3: S3Server): Promise<TemporaryCredentials> {
    const made = new TemporaryCredentials(s3);
    await new Promise<void>((resolve) => made.#server.listen(0, '127.0.0.1', resolve));
    return made;
  }

  get endpoint(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  expire(): void {
    this.#expired = true;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #serve(request: http.IncomingMessage, reply: http.ServerResponse): void {
    if (!this.#isGenuine(request)) {
      request.resume();
      reply.writeHead(403).end('<Error><Code>ExpiredToken</Code></Error>');
      return;
    }
    const { authorization: _, 'x-amz-security-token': __, connection: ___, ...passed } = request.headers as Headers;
    const headers: Headers = { ...passed, host: `127.0.0.1:${this.#s3.port}` };
    const signed = Object.keys(headers).filter((name) => name === 'host' || name.startsWith('x-amz-'));
    const { accessKey, secretKey } = this.#s3;
    headers.authorization = authorization(request, headers, signed.sort(), accessKey, secretKey);
    const onward = http.request(
      { host: '127.0.0.1', port: this.#s3.port, method: request.method, path: request.url, headers },
      (answer) => {
        reply.writeHead(answer.statusCode!, answer.headers);
        answer.pipe(reply);
      },
    );
    onward.on('error', () => reply.destroy());
    request.pipe(onward);
  }

  #isGenuine(request: http.IncomingMessage): boolean {
    const headers = request.headers as Headers;
    const signed = /SignedHeaders=([^,]+)/.exec(headers.authorization ?? '')?.[1]?.split(';') ?? [];
    if (this.#expired || !signed.includes('x-amz-security-token')) return false;
    if (headers['x-amz-security-token'] !== this.sessionToken) return false;
    const expected = Buffer.from(authorization(request, headers, signed, this.accessKey, this.secretKey));
    const given = Buffer.from(headers.authorization ?? '');
    return expected.length === given.length && timingSafeEqual(expected, given);
  }
}

/** The `Authorization` of AWS Signature Version 4 for a request to S3. */
function authorization(
  { method, url }: http.IncomingMessage,
  headers: Headers,
  signed: string[],
  accessKey: string,
  secretKey: string,
): string {
  const [path = '', query = ''] = url!.split('?');
  const parameters = query.split('&').filter(Boolean);
  const canonicalQuery = parameters.map((each) => (each.includes('=') ? each : `${each}=`)).sort();
  const canonical = [
    method,
    path,
    canonicalQuery.join('&'),
    ...signed.map((name) => `${name}:${headers[name]?.trim()}`),
    '',
    signed.join(';'),
    headers['x-amz-content-sha256'],
  ].join('\n');
  const date = headers['x-amz-date'] ?? '';
  const scope = `${date.slice(0, 8)}/us-east-1/s3/aws4_request`;
  const hmac = (key: string | Buffer, text: string) => createHmac('sha256', key).update(text).digest();
  const key = scope.split('/').reduce<string | Buffer>((each, part) => hmac(each, part), `AWS4${secretKey}`);
  const hash = createHash('sha256').update(canonical).digest('hex');
  const signature = hmac(key, `AWS4-HMAC-SHA256\n${date}\n${scope}\n${hash}`).toString('hex');
  return `AWS4-HMAC-SHA256 Credential=${accessKey}/${scope}, SignedHeaders=${signed.join(';')}, Signature=${signature}`;
}
