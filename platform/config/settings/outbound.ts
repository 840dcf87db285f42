import { z } from 'zod';
import { text, textOr, words } from './field-types.ts';

/** Addresses that users name, such as webhooks and storage endpoints, and that the platform connects to. */
export const outboundSettings = {
  /**
   * Comma-separated private ranges (CIDR) that user-named addresses may be in: storage endpoints, webhooks. Without them,
   * only public addresses are allowed. Empty or `none`: none; `npm start` opens loopback.
   */
  PLATFORM_OUTBOUND_RANGES: textOr('none')
    .transform((list) => (list === 'none' ? [] : list.split(',').map((range) => range.trim())))
    .pipe(z.array(z.union([z.cidrv4(), z.cidrv6()]))),
  /** PEM file of CA certificates that are trusted for webhooks over TLS, in addition to the system's. Empty: none. */
  PLATFORM_WEBHOOK_CA_FILE: text(),
  /**
   * Comma-separated `host:port` of the platform's own services that no other setting names. The platform never connects to
   * any of its own services for a user. `npm start` lists the services that it embeds.
   */
  PLATFORM_INTERNAL_SERVICES: textOr('')
    .transform((list) => (list === '' ? [] : words(list)))
    .pipe(z.array(z.string().regex(/^([^\s/:]+|\[[0-9a-f:.]+\]):\d{1,5}$/i, 'must be host:port'))),
};
