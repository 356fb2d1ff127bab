// A page of `kscope view`: its data comes from the server that the page came from, and from nowhere
// else. This is the one file that asks.
import type { Source, TileWish } from './source';
import type { RawFound, RawTile } from './timeline';

const LOOK_MS = 2000;
const TOKEN = /^#token=([0-9a-f]{32})$/;

/** Why there is nothing to show, in words for the reader. */
export class Refused extends Error {}

export function isServed(): boolean {
  return document.documentElement.hasAttribute('data-served');
}

async function ask(path: string, options: RequestInit = {}): Promise<Response> {
  return fetch(path, { cache: 'no-store', credentials: 'same-origin', ...options });
}

/** One state of the report; when there is a newer one, the server gives no more of this one. */
class ServedSource implements Source {
  constructor(private readonly version: number) {}

  async block(id: string): Promise<unknown> {
    return this.read(`/api/${id}?v=${this.version}`);
  }

  readonly tile = async (wish: TileWish): Promise<RawTile> => {
    const { startNs, endNs, parts, tracks } = wish;
    const path =
      `/api/tile?v=${this.version}&start=${startNs}&end=${endNs}` +
      `&parts=${parts}&tracks=${tracks.join(',')}`;
    return (await this.read(path)) as RawTile;
  };

  readonly find = async (text: string): Promise<RawFound> =>
    (await this.read(`/api/find?v=${this.version}`, { method: 'POST', body: text })) as RawFound;

  private async read(path: string, options: RequestInit = {}): Promise<unknown> {
    const response = await ask(path, options);
    if (!response.ok) {
      throw new Error(`${path}: ${response.status}`);
    }
    return response.json();
  }
}

/** The token of the address is changed into a cookie, and then no longer in the address. */
async function openSession(): Promise<void> {
  const token = TOKEN.exec(window.location.hash)?.[1];
  if (!token) {
    return;
  }
  window.history.replaceState(null, '', window.location.pathname);
  await ask('/api/session', { method: 'POST', body: token });
  // A token that was used says nothing: this browser may be the one that has the cookie.
}

export class Server {
  private tag = '';

  private constructor() {}

  static async open(): Promise<{ server: Server; source: Source }> {
    await openSession();
    const server = new Server();
    const source = await server.newest();
    if (!source) {
      throw new Refused('The server has no report.');
    }
    return { server, source };
  }

  /** The newest state, or null when the page has it. */
  private async newest(): Promise<Source | null> {
    const response = await ask('/api/version', { headers: { 'If-None-Match': this.tag } });
    if (response.status === 401) {
      throw new Refused(
        'This page is for the browser that opened it first. Start kscope view again, and open ' +
          'the address that it prints.',
      );
    }
    if (response.status === 304) {
      return null;
    }
    const { version } = (await response.json()) as { version: number };
    this.tag = response.headers.get('ETag') ?? '';
    return new ServedSource(version);
  }

  /** Looks every now and then; `onNewer` has shown the new state when its promise is fulfilled. */
  watch(onNewer: (source: Source) => Promise<void>, onReach: (isThere: boolean) => void): void {
    const look = async () => {
      const before = this.tag;
      try {
        const source = await this.newest();
        onReach(true);
        if (source) {
          await onNewer(source);
        }
      } catch {
        this.tag = before; // so that it is shown when it can be
        onReach(false);
      }
      window.setTimeout(() => void look(), LOOK_MS);
    };
    window.setTimeout(() => void look(), LOOK_MS);
  }
}
