// The data blocks of the page (docs/formats/page.md): JSON in <script type="application/json">,
// or base64 of gzip of it.

/** Parses block `id`; null when the page has none. Throws when it is damaged. */
export async function readBlock(id: string): Promise<unknown> {
  const element = document.getElementById(id);
  const text = element?.textContent;
  if (!element || !text) {
    return null;
  }
  const isPacked = element.getAttribute('data-encoding') === 'gzip';
  const value: unknown = JSON.parse(isPacked ? await inflate(text.trim()) : text);
  element.remove(); // the text is as large as what was made of it
  return value;
}

async function inflate(base64: string): Promise<string> {
  const binary = atob(base64);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) {
    bytes[i] = binary.charCodeAt(i);
  }
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(stream).text();
}

/** Absolute values of a column that holds the first one and then differences. */
export function undelta(deltas: readonly number[]): Float64Array {
  const out = new Float64Array(deltas.length);
  let sum = 0;
  for (let i = 0; i < deltas.length; i++) {
    sum += deltas[i] ?? 0;
    out[i] = sum;
  }
  return out;
}
