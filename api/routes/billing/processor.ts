import { z } from 'zod';
import { AppError } from '../../../domain/errors.ts';
import { type PaymentProcessor, ProcessorUnavailableError } from '../../../integrations/payments/processor.ts';
import { anyone } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { envelope, failures, success } from '../../schemas/replies.ts';

/** @throws {AppError} `payments_not_configured` */
export function requireProcessor({ paymentProcessor }: Pick<ApiDependencies, 'paymentProcessor'>): PaymentProcessor {
  if (paymentProcessor) return paymentProcessor;
  throw new AppError('payments_not_configured', 'This platform has no payment processor');
}

/**
 * Waits for a call of the payment processor. @throws {AppError} `payment_processor_unavailable`, and other errors of
 * the call
 */
export async function askProcessor<T>(call: Promise<T>): Promise<T> {
  try {
    return await call;
  } catch (error) {
    if (!(error instanceof ProcessorUnavailableError)) throw error;
    throw new AppError('payment_processor_unavailable', 'The payment processor does not answer; try again later', {
      cause: error,
      retryAfterSeconds: 10,
    });
  }
}

/** `GET /v1/config/payment-processor`: the configuration that a browser needs to add a card. */
export function getProcessorConfig(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/config/payment-processor',
    config: { access: anyone({ requestsPerMinute: 120 }) },
    schema: {
      operationId: 'getPaymentProcessor',
      tags: ['Payments'],
      summary: 'Get the public key of the payment processor',
      description: 'A browser needs it to send a card to the processor. `test_mode` is true if no real money moves.',
      response: {
        200: envelope(z.object({ publishable_key: z.string(), test_mode: z.boolean() }), 'The public key'),
        ...failures('payments_not_configured'),
      },
    },
    handler: async () => {
      const { publishableKey, isTest } = requireProcessor(deps);
      return success({ publishable_key: publishableKey, test_mode: isTest });
    },
  });
}
