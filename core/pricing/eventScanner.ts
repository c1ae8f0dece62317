import type { JsonScanner } from './jsonScanner.ts'

const DATA = Buffer.from('data')
const LINE_FEED = Buffer.from('\n')

/**
 * Reads the `data` of server-sent events as JSON, as it arrives (HTML, section 9.2.6). Lines may end with CR, LF or both. It stores
 * nothing of an event, because the JSON is read as it arrives.
 */
export class EventScanner {
  readonly #json: JsonScanner
  /** `name`: at the beginning of a line. `space`: after `data:`. `data`: in the value. `skip`: in another field. */
  #at: 'name' | 'space' | 'data' | 'skip' = 'name'
  /** How many bytes of the line's name have been read. */
  #nameBytes = 0
  #hasData = false
  #isAfterReturn = false

  constructor(json: JsonScanner) {
    this.#json = json
  }

  push(chunk: Uint8Array): void {
    for (let i = 0; i < chunk.length; i++) {
      const byte = chunk[i]!
      if (byte === 0x0a && this.#isAfterReturn) {
        this.#isAfterReturn = false
        continue
      }
      this.#isAfterReturn = byte === 0x0d
      if (byte === 0x0a || byte === 0x0d) this.#endLine()
      else if (this.#at === 'name') this.#readName(byte)
      else if (this.#at === 'space' && byte === 0x20) this.#at = 'data'
      else if (this.#at !== 'skip') {
        this.#at = 'data'
        const end = endOfLine(chunk, i)
        this.#json.push(chunk.subarray(i, end))
        i = end - 1
      }
    }
  }

  #readName(byte: number): void {
    const bytes = this.#nameBytes++
    if (bytes === DATA.length && byte === 0x3a) {
      // Several data lines of an event are joined by line feeds.
      if (this.#hasData) this.#json.push(LINE_FEED)
      this.#hasData = true
      this.#at = 'space'
    } else if (DATA[bytes] !== byte) this.#at = 'skip'
  }

  #endLine(): void {
    const isEmpty = this.#at === 'name' && this.#nameBytes === 0
    this.#at = 'name'
    this.#nameBytes = 0
    if (!isEmpty) return
    this.#hasData = false
    this.#json.reset()
  }
}

function endOfLine(chunk: Uint8Array, from: number): number {
  let end = from
  while (end < chunk.length && chunk[end] !== 0x0a && chunk[end] !== 0x0d) end++
  return end
}
