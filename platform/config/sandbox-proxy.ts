import type { Settings } from './settings.ts';

/** The proxy through which sandboxes reach the internet. Every sandbox that uses it knows its password. */
export interface SandboxProxy {
  url: string;
  host: string;
  port: number;
  username: string;
  password: string;
}

/** Null: no proxy. */
export function sandboxProxy(settings: Pick<Settings, 'PLATFORM_SANDBOX_PROXY_URL'>): SandboxProxy | null {
  const text = settings.PLATFORM_SANDBOX_PROXY_URL;
  if (!text) return null;
  const url = new URL(text);
  return {
    url: text,
    host: url.hostname,
    port: Number(url.port || (url.protocol === 'https:' ? 443 : 80)),
    username: decodeURIComponent(url.username),
    password: decodeURIComponent(url.password),
  };
}

/** The variables that most programs read, in upper and lower case, because some programs only read one. */
export function proxyEnvironment(proxy: SandboxProxy): Record<string, string> {
  const values = { HTTP_PROXY: proxy.url, HTTPS_PROXY: proxy.url, NO_PROXY: 'localhost,127.0.0.1,::1' };
  return Object.fromEntries(
    Object.entries(values).flatMap(([name, value]) => [
      [name, value],
      [name.toLowerCase(), value],
    ]),
  );
}
