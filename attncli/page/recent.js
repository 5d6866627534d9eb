// What takes long to make, and so is kept for when it is asked for again.

/** So many things by their names: of more the one goes that was not asked for the longest. */
export class Recent {
  constructor(most) {
    this.most = most;
    this.things = new Map();
  }

  has(name) {
    return this.things.has(name);
  }

  /** The thing of this name; what `make` gives if it is not there; null, which is not kept, if that can't be made yet. */
  get(name, make) {
    const thing = this.has(name) ? this.things.get(name) : make();
    if (thing === null) return null;
    this.things.delete(name);
    if (this.things.size >= this.most) this.things.delete(this.things.keys().next().value);
    this.things.set(name, thing);
    return thing;
  }
}
