// The block `flame`: trees of frames in pre-order, each a chart of its own.

interface RawKind {
  readonly name: string;
  readonly unit: string;
  readonly strings: readonly string[];
  readonly nodes: {
    readonly parent: readonly number[];
    readonly name: readonly number[];
    readonly self: readonly number[];
    readonly total: readonly number[];
    readonly calls: readonly number[];
  };
}

/** Nodes by index; a node comes after its parent, and its offset is where it begins in the root. */
export interface FlameTree {
  readonly name: string;
  readonly unit: string;
  readonly size: number;
  readonly depthCount: number;
  readonly parent: Int32Array;
  readonly depth: Uint16Array;
  readonly offset: Float64Array;
  readonly total: Float64Array;
  readonly self: Float64Array;
  readonly calls: Float64Array;
  readonly total0: number;
  nameOf(node: number): string;
}

export function asFlame(value: unknown): FlameTree[] {
  const raw = value as { kinds?: readonly RawKind[] } | null;
  if (!raw || !Array.isArray(raw.kinds)) {
    return [];
  }
  return raw.kinds.filter((kind) => kind.nodes.parent.length > 0).map(decodeTree);
}

function decodeTree(raw: RawKind): FlameTree {
  const size = raw.nodes.parent.length;
  const parent = Int32Array.from(raw.nodes.parent);
  const total = Float64Array.from(raw.nodes.total);
  const depth = new Uint16Array(size);
  const offset = new Float64Array(size);
  const filled = new Float64Array(size + 1); // what siblings so far take, by parent; last: roots
  let depthCount = 0;
  for (let i = 0; i < size; i++) {
    const above = parent[i] ?? -1;
    if (above >= i) {
      parent[i] = -1; // no way up may run in a circle
    }
    const slot = above < 0 || above >= i ? size : above;
    depth[i] = slot === size ? 0 : (depth[slot] ?? 0) + 1;
    offset[i] = (slot === size ? 0 : (offset[slot] ?? 0)) + (filled[slot] ?? 0);
    filled[slot] = (filled[slot] ?? 0) + (total[i] ?? 0);
    depthCount = Math.max(depthCount, (depth[i] ?? 0) + 1);
  }
  return {
    name: raw.name,
    unit: raw.unit,
    size,
    depthCount,
    parent,
    depth,
    offset,
    total,
    self: Float64Array.from(raw.nodes.self),
    calls: Float64Array.from(raw.nodes.calls),
    total0: filled[size] ?? 0,
    nameOf: (node) => raw.strings[raw.nodes.name[node] ?? -1] ?? '',
  };
}
