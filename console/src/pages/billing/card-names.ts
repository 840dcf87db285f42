import type { DataOf } from '../../api/client.ts';
import { visibleText } from '../../format/text.ts';

export type Card = DataOf<'listPaymentMethods'>['payment_methods'][number];

/** A card as its owner knows it, such as `visa ending in 4242`. */
export const nameOfCard = ({ brand, type, last4 }: Card) =>
  visibleText(`${brand ?? type}${last4 === null ? '' : ` ending in ${last4}`}`);
