import path from 'node:path';

const file = (name: string) => path.resolve(import.meta.dirname, '../fixtures/payment-processor', name);

/** Settings of a platform whose payment processor is at `url`. At the default URL no server listens. */
export function processorSettings(url = 'http://127.0.0.1:9'): Record<string, string> {
  return {
    PLATFORM_STRIPE_API_URL: url,
    PLATFORM_STRIPE_PUBLISHABLE_KEY: 'pk_test_platform',
    PLATFORM_STRIPE_SECRET_KEY_FILE: file('secret-key'),
    PLATFORM_STRIPE_WEBHOOK_SECRET_FILE: file('webhook-secret'),
  };
}
