// Where a page has its data from: the blocks that lie in its file, or the server that gave it.
import { readBlock } from './blocks';
import type { RawFound, RawTile } from './timeline';

/** A part of the timeline that is looked at closer than the whole trace. */
export interface TileWish {
  readonly startNs: number;
  readonly endNs: number;
  readonly parts: number;
  readonly tracks: readonly number[];
}

export interface Source {
  /** Parses a data block; null when there is none. Throws when it is damaged, or out of reach. */
  block(id: string): Promise<unknown>;
  /** Gives any part of the timeline; null where all there is lies in the blocks. */
  readonly tile: ((wish: TileWish) => Promise<RawTile>) | null;
  /** Finds spans by name in all of the trace; null as above. */
  readonly find: ((text: string) => Promise<RawFound>) | null;
}

/** The page is one file, and asks nothing of a network. */
export const embeddedSource: Source = { block: readBlock, tile: null, find: null };
