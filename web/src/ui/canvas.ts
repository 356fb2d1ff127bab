// A canvas that fits its box on any screen, and is drawn at most once a frame.

const SIDE_MAX = 8192; // browsers refuse larger ones

export class Canvas {
  readonly element: HTMLCanvasElement;
  readonly context: CanvasRenderingContext2D;
  width = 0;
  height = 0;
  private isAsked = false;

  constructor(
    private readonly box: HTMLElement,
    private readonly draw: () => void,
  ) {
    this.element = document.createElement('canvas');
    const context = this.element.getContext('2d', { alpha: false });
    if (!context) {
      throw new Error('this browser has no canvas');
    }
    this.context = context;
    box.append(this.element);
    new ResizeObserver(() => this.fit()).observe(box);
  }

  /** Asks for a drawing in the next frame. */
  redraw(): void {
    if (this.isAsked) {
      return;
    }
    this.isAsked = true;
    requestAnimationFrame(() => {
      this.isAsked = false;
      if (this.width > 0 && this.height > 0) {
        this.draw();
      }
    });
  }

  private fit(): void {
    const scale = Math.min(window.devicePixelRatio || 1, 2);
    const width = Math.floor(this.box.clientWidth);
    const height = Math.floor(this.box.clientHeight);
    if (width === 0 || height === 0) {
      return; // the view is hidden
    }
    this.width = width;
    this.height = height;
    this.element.width = Math.min(SIDE_MAX, Math.round(width * scale));
    this.element.height = Math.min(SIDE_MAX, Math.round(height * scale));
    this.element.style.width = `${width}px`;
    this.element.style.height = `${height}px`;
    this.context.setTransform(this.element.width / width, 0, 0, this.element.height / height, 0, 0);
    this.redraw();
  }
}

/** Cuts texts to a width; measuring is slow, so that each text is measured once. */
export class Fitter {
  private readonly widths = new Map<string, number>();

  constructor(private readonly context: CanvasRenderingContext2D) {}

  fit(text: string, room: number): string {
    if (room < 14) {
      return '';
    }
    let width = this.widths.get(text);
    if (width === undefined) {
      width = this.context.measureText(text.slice(0, 400)).width;
      this.widths.set(text, width);
    }
    if (width <= room) {
      return text;
    }
    const shown = Math.min(text.length, 400);
    const letters = Math.floor((shown * (room - 8)) / width);
    return letters < 2 ? '' : `${text.slice(0, letters)}…`;
  }
}
