// A view of a data block, which is read when the view is first seen.
import type { View } from '../app';
import { absent, h } from '../dom';

/** Shows what a link asks for, in a view that is built. */
export interface Built {
  go(params: URLSearchParams): void;
  /** See View. */
  takeOver?(older: Built): void;
}

export interface BlockViewOptions<T> {
  /** None where the whole window is needed. */
  readonly title: string | null;
  /** What a damaged page is said to have lost. */
  readonly what: string;
  readonly read: () => Promise<T>;
  readonly build: (value: T, element: HTMLElement) => Built | null;
}

export class BlockView<T> implements View {
  readonly element: HTMLElement;
  private readonly waiting = absent('Reading …');
  private isAsked = false;
  private built: Built | null = null;
  private params = new URLSearchParams();
  private isReady = () => {};
  readonly ready = new Promise<void>((resolve) => (this.isReady = resolve));

  constructor(private readonly options: BlockViewOptions<T>) {
    const { title } = options;
    this.element = h('div', { class: 'view' }, title && h('h1', {}, title), this.waiting);
  }

  show(params: URLSearchParams): void {
    this.params = params; // the last link counts, however many came while the block was read
    this.built?.go(params);
    if (!this.isAsked) {
      this.isAsked = true;
      this.options.read().then(
        (value) => this.build(value),
        () => {
          this.waiting.replaceWith(absent(this.damage()));
          this.isReady();
        },
      );
    }
  }

  private build(value: T): void {
    this.waiting.remove();
    this.built = this.options.build(value, this.element);
    this.built?.go(this.params);
    this.isReady();
  }

  takeOver(older: View): void {
    if (older instanceof BlockView && older.built) {
      this.built?.takeOver?.(older.built as Built);
    }
  }

  private damage(): string {
    return `This page is damaged: its ${this.options.what} cannot be read.`;
  }
}
