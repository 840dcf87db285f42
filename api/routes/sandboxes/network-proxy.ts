import { sandboxProxy } from '../../../platform/config/sandbox-proxy.ts';
import type { Settings } from '../../../platform/config/settings.ts';
import type { SandboxFields } from './sandbox-schema.ts';

/** The proxy of sandboxes that may reach the internet. Empty if the operator configured none. */
export function networkProxy(allowInternetAccess: boolean, settings: Settings): Pick<SandboxFields, 'network_proxy'> {
  const proxy = allowInternetAccess ? sandboxProxy(settings) : null;
  if (!proxy) return {};
  const { host, port, username, password } = proxy;
  return { network_proxy: { proxy_url: proxy.url, proxy_configs: { host, port, username, password } } };
}
