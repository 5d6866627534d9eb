// A cache of results that take long to compute.

/** At most `most` results by name. If there are more, the least recently used one is dropped. */
export class Recent {
  constructor(most) {
    this.most = most;
    this.things = new Map();
  }

  has(name) {
    return this.things.has(name);
  }

  /** Return the stored result, or store and return the result of `make()`. null means not decoded yet, and is not stored. */
  get(name, make) {
    const thing = this.has(name) ? this.things.get(name) : make();
    if (thing === null) return null;
    this.things.delete(name);
    if (this.things.size >= this.most) this.things.delete(this.things.keys().next().value);
    this.things.set(name, thing);
    return thing;
  }
}
