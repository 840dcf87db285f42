import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { openSearchPanel, search, searchKeymap } from '@codemirror/search';
import { EditorState, Text } from '@codemirror/state';
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightActiveLineGutter,
  highlightSpecialChars,
  keymap,
  lineNumbers,
} from '@codemirror/view';

/**
 * An editor of one text, with line numbers and search. Control characters, invisible characters and those that change
 * the text direction are shown as dots. This module is loaded when the first text is opened, because it is larger than
 * the rest of the page.
 */
export class Editor {
  /** The editor is in a shadow root: there its styles are style sheet objects, which the page's policy allows. */
  readonly element = document.createElement('div');
  readonly #view: EditorView;
  #saved: Text;

  constructor(options: { text: string; isReadOnly: boolean; label: string; wrapsLines: boolean; onEdit: () => void }) {
    const { text, isReadOnly, label, wrapsLines, onEdit } = options;
    this.element.className = 'editor';
    const root = this.element.attachShadow({ mode: 'open' });
    const state = EditorState.create({
      doc: text,
      extensions: [
        ...[lineNumbers(), highlightActiveLine(), highlightActiveLineGutter(), highlightSpecialChars()],
        ...[history(), drawSelection(), search({ top: true }), EditorState.readOnly.of(isReadOnly)],
        // Escape, then Tab leaves the editor.
        keymap.of([...searchKeymap, ...historyKeymap, ...defaultKeymap, indentWithTab]),
        wrapsLines ? EditorView.lineWrapping : [],
        EditorView.contentAttributes.of({ 'aria-label': label, spellcheck: 'false' }),
        EditorView.updateListener.of(({ docChanged }) => docChanged && onEdit()),
        theme,
      ],
    });
    this.#saved = state.doc;
    this.#view = new EditorView({ state, parent: root, root });
  }

  /** The text, with line feeds as line ends. */
  get text(): string {
    return this.#view.state.doc.toString();
  }

  get isEdited(): boolean {
    return !this.#view.state.doc.eq(this.#saved);
  }

  /** This text was saved. Text that was typed since then was not. */
  setSaved(text: string): void {
    this.#saved = Text.of(text.split('\n'));
  }

  find(): void {
    openSearchPanel(this.#view);
  }

  close(): void {
    this.#view.destroy();
  }
}

const theme = EditorView.theme({
  '&': { height: '100%', color: 'var(--text)', background: 'var(--background)', fontSize: '13px' },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'ui-monospace, "DejaVu Sans Mono", monospace', lineHeight: '1.5' },
  '.cm-content': { caretColor: 'var(--text)' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '.cm-gutters': { color: 'var(--quiet)', background: 'var(--raised)', borderRight: '1px solid var(--line)' },
  '.cm-activeLine': { background: 'light-dark(#1a56db0d, #7aa7ff14)' },
  '.cm-activeLineGutter': { color: 'var(--text)', background: 'var(--line)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': {
    background: 'light-dark(#b9d0ff, #31466f)',
  },
  '.cm-specialChar': { color: 'var(--bad)' },
  '.cm-searchMatch': { background: 'light-dark(#ffe48a, #6b5a12)' },
  '.cm-searchMatch-selected': { background: 'light-dark(#ffb84d, #a86a00)' },
  '.cm-panels': { color: 'var(--text)', background: 'var(--raised)', borderColor: 'var(--line)' },
  '.cm-panels-top': { borderBottom: '1px solid var(--line)' },
  '.cm-panel.cm-search': { padding: '6px 28px 6px 12px', fontFamily: 'system-ui, sans-serif' },
  '.cm-panel.cm-search label': { fontSize: '13px', whiteSpace: 'nowrap' },
  '.cm-panel.cm-search [name=close]': { color: 'var(--text)', fontSize: '18px', minWidth: '24px', minHeight: '24px' },
  '.cm-panel .cm-textfield, .cm-panel .cm-button': {
    color: 'var(--text)',
    background: 'var(--background)',
    border: '1px solid var(--line)',
    borderRadius: '6px',
    fontSize: '13px',
    padding: '3px 8px',
  },
});
