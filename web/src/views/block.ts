// A view of a data block, which is read when the view is first seen.
import type { View } from '../app';
import { absent, h } from '../dom';

/** Shows what a link asks for, in a view that is built. */
type Go = (params: URLSearchParams) => void;

export interface BlockViewOptions<T> {
  /** None where the whole window is needed. */
  readonly title: string | null;
  /** What a damaged page is said to have lost. */
  readonly what: string;
  readonly read: () => Promise<T>;
  readonly build: (value: T, element: HTMLElement) => Go | null;
}

export class BlockView<T> implements View {
  readonly element: HTMLElement;
  private readonly waiting = absent('Reading …');
  private isAsked = false;
  private go: Go | null = null;
  private params = new URLSearchParams();

  constructor(private readonly options: BlockViewOptions<T>) {
    const { title } = options;
    this.element = h('div', { class: 'view' }, title && h('h1', {}, title), this.waiting);
  }

  show(params: URLSearchParams): void {
    this.params = params; // the last link counts, however many came while the block was read
    this.go?.(params);
    if (!this.isAsked) {
      this.isAsked = true;
      this.options.read().then(
        (value) => this.build(value),
        () => this.waiting.replaceWith(absent(this.damage())),
      );
    }
  }

  private build(value: T): void {
    this.waiting.remove();
    this.go = this.options.build(value, this.element);
    this.go?.(this.params);
  }

  private damage(): string {
    return `This page is damaged: its ${this.options.what} cannot be read.`;
  }
}
