import type { Sandbox } from './sandbox-words.ts';

type Place = Pick<Sandbox, 'sandbox_domain' | 'secure' | 'envd_access_token'>;

/** Browsers open domains below `.localhost` both ways; elsewhere, the gateway's pages need https. */
function schemeOf({ sandbox_domain: domain }: Pick<Place, 'sandbox_domain'>): string {
  return /\.localhost(:\d+)?$/.test(domain) ? window.location.protocol : 'https:';
}

/** The page of the gateway that shows the state of the sandbox. */
export const stateUrl = (place: Place) => `${schemeOf(place)}//${place.sandbox_domain}/`;

/**
 * A page of the gateway on the sandbox's own domain. The access token is after the `#`, which browsers send to no server
 * and the page removes from its address (docs/browser.md).
 */
export function pageUrl(place: Place, page: 'terminal' | 'files'): string {
  const token = place.secure ? `#token=${encodeURIComponent(place.envd_access_token)}` : '';
  return `${stateUrl(place)}${page}${token}`;
}

/** A port of the sandbox. */
export const portUrl = (place: Place, port: number, scheme: 'http:' | 'https:') =>
  `${scheme}//${port}-${place.sandbox_domain}/`;

/** Signatures need a page that came by https, or from this machine. */
export const canSign = () => window.isSecureContext;

/**
 * A link that opens a protected port for reading, without the access token (docs/ports.md).
 * @param forSeconds how long it is valid
 */
export async function signedPortUrl(
  place: Place & Pick<Sandbox, 'sandbox_id'>,
  port: number,
  forSeconds: number,
): Promise<string> {
  const expiration = Math.floor(Date.now() / 1000) + forSeconds;
  const text = ['/', 'port-read', `${port}-${place.sandbox_id}`, place.envd_access_token, expiration].join(':');
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text));
  const signature = `v1_${btoa(String.fromCharCode(...new Uint8Array(digest))).replace(/=+$/, '')}`;
  const url = new URL(portUrl(place, port, schemeOf(place) as 'https:'));
  url.search = new URLSearchParams({ signature, signature_expiration: String(expiration) }).toString();
  return url.href;
}
