import type { Terminal } from '@xterm/xterm';

/**
 * Ctrl+C copies while text is selected, and interrupts otherwise. Ctrl+Shift+C copies. Ctrl+V and Ctrl+Shift+V paste,
 * like the browser's own menu. The sandbox cannot access the clipboard: OSC 52 is not supported.
 */
export function bindClipboard(terminal: Terminal, place: HTMLElement): void {
  terminal.attachCustomKeyEventHandler((event) => {
    if (!event.ctrlKey || event.altKey || event.metaKey) return true;
    const key = event.key.toLowerCase();
    // The browser handles the key, and the terminal gets its paste event.
    if (key === 'v') return false;
    if (key !== 'c' || !(event.shiftKey || terminal.hasSelection())) return true;
    if (event.type === 'keydown') {
      event.preventDefault();
      document.execCommand('copy');
      if (!event.shiftKey) terminal.clearSelection();
    }
    return false;
  });
  place.addEventListener('copy', (event) => {
    event.clipboardData?.setData('text/plain', terminal.getSelection());
    event.preventDefault();
  });
}
