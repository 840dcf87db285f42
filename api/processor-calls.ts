import { AppError } from '../domain/errors.ts';
import { type PaymentProcessor, ProcessorUnavailableError } from '../integrations/payments/processor.ts';
import type { ApiDependencies } from './dependencies.ts';

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
