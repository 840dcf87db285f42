import type { Terminal } from '@xterm/xterm';

/**
 * Ctrl+C copies while something is selected and interrupts otherwise; Ctrl+Shift+C copies; Ctrl+V and Ctrl+Shift+V
 * paste, as the browser's own menu does. The sandbox reaches the clipboard in no way: OSC 52 is not understood.
 */
export function bindClipboard(terminal: Terminal, place: HTMLElement): void {
  terminal.attachCustomKeyEventHandler((event) => {
    if (!event.ctrlKey || event.altKey || event.metaKey) return true;
    const key = event.key.toLowerCase();
    // Left to the browser, whose paste event the terminal takes.
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
