/**
 * The alphabet has no characters that look alike. Its size is a power of two, so each byte gives one character without
 * bias.
 */
const alphabet = 'abcdefghijkmnopqrstuvwxyz2345678';
const groups = 4;
const groupLength = 5;

/**
 * A password of 100 bits that a person can read aloud, such as `k3vqm-8zr2n-…`. @param random 20 unpredictable bytes
 */
export function makeInitialPassword(random: Uint8Array): string {
  if (random.length !== groups * groupLength) throw new Error('An initial password takes 20 bytes');
  const characters = [...random].map((byte) => alphabet[byte % alphabet.length]);
  return Array.from({ length: groups }, (_, group) =>
    characters.slice(group * groupLength, (group + 1) * groupLength).join(''),
  ).join('-');
}
