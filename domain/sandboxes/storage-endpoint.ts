/** The address of a mount's bucket. */
export interface StorageTarget {
  bucket: string;
  /** The folder in the bucket, with a leading slash. `/` is the whole bucket. */
  path: string;
  /** `https://host[:port]`, without the bucket. */
  url: string;
  /** The bucket is in the path of a request, not in the host name. */
  pathStyle: boolean;
  /** The region in the signature of requests. Null: s3fs's default, `us-east-1`. */
  region: string | null;
  /** The host that s3fs connects to. */
  host: string;
  port: number;
}

const uriPattern = /^(s3|oss):\/\/([a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?)(?:\/(.*))?$/;

/**
 * Reads a mount's uri, region and endpoint. With `s3://` and a custom endpoint the bucket is in the path, as on most
 * servers other than Amazon's. `oss://` is the same protocol with the bucket in the host name.
 * @returns the reason and the wrong field when the mount cannot be read
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
    return { field: 'uri', reason: 'must not have ., .. or control characters in its path' };
  }
  if (mount.region !== null && !/^[A-Za-z0-9-]{1,64}$/.test(mount.region)) {
    return { field: 'region', reason: 'must be letters, digits and -' };
  }
  if (mount.region === null && mount.endpoint === null) {
    return { field: 'region', reason: 'is required without an endpoint' };
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
