import { recordCharge } from '../../../db/billing/payment-intents.ts';
import { deleteMethod } from '../../../db/billing/payment-methods.ts';
import { AppError } from '../../../domain/errors.ts';
import {
  ForgedNoticeError,
  type PaymentProcessor,
  type ProcessorNotice,
  ProcessorRefusedError,
} from '../../../integrations/payments/processor.ts';
import { settleOpenRefunds } from '../../../integrations/payments/refund-charge.ts';
import { anyone } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { failures, messageEnvelope, successMessage } from '../../schemas/replies.ts';
import { keepFinishedSetup } from './card-setups.ts';
import { askProcessor, requireProcessor } from './processor.ts';

/** Larger than any notification of the processor. */
const bodyBytes = 64 * 1024;

/**
 * `POST /v1/payment/processor-webhook`: the processor's signed notifications. A notification only names the changed
 * object, and its current state is read from the processor. So duplicate, replayed and late notifications have no
 * effect.
 */
export function receiveProcessorNotice(api: Api, deps: ApiDependencies): void {
  // The scope is separate, so that the body keeps its signed bytes.
  api.register(async (scope) => {
    scope.removeContentTypeParser('application/json');
    scope.addContentTypeParser('application/json', { parseAs: 'string' }, (_request, body, done) => done(null, body));
    scope.route({
      method: 'POST',
      url: '/v1/payment/processor-webhook',
      config: { access: anyone({ requestsPerMinute: 6000 }), bodyBytes },
      schema: {
        operationId: 'receiveProcessorNotice',
        tags: ['Payments'],
        summary: 'Receive signed notifications of the payment processor',
        description:
          'Only the payment processor calls this route. The body is signed with a shared secret. A ' +
          'notification only says which object ' +
          'has changed, and the platform reads the object from the processor; so a repeated or late ' +
          'notification changes ' +
          'nothing.',
        response: {
          200: messageEnvelope('The notification is processed'),
          ...failures(
            ...(['invalid_signature', 'payload_too_large', 'unsupported_media_type'] as const),
            ...(['payments_not_configured', 'payment_processor_unavailable'] as const),
          ),
        },
      },
      handler: async (request) => {
        const processor = requireProcessor(deps);
        const notice = read(processor, request.body, request.headers['stripe-signature']);
        await askProcessor(apply(deps, processor, notice));
        return successMessage('Received');
      },
    });
  });
}

function read(processor: PaymentProcessor, body: unknown, signature: string | string[] | undefined): ProcessorNotice {
  try {
    return processor.readNotice(typeof body === 'string' ? body : '', typeof signature === 'string' ? signature : '');
  } catch (error) {
    if (!(error instanceof ForgedNoticeError)) throw error;
    throw new AppError('invalid_signature', 'The signature is wrong or from another time', { cause: error });
  }
}

async function apply({ orm }: ApiDependencies, processor: PaymentProcessor, notice: ProcessorNotice): Promise<void> {
  try {
    switch (notice.about) {
      case 'setup':
        await keepFinishedSetup({ orm, processor }, notice.setupIntentId);
        return;
      case 'charge':
        await recordCharge(orm.em, await processor.readCharge(notice.paymentIntentId));
        await settleOpenRefunds({ orm, processor }, notice.paymentIntentId);
        return;
      case 'method': {
        const { customerId } = await processor.readMethod(notice.paymentMethodId);
        if (customerId === null) await deleteMethod(orm.em, notice.paymentMethodId);
        return;
      }
      case 'nothing':
    }
  } catch (error) {
    // The processor does not have the object of the notification, so there is nothing to do.
    if (error instanceof ProcessorRefusedError && error.isNotFound) return;
    throw error;
  }
}
