import { readGif } from './gif.ts'
import { readJpeg } from './jpeg.ts'
import { brokenPicture, PictureFault, type ReadParts } from './pictureParts.ts'
import { readPng } from './png.ts'
import { readWebp } from './webp.ts'

export const MAX_PICTURE_BYTES = 1_048_576
/** Of either side, in pixels. */
export const MAX_PICTURE_SIDE = 4_096

/** A picture as it is kept: what its own format says, put together anew, and nothing besides. */
export interface Picture {
  readonly mediaType: 'image/png' | 'image/jpeg' | 'image/gif' | 'image/webp'
  readonly bytes: Buffer
}

const formats: readonly {
  readonly mediaType: Picture['mediaType']
  readonly begins: (bytes: Buffer) => boolean
  readonly read: (bytes: Buffer) => ReadParts
}[] = [
  {
    mediaType: 'image/png',
    begins: (bytes) => bytes.subarray(0, 8).equals(Buffer.from('\x89PNG\r\n\x1a\n', 'latin1')),
    read: readPng,
  },
  { mediaType: 'image/jpeg', begins: (bytes) => bytes.readUInt16BE(0) === 0xffd8, read: readJpeg },
  {
    mediaType: 'image/gif',
    begins: (bytes) => /^GIF8[79]a/.test(bytes.toString('latin1', 0, 6)),
    read: readGif,
  },
  {
    mediaType: 'image/webp',
    begins: (bytes) => /^RIFF.{4}WEBP/s.test(bytes.toString('latin1', 0, 12)),
    read: readWebp,
  },
]

/**
 * Reads a PNG, JPEG, GIF or WebP by its content, whatever it is called, and leaves out what does not show: EXIF with places and
 * cameras, texts, comments, and all that stands behind the end. What a phone turned by its EXIF stays turned.
 *
 * @throws {@link PictureFault}
 */
export function readPicture(bytes: Buffer): Picture {
  const format = bytes.length < 12 ? undefined : formats.find(({ begins }) => begins(bytes))
  if (format === undefined) throw new PictureFault('Expected a PNG, JPEG, WebP or GIF picture.')
  let found: ReadParts
  try {
    found = format.read(bytes)
  } catch (error) {
    // A length that leads beyond the end.
    if (error instanceof RangeError) throw brokenPicture()
    throw error
  }
  const { width, height, parts } = found
  if (width < 1 || height < 1 || width > MAX_PICTURE_SIDE || height > MAX_PICTURE_SIDE)
    throw new PictureFault(
      `Expected at most ${MAX_PICTURE_SIDE} pixels to a side, got ${width} × ${height}. Scale the picture down.`,
    )
  return { mediaType: format.mediaType, bytes: Buffer.concat(parts) }
}
