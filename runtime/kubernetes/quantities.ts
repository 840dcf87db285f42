const factors: Readonly<Record<string, number>> = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  '': 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
};

/**
 * Converts a quantity of Kubernetes, such as `1500m`, `2Gi` or `1e3`, to a number. The client library has such a
 * function but does not export it.
 */
export function parseQuantity(quantity: string): number {
  const [, number, suffix = ''] = /^([+-]?[\d.]+(?:[eE][+-]?\d+)?)([numkMGTPE]|[KMGTPE]i)?$/.exec(quantity) ?? [];
  const factor = factors[suffix];
  if (number === undefined || factor === undefined) throw new Error(`${quantity} is no quantity`);
  return Number(number) * factor;
}

/** Converts a quantity of Kubernetes to whole bytes. */
export const parseBytes = (quantity: string): number => Math.floor(parseQuantity(quantity));
