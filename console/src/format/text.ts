/** Control characters, and marks that change the direction of text or take no place, by which a name could deceive. */
const deceptive =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** A text from outside, with such characters shown as their code in brackets. */
export function visibleText(text: string): string {
  return text.replace(
    deceptive,
    (character) => `⟨${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}⟩`,
  );
}
