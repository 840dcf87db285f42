import { z } from 'zod';
import { deleteMethod, readMethod } from '../../../../db/billing/payment-methods.ts';
import { AppError } from '../../../../domain/errors.ts';
import { ProcessorRefusedError } from '../../../../integrations/payments/processor.ts';
import { accountRoot, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { askProcessor, requireProcessor } from '../../../processor-calls.ts';
import { failures, messageEnvelope, ofMutations, successMessage } from '../../../schemas/replies.ts';

/** `DELETE /v1/payment/methods/{id}`: accepts our id or the processor's id. */
export function deletePaymentMethod(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'DELETE',
    url: '/v1/payment/methods/:id',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'deletePaymentMethod',
      tags: ['Payments'],
      summary: 'Remove a payment method',
      description:
        "Takes the platform's id of the method (`pmt-…`) or the processor's (`pm_…`). It is removed at the " +
        'processor, too. If ' +
        'it was the default, the newest remaining method becomes the default.',
      params: z.object({ id: z.string().meta({ example: 'pmt-9ypjhn8d3fkq6w2mzx5v' }) }),
      response: {
        200: messageEnvelope('It is removed; if it was the default, the newest remaining method is now the default'),
        ...failures(
          ...([ofMutations, 'root_required', 'not_found', 'payment_method_not_detachable'] as const),
          ...(['payments_not_configured', 'payment_processor_unavailable'] as const),
        ),
      },
    },
    handler: async (request) => {
      const processor = requireProcessor(deps);
      const em = deps.orm.em.fork();
      const { paymentMethodId } = await readMethod(em, scopeOf(request), request.params.id);
      try {
        await askProcessor(processor.detachMethod(paymentMethodId));
      } catch (error) {
        if (!(error instanceof ProcessorRefusedError)) throw error;
        throw new AppError('payment_method_not_detachable', 'The payment processor refuses to remove this method now', {
          cause: error,
        });
      }
      await deleteMethod(em, paymentMethodId);
      return successMessage('The payment method is removed');
    },
  });
}
