/** Maximum nesting of arrays and objects. */
const MAX_DEPTH = 64
/** Maximum length of a key or scalar that is reported, in bytes as written. Longer ones are skipped without being stored. */
const MAX_TEXT_BYTES = 256

/** Gets what a {@link JsonScanner} finds. */
export interface JsonListener {
  /**
   * A number or a string of the document.
   *
   * @param path keys and indexes from the root. Null stands for a key that is too long
   * @param text the number as written, or the content of the string
   */
  scalar(path: readonly (string | null)[], text: string, isNumber: boolean): void
  /** The document has ended, and was well formed. */
  document(): void
  /** The document is not JSON, or has not ended. What was reported of it does not count. */
  dropped(): void
}

type Expected = 'value' | 'value or ]' | 'key' | 'key or }' | 'colon' | 'comma or end' | 'nothing'

/**
 * Reads JSON (RFC 8259) as it arrives, in chunks that may end anywhere, also inside a character. It stores only the keys on the
 * current path and the current scalar, so that its memory does not depend on the size of the document. Several documents may follow
 * one another.
 */
export class JsonScanner {
  readonly #listener: JsonListener
  /** One entry per open container: the current key of an object, or the current index of a list. */
  #path: (string | null)[] = []
  /** One entry per open container. A list has its current index, an object has -1. */
  #indexes: number[] = []
  #expected: Expected = 'value'
  /** The string, number or word that is being read. */
  #token: 'none' | 'string' | 'plain' = 'none'
  #isEscaped = false
  readonly #text = Buffer.alloc(MAX_TEXT_BYTES)
  #textBytes = 0

  constructor(listener: JsonListener) {
    this.#listener = listener
  }

  push(chunk: Uint8Array): void {
    for (let i = 0; i < chunk.length; i++) {
      if (this.#expected === 'nothing') return
      this.#read(chunk[i]!)
    }
  }

  /** Begins a new document. A document that has not ended is dropped. */
  reset(): void {
    this.#path = []
    this.#indexes = []
    this.#expected = 'value'
    this.#token = 'none'
    this.#isEscaped = false
    this.#listener.dropped()
  }

  #read(byte: number): void {
    if (this.#token === 'string') return this.#readString(byte)
    if (this.#token === 'plain') {
      if (isPlain(byte)) return this.#keep(byte)
      this.#endPlain()
      if (this.#expected === 'nothing') return
    }
    switch (byte) {
      case 0x20:
      case 0x09:
      case 0x0a:
      case 0x0d:
        return
      case 0x22:
        if (this.#expected === 'colon' || this.#expected === 'comma or end') return this.#fail()
        return this.#begin('string')
      case 0x7b:
        return this.#open(-1, 'key or }')
      case 0x5b:
        return this.#open(0, 'value or ]')
      case 0x7d:
        return this.#close(this.#expected === 'key or }', -1)
      case 0x5d:
        return this.#close(this.#expected === 'value or ]', 0)
      case 0x3a:
        if (this.#expected !== 'colon') return this.#fail()
        this.#expected = 'value'
        return
      case 0x2c:
        return this.#readComma()
      default:
        if (!isPlain(byte) || !this.#mayBeValue) return this.#fail()
        this.#begin('plain')
        return this.#keep(byte)
    }
  }

  get #mayBeValue(): boolean {
    return this.#expected === 'value' || this.#expected === 'value or ]'
  }

  #begin(token: 'string' | 'plain'): void {
    this.#token = token
    this.#textBytes = 0
  }

  #keep(byte: number): void {
    if (this.#textBytes < MAX_TEXT_BYTES) this.#text[this.#textBytes] = byte
    this.#textBytes++
  }

  #readString(byte: number): void {
    if (!this.#isEscaped && byte === 0x22) return this.#endString()
    this.#isEscaped = !this.#isEscaped && byte === 0x5c
    this.#keep(byte)
  }

  #endString(): void {
    this.#token = 'none'
    const text = this.#textBytes > MAX_TEXT_BYTES ? null : this.#unescaped()
    if (text === undefined) return this.#fail()
    if (this.#expected === 'key' || this.#expected === 'key or }') {
      this.#path[this.#path.length - 1] = text
      this.#expected = 'colon'
      return
    }
    if (text !== null) this.#listener.scalar(this.#path, text, false)
    this.#endValue()
  }

  /** @returns undefined for an invalid escape */
  #unescaped(): string | undefined {
    const raw = this.#text.toString('utf8', 0, this.#textBytes)
    if (!raw.includes('\\')) return raw
    try {
      return JSON.parse(`"${raw}"`)
    } catch {
      return undefined
    }
  }

  #endPlain(): void {
    this.#token = 'none'
    const text = this.#text.toString('latin1', 0, Math.min(this.#textBytes, MAX_TEXT_BYTES))
    if (/^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/.test(text)) {
      if (this.#textBytes <= MAX_TEXT_BYTES) this.#listener.scalar(this.#path, text, true)
    } else if (text !== 'null' && text !== 'true' && text !== 'false') return this.#fail()
    this.#endValue()
  }

  #open(index: number, expected: Expected): void {
    if (!this.#mayBeValue || this.#indexes.length === MAX_DEPTH) return this.#fail()
    this.#indexes.push(index)
    this.#path.push(index === -1 ? null : '0')
    this.#expected = expected
  }

  /** @param isEmpty whether the container has no entry @param kind -1 for an object, 0 for a list */
  #close(isEmpty: boolean, kind: -1 | 0): void {
    const index = this.#indexes.at(-1)
    if (index === undefined || Math.min(index, 0) !== kind) return this.#fail()
    if (!isEmpty && this.#expected !== 'comma or end') return this.#fail()
    this.#indexes.pop()
    this.#path.pop()
    this.#endValue()
  }

  #endValue(): void {
    this.#expected = 'comma or end'
    if (this.#indexes.length > 0) return
    this.#listener.document()
    this.#expected = 'value'
  }

  #readComma(): void {
    const last = this.#indexes.length - 1
    if (last === -1 || this.#expected !== 'comma or end') return this.#fail()
    const index = this.#indexes[last]!
    if (index === -1) {
      this.#expected = 'key'
      return
    }
    this.#indexes[last] = index + 1
    this.#path[last] = String(index + 1)
    this.#expected = 'value'
  }

  /** Skips the rest of the document, which is not JSON. */
  #fail(): void {
    this.#expected = 'nothing'
    this.#listener.dropped()
  }
}

/** Whether a byte belongs to a number or to `null`, `true` or `false`. */
const isPlain = (byte: number): boolean =>
  (byte >= 0x30 && byte <= 0x39) ||
  (byte >= 0x61 && byte <= 0x7a) ||
  byte === 0x2d ||
  byte === 0x2b ||
  byte === 0x2e ||
  byte === 0x45
