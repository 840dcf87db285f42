import { button, element } from '../shared/elements.ts';
import { PageError, visibleText } from '../shared/page-error.ts';
import { type Entry, listFolder, parentPath } from './agent-files.ts';

/** The number of entries of a folder that are shown. A sandbox may have any number of entries. */
const maxShown = 2000;

interface ShownFolder {
  entry: HTMLElement | null;
  list: HTMLElement;
}

/** A folder of the sandbox and its subfolders. Each is read when it is opened. */
export class FolderTree {
  readonly list = element('ul');
  #rootPath = '/';
  readonly #onChoose: (entry: Entry) => void;
  readonly #onError: (error: PageError) => void;
  /** Folders by path. */
  readonly #folders = new Map<string, ShownFolder>();
  readonly #entries = new Map<string, HTMLElement>();
  #marked: string | null = null;

  constructor(onChoose: (entry: Entry) => void, onError: (error: PageError) => void) {
    this.#onChoose = onChoose;
    this.#onError = onError;
  }

  get rootPath(): string {
    return this.#rootPath;
  }

  /** Shows the tree below a folder. @throws {PageError} */
  async show(rootPath: string): Promise<void> {
    this.#clear(this.list);
    this.#folders.clear();
    this.#rootPath = rootPath;
    this.#folders.set(rootPath, { entry: null, list: this.list });
    await this.refresh(rootPath);
  }

  /** Opens a folder, or closes it. @throws {PageError} */
  async toggle(path: string): Promise<void> {
    const folder = this.#folders.get(path);
    if (!folder?.entry) return;
    const opens = folder.entry.ariaExpanded !== 'true';
    if (opens) await this.refresh(path);
    else {
      folder.entry.ariaExpanded = 'false';
      this.#clear(folder.list);
    }
  }

  /** Reads a shown folder again, together with its open subfolders. @throws {PageError} */
  async refresh(path: string): Promise<void> {
    const folder = this.#folders.get(path);
    if (!folder) {
      if (path !== '/') await this.refresh(parentPath(path));
      return;
    }
    const open = [...this.#folders].filter(([each, { entry }]) => {
      return each !== path && parentPath(each) === path && entry?.ariaExpanded === 'true';
    });
    const entries = await listFolder(path);
    this.#clear(folder.list);
    if (folder.entry) folder.entry.ariaExpanded = 'true';
    for (const entry of entries.slice(0, maxShown)) folder.list.append(this.#item(entry));
    const more = entries.length - maxShown;
    if (more > 0) folder.list.append(element('li', { className: 'more', textContent: `${more} more are not shown` }));
    this.mark(this.#marked);
    for (const [each] of open) {
      if (this.#folders.has(each)) await this.refresh(each).catch((error) => this.#failed(error));
    }
  }

  /** Marks the selected entry. Null: none is selected. */
  mark(path: string | null): void {
    this.#entries.get(this.#marked ?? '')?.removeAttribute('aria-current');
    this.#marked = path;
    this.#entries.get(path ?? '')?.setAttribute('aria-current', 'true');
  }

  #item(entry: Entry): HTMLElement {
    const label = button(visibleText(entry.name, 200), () => this.#onChoose(entry));
    label.className = `entry ${entry.kind === 'folder' ? 'folder' : 'file'}`;
    label.title = entry.kind === 'file' ? `${entry.bytes} bytes` : '';
    this.#entries.set(entry.path, label);
    if (entry.kind !== 'folder') return element('li', {}, label);
    label.ariaExpanded = 'false';
    const list = element('ul');
    this.#folders.set(entry.path, { entry: label, list });
    return element('li', {}, label, list);
  }

  /** Removes everything that was shown below a folder. */
  #clear(list: HTMLElement): void {
    for (const [path, label] of this.#entries) {
      if (!list.contains(label)) continue;
      this.#entries.delete(path);
      this.#folders.delete(path);
    }
    list.replaceChildren();
  }

  #failed(error: unknown): void {
    if (!(error instanceof PageError)) throw error;
    this.#onError(error);
  }
}
