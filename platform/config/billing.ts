import type { Settings } from './settings.ts';

/** Whether plans are charged. If not, nothing is refused for money. */
export function isBilled({
  PLATFORM_BILLING: billing,
  PLATFORM_STRIPE_SECRET_KEY_FILE: processor,
}: Pick<Settings, 'PLATFORM_BILLING' | 'PLATFORM_STRIPE_SECRET_KEY_FILE'>): boolean {
  return billing === undefined ? Boolean(processor) : billing === 'on';
}
