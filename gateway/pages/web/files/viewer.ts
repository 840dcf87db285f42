import { element } from '../shared/elements.ts';
import { PageError, visibleText } from '../shared/page-error.ts';
import { type Entry, readFile } from './agent-files.ts';
import { decodeText, detectImageType } from './content-kinds.ts';

const maxTextBytes = 2 * 1024 * 1024;
const maxImageBytes = 20 * 1024 * 1024;

/**
 * Shows one file: editable text, or a picture. HTML and SVG are shown as text, so no document of the sandbox is
 * rendered.
 */
export class Viewer {
  onEdit: () => void = () => undefined;
  readonly #place: HTMLElement;
  #editor: HTMLTextAreaElement | null = null;
  /** The text as it was opened or last saved. */
  #original = '';
  #lineEnd: '\n' | '\r\n' = '\n';
  #imageUrl: string | null = null;
  /** Counts the opened files, to drop replies for a file that is no longer open. */
  #opened = 0;

  constructor(place: HTMLElement) {
    this.#place = place;
    this.close();
  }

  get isEdited(): boolean {
    return this.#editor !== null && this.#editor.value !== this.#original;
  }

  close(): void {
    this.#opened++;
    this.#editor = null;
    if (this.#imageUrl) URL.revokeObjectURL(this.#imageUrl);
    this.#imageUrl = null;
    this.#note('Choose a file. Drop files anywhere on this page to upload them.');
  }

  /** @throws {PageError} */
  async open(entry: Entry): Promise<void> {
    this.close();
    const opened = this.#opened;
    if (entry.kind !== 'file') return this.#note('This is neither a file nor a folder.');
    this.#note('Reading…');
    let bytes: Uint8Array<ArrayBuffer>;
    try {
      bytes = await readFile(entry.path, maxImageBytes);
    } catch (error) {
      if (opened !== this.#opened) return;
      if (!(error instanceof PageError) || error.code !== 'too_large') {
        this.#note(error instanceof PageError ? error.message : '');
        throw error;
      }
      return this.#note('This file is too large to be shown. It can be downloaded.');
    }
    if (opened !== this.#opened) return;
    const imageType = detectImageType(bytes);
    if (imageType) return this.#showImage(new Blob([bytes], { type: imageType }), entry);
    const content = bytes.length <= maxTextBytes ? decodeText(bytes) : null;
    if (!content) return this.#note('This is not text, or too large to be edited. It can be downloaded.');
    this.#showText(content.text, content.lineEnd, entry);
  }

  /** The edited text as bytes, with the file's original line ends. */
  edited(): Uint8Array<ArrayBuffer> {
    const text = this.#editor?.value ?? '';
    return new TextEncoder().encode(this.#lineEnd === '\r\n' ? text.replaceAll('\n', '\r\n') : text);
  }

  /** The bytes were saved. Text that was typed since then was not. */
  saved(bytes: Uint8Array): void {
    this.#original = new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes).replaceAll('\r\n', '\n');
    this.onEdit();
  }

  #showText(text: string, lineEnd: '\n' | '\r\n' | null, entry: Entry): void {
    const editor = element('textarea', { spellcheck: false, value: text, readOnly: lineEnd === null });
    editor.ariaLabel = `Content of ${visibleText(entry.name)}`;
    if (lineEnd === null) editor.title = 'The line ends of this file are mixed: it is shown only';
    this.#original = editor.value;
    this.#lineEnd = lineEnd ?? '\n';
    this.#editor = editor;
    editor.addEventListener('input', () => this.onEdit());
    this.#place.replaceChildren(editor);
  }

  #showImage(blob: Blob, entry: Entry): void {
    this.#imageUrl = URL.createObjectURL(blob);
    const image = element('img', { alt: visibleText(entry.name) });
    image.addEventListener('error', () => this.#note('This picture is damaged. It can be downloaded.'));
    image.src = this.#imageUrl;
    this.#place.replaceChildren(image);
  }

  #note(text: string): void {
    this.#place.replaceChildren(element('p', { textContent: text }));
  }
}
