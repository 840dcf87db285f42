import { element } from '../shared/elements.ts';
import { PageError, visibleText } from '../shared/page-error.ts';
import { type Entry, readFile } from './agent-files.ts';
import { decodeText, detectImageType } from './content-kinds.ts';
import type { Editor } from './editor.ts';

const maxTextBytes = 2 * 1024 * 1024;
const maxImageBytes = 20 * 1024 * 1024;

/**
 * Shows one file: editable text, or a picture. HTML and SVG are shown as text, so no document of the sandbox is
 * rendered.
 */
export class Viewer {
  onEdit: () => void = () => undefined;
  readonly #place: HTMLElement;
  #editor: Editor | null = null;
  #lineEnd: '\n' | '\r\n' = '\n';
  #imageUrl: string | null = null;
  /** Counts the opened files, to drop replies for a file that is no longer open. */
  #opened = 0;

  constructor(place: HTMLElement) {
    this.#place = place;
    this.close();
  }

  get isEdited(): boolean {
    return this.#editor?.isEdited ?? false;
  }

  get isText(): boolean {
    return this.#editor !== null;
  }

  /** Opens the search in the text. */
  find(): void {
    this.#editor?.find();
  }

  close(): void {
    this.#opened++;
    this.#editor?.close();
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
    const { Editor } = await import('./editor.ts').catch(() => {
      throw new PageError('disconnected', 'The editor could not be loaded');
    });
    if (opened !== this.#opened) return;
    const { text, lineEnd } = content;
    this.#lineEnd = lineEnd ?? '\n';
    this.#editor = new Editor({
      text,
      isReadOnly: lineEnd === null,
      label: `Content of ${visibleText(entry.name)}`,
      wrapsLines: matchMedia('(max-width: 699px)').matches,
      onEdit: () => this.onEdit(),
    });
    const note = lineEnd === null ? 'The line ends of this file are mixed: it is shown only' : '';
    this.#editor.element.title = note;
    this.#place.replaceChildren(this.#editor.element);
  }

  /** The edited text as bytes, with the file's original line ends. */
  edited(): Uint8Array<ArrayBuffer> {
    const text = this.#editor?.text ?? '';
    return new TextEncoder().encode(this.#lineEnd === '\r\n' ? text.replaceAll('\n', '\r\n') : text);
  }

  /** The bytes were saved. Text that was typed since then was not. */
  saved(bytes: Uint8Array): void {
    const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
    this.#editor?.setSaved(text.replaceAll('\r\n', '\n'));
    this.onEdit();
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
