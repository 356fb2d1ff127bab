// What part of time is seen. Always inside the trace, and never narrower than a few nanoseconds.

const WIDTH_NS_MIN = 50;

export class Camera {
  fromNs: number;
  toNs: number;

  constructor(
    readonly startNs: number,
    readonly endNs: number,
  ) {
    this.fromNs = startNs;
    this.toNs = endNs;
  }

  get widthNs(): number {
    return this.toNs - this.fromNs;
  }

  set(fromNs: number, toNs: number): void {
    const full = this.endNs - this.startNs;
    const width = Math.min(full, Math.max(WIDTH_NS_MIN, toNs - fromNs));
    const middle = (fromNs + toNs) / 2;
    const from = Math.min(Math.max(middle - width / 2, this.startNs), this.endNs - width);
    this.fromNs = Math.max(from, this.startNs);
    this.toNs = this.fromNs + width;
  }

  all(): void {
    this.set(this.startNs, this.endNs);
  }

  pan(deltaNs: number): void {
    const width = this.widthNs;
    const from = Math.min(Math.max(this.fromNs + deltaNs, this.startNs), this.endNs - width);
    this.set(from, from + width);
  }

  /** `factor` below 1 looks closer; the moment `aroundNs` stays where it is on the screen. */
  zoom(factor: number, aroundNs = (this.fromNs + this.toNs) / 2): void {
    const width = Math.max(WIDTH_NS_MIN, this.widthNs * factor);
    const share = (aroundNs - this.fromNs) / this.widthNs;
    const from = aroundNs - share * width;
    this.set(from, from + width);
  }

  /** Shows [fromNs, toNs) with some room on both sides. */
  frame(fromNs: number, toNs: number): void {
    const room = Math.max((toNs - fromNs) * 0.08, WIDTH_NS_MIN);
    this.set(fromNs - room, toNs + room);
  }
}
