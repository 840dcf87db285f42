/** How a mount's bucket is reached. */
export interface StorageTarget {
  bucket: string;
  /** Of the folder in the bucket, with a leading slash; `/` for all of it. */
  path: string;
  /** `https://host[:port]`, without the bucket. */
  url: string;
  /** The bucket is in the path of a request, not in its host name. */
  pathStyle: boolean;
  /** The region that requests are signed for. Null: s3fs's default, `us-east-1`. */
  region: string | null;
  /** The host of the connection. */
  host: string;
  port: number;
}

const uriPattern = /^(s3|oss):\/\/([a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?)(?:\/(.*))?$/;

/**
 * Reads a mount's uri, region and endpoint. `s3://` with an endpoint of its own takes the bucket in the path, as most
 * servers other than Amazon's do; `oss://` is the same protocol with the bucket in the host name.
 * @returns the reason where it cannot be read, with the field that is wrong
 */
export function readStorageTarget(mount: {
  uri: string;
  region: string | null;
  endpoint: string | null;
}): StorageTarget | { field: 'uri' | 'region' | 'endpoint'; reason: string } {
  const [, scheme, bucket, folder = ''] = uriPattern.exec(mount.uri) ?? [];
  if (!scheme || !bucket || bucket.includes('..')) {
    return { field: 'uri', reason: 'must be s3://<bucket>/<path> or oss://<bucket>/<path>' };
  }
  const parts = folder.split('/').filter((part) => part !== '');
  if (/\p{Cc}/u.test(folder) || parts.includes('..') || parts.includes('.')) {
    return { field: 'uri', reason: 'has a path with . or .. or control characters in it' };
  }
  if (mount.region !== null && !/^[A-Za-z0-9-]{1,64}$/.test(mount.region)) {
    return { field: 'region', reason: 'must be letters, digits and -' };
  }
  if (mount.region === null && mount.endpoint === null) {
    return { field: 'region', reason: 'a region or an endpoint is required' };
  }
  const endpoint = mount.endpoint === null ? null : readEndpoint(mount.endpoint);
  if (mount.endpoint !== null && endpoint === null) {
    return { field: 'endpoint', reason: 'must be http(s)://<host>[:<port>], without a path, a user or a query' };
  }
  const url = endpoint ?? new URL(defaultEndpoint(scheme, mount.region!));
  const pathStyle = scheme === 's3' && (endpoint !== null || bucket.includes('.'));
  const hostname = url.hostname.replace(/^\[(.*)\]$/, '$1');
  return {
    bucket,
    path: `/${parts.join('/')}`,
    url: url.origin,
    pathStyle,
    region: mount.region,
    host: pathStyle ? hostname : `${bucket}.${hostname}`,
    port: Number(url.port) || (url.protocol === 'https:' ? 443 : 80),
  };
}

function readEndpoint(text: string): URL | null {
  if (!URL.canParse(text)) return null;
  const url = new URL(text);
  const bare = url.username === '' && url.password === '' && url.search === '' && url.hash === '';
  const plainHost = /^(\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)$/.test(url.hostname);
  return /^https?:$/.test(url.protocol) && bare && plainHost && url.pathname === '/' ? url : null;
}

function defaultEndpoint(scheme: string, region: string): string {
  if (scheme === 'oss') return `https://oss-${region.replace(/^oss-/, '')}.aliyuncs.com`;
  return region.startsWith('cn-') ? `https://s3.${region}.amazonaws.com.cn` : `https://s3.${region}.amazonaws.com`;
}
