import type { Transform } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from 'node:zlib'

/** Content codings (RFC 9110, section 8.4.1; RFC 9659). */
const decoders: Readonly<Record<string, () => Transform>> = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
  zstd: createZstdDecompress,
}

/** A body as far as it came. */
export interface Content {
  readonly body: Buffer
  /** False when there was more than the limit; the rest is not there. */
  readonly isWithinLimit: boolean
  /** False when it broke off. */
  readonly isWhole: boolean
}

/**
 * The content of a body that came compressed. Never throws.
 *
 * @param contentEncoding the header's values   @param maxBytes most bytes of content; the rest is not decompressed
 * @returns undefined for a body that stays as it came: coded in no way or another, twice, or not as it says
 */
export async function decompress(
  raw: Content,
  contentEncoding: readonly string[],
  maxBytes: number,
): Promise<Content | undefined> {
  const codings = contentEncoding
    .flatMap((value) => value.toLowerCase().split(','))
    .map((coding) => coding.trim())
    .filter((coding) => coding !== '' && coding !== 'identity')
  const create = codings.length === 1 && Object.hasOwn(decoders, codings[0]!) && decoders[codings[0]!]
  if (codings.length > 0 && raw.body.length === 0) return raw
  if (!create) return undefined
  const decoder = create()
  decoder.end(raw.body)
  const chunks: Buffer[] = []
  let room = maxBytes
  let { isWithinLimit, isWhole } = raw
  try {
    for await (const chunk of decoder as AsyncIterable<Buffer>) {
      chunks.push(chunk.subarray(0, room))
      room -= chunk.length
      if (room >= 0) continue
      isWithinLimit = false
      break
    }
  } catch {
    if (chunks.length === 0) return undefined
    // Of a body that was cut off at the limit, the end is missing; of another one that breaks off, it never came.
    isWhole = !isWithinLimit && isWhole
  }
  return { body: Buffer.concat(chunks), isWithinLimit, isWhole }
}
