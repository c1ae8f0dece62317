import type { Readable } from 'node:stream'
import { TollgateError } from '../errors/error.ts'

/** Pieces below this size are copied together, in bytes, because an object for each would take more memory than its content. */
const SMALL_BYTES = 1_024
const BLOCK_BYTES = 16_384

/**
 * A body in the pieces in which it arrives. It takes little more memory than its bytes, even if the pieces are small. Otherwise a
 * body in single bytes would take a hundred times as much.
 */
export class Pieces {
  /** Size of all pieces together, in bytes. */
  bytes = 0
  readonly #whole: Buffer[] = []
  /** The last piece, if it is a block that is not full yet. */
  #block: Buffer | null = null
  #blockUsed = 0

  push(piece: Buffer): void {
    this.bytes += piece.length
    // Most bodies are a single piece.
    if (this.#whole.length === 0 && this.#block === null) return void this.#whole.push(piece)
    if (piece.length < SMALL_BYTES) return this.#gather(piece)
    this.#endBlock()
    // A small part of a large buffer is copied, because it would otherwise keep the whole buffer in memory.
    const isMostOfIt = piece.length * 4 >= piece.buffer.byteLength
    this.#whole.push(isMostOfIt ? piece : Buffer.from(piece))
  }

  /** Adds a copy of a piece. @param piece the caller may reuse its memory once this returns */
  pushCopy(piece: Buffer): void {
    if (this.bytes > 0 && piece.length < SMALL_BYTES) return this.push(piece)
    const own = Buffer.allocUnsafeSlow(piece.length)
    piece.copy(own)
    this.push(own)
  }

  /** All pieces in order as one buffer. If there is only one piece, it is not copied. */
  join(): Buffer {
    this.#endBlock()
    return this.#whole.length === 1 ? this.#whole[0]! : Buffer.concat(this.#whole, this.bytes)
  }

  /** Number of buffers in memory. */
  get count(): number {
    return this.#whole.length + (this.#block === null ? 0 : 1)
  }

  #gather(piece: Buffer): void {
    if (this.#blockUsed + piece.length > BLOCK_BYTES) this.#endBlock()
    this.#block ??= Buffer.allocUnsafeSlow(BLOCK_BYTES)
    this.#blockUsed += piece.copy(this.#block, this.#blockUsed)
  }

  #endBlock(): void {
    if (this.#block === null) return
    const isFull = this.#blockUsed * 2 > BLOCK_BYTES
    const used = this.#block.subarray(0, this.#blockUsed)
    this.#whole.push(isFull ? used : Buffer.from(used))
    this.#block = null
    this.#blockUsed = 0
  }
}

/** A request whose body has not been read. */
interface Unread {
  header(name: string): string | undefined
  readonly body: Readable | null
}

/**
 * Reads a whole request body if its stated length allows that.
 *
 * @returns the bytes. Null if the length is over `maxBytes` or not stated. Nothing was read then, so the body can still be streamed
 * @throws {TollgateError} `bad_request` if the caller disconnects, or sends fewer bytes than stated
 */
export function readBody(request: Unread, maxBytes: number): Promise<Buffer> | null {
  const stated = request.header('content-length')
  const { body } = request
  if (body === null || stated === undefined || Number(stated) > maxBytes) return null
  return new Promise((resolve, reject) => {
    const broken = () =>
      reject(new TollgateError('bad_request', 'The request body ended before its stated length.'))
    // If the stream failed or ended before the listeners were added, it emits no further event.
    if (body.destroyed || body.readableEnded) return broken()
    const pieces = new Pieces()
    body.on('data', (chunk: Buffer) => pieces.push(chunk))
    body.on('end', () => resolve(pieces.join()))
    // A body emits `close` after its end too. The error is made only if needed, because an object for each body would take a
    // twentieth of a call's time.
    body.on('close', () => {
      if (!body.readableEnded) broken()
    })
    body.on('error', broken)
  })
}

/** The parts of a `Content-Type` header. Its content is not trusted. */
interface ContentType {
  /** Lower case, without parameters. Empty if the value is not exactly one media type (RFC 9110, section 8.3.1). */
  readonly mediaType: string
  /**
   * Whether every browser that must not sniff treats the body as data and never as a page. This is true of JSON that all readers
   * read alike, and of images, sound, film, fonts and archives. Other types may be pages.
   */
  readonly isInert: boolean
}

/**
 * One media type. Values with commas do not match, because a comma separates two values (RFC 9110, section 5.3), of which browsers
 * take the last. A no-break space does not count as a space.
 */
const oneType = /^([!#$%&'*+\-.^_`|~0-9a-z]+\/[!#$%&'*+\-.^_`|~0-9a-z]+)[\t ]*(?:;[^,]*)?$/i
const exactJson = /^application\/json(?:[\t ]*;[\t ]*charset=(?:utf-8|"utf-8"))?$/i
/** Types without parameters. SVG and PDF are not among them, because such documents can contain scripts. */
const inertTypes = new Set([
  ...['apng', 'avif', 'bmp', 'gif', 'heic', 'jpeg', 'jxl', 'png', 'tiff', 'webp'].map(
    (sub) => `image/${sub}`,
  ),
  ...['aac', 'flac', 'mp4', 'mpeg', 'ogg', 'wav', 'webm'].map((sub) => `audio/${sub}`),
  ...['mp4', 'mpeg', 'ogg', 'quicktime', 'webm'].map((sub) => `video/${sub}`),
  ...['otf', 'ttf', 'woff', 'woff2'].map((sub) => `font/${sub}`),
  ...['octet-stream', 'gzip', 'zip', 'zstd'].map((sub) => `application/${sub}`),
])

/** Cache of parsed values, because sellers use few spellings. A seller that always sends a new value only empties the cache. */
const known = new Map<string, ContentType>()
const MAX_KNOWN = 1_000
const MAX_KNOWN_LENGTH = 128

/** @param value value of the header without surrounding white space. Several headers are joined by a comma */
export function contentTypeOf(value: string): ContentType {
  return known.get(value) ?? remember(value)
}

function remember(value: string): ContentType {
  const mediaType = oneType.exec(value)?.[1]?.toLowerCase() ?? ''
  const isInert = exactJson.test(value) || inertTypes.has(value.toLowerCase())
  const contentType = { mediaType, isInert }
  if (value.length > MAX_KNOWN_LENGTH) return contentType
  if (known.size === MAX_KNOWN) known.clear()
  known.set(value, contentType)
  return contentType
}

/** The result for a response without `Content-Type`. */
export const noContentType = contentTypeOf('')
