import type { Fanfold } from "./index.js";
import { type Call, newestFirst, type Place, Pages, type Query, type Read } from "./pages.js";
import type { components } from "./schema.js";

/** The user's own timeline, with the read marker that all devices of the user share. */
export class Timeline extends Pages {
  #marker: Place | undefined;

  constructor(
    private readonly client: Fanfold,
    read: Read,
    range: Query,
    relations: () => number,
  ) {
    super(read, range, relations);
  }

  /** The entry up to which the user has read, as far as this object knows. */
  get marker(): Place | undefined {
    return this.#marker;
  }

  /** Ask where the marker is: another device may have moved it. */
  async loadMarker(call: Call = {}): Promise<Place | undefined> {
    const { published_at, ref_id } = await this.client.marker(call);
    if (published_at && ref_id) this.#move({ published_at, ref_id });
    return this.#marker;
  }

  /** Everything up to this entry is read; without one, everything that is held. */
  async markRead(entry: Place | undefined = this.entries[0], call: Call = {}): Promise<void> {
    if (!entry || !this.isUnread(entry)) return;
    this.#move(await this.client.moveMarker(entry, call));
  }

  /** Whether an entry is above the marker that is known. */
  isUnread(entry: Place): boolean {
    return !this.#marker || newestFirst(entry, this.#marker) < 0;
  }

  /** How much the service counts above the marker, up to 100. */
  unread(call: Call = {}): Promise<components["schemas"]["Unread"]> {
    return this.client.unread(call);
  }

  /** It only moves up, in whatever order answers arrive. */
  #move({ published_at, ref_id }: Place): void {
    if (this.isUnread({ published_at, ref_id })) this.#marker = { published_at, ref_id };
  }
}
