/** What was changed since the last flush, the newest last: how to take it back. */
export class Journal {
  readonly #undo: (() => void)[] = []

  /** A place to which {@link takeBack} returns. */
  get mark(): number {
    return this.#undo.length
  }

  note(undo: () => void): void {
    this.#undo.push(undo)
  }

  takeBack(mark: number): void {
    while (this.#undo.length > mark) this.#undo.pop()!()
  }

  /** Everything so far stays. */
  flush(): void {
    this.#undo.length = 0
  }
}

/** A map of values that are never changed in place, whose own changes can be taken back. */
export class Table<K, V> {
  readonly #rows = new Map<K, V>()
  readonly #journal: Journal

  constructor(journal: Journal) {
    this.#journal = journal
  }

  get(key: K): V | undefined {
    return this.#rows.get(key)
  }

  has(key: K): boolean {
    return this.#rows.has(key)
  }

  set(key: K, value: V): void {
    this.#noteBefore(key)
    this.#rows.set(key, value)
  }

  delete(key: K): boolean {
    if (!this.#rows.has(key)) return false
    this.#noteBefore(key)
    return this.#rows.delete(key)
  }

  values(): V[] {
    return [...this.#rows.values()]
  }

  keys(): K[] {
    return [...this.#rows.keys()]
  }

  #noteBefore(key: K): void {
    const rows = this.#rows
    if (rows.has(key)) {
      const before = rows.get(key)!
      this.#journal.note(() => rows.set(key, before))
    } else {
      this.#journal.note(() => rows.delete(key))
    }
  }
}
