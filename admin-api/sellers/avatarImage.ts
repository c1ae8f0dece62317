import { crc32 } from 'node:zlib'

/** The result of parsing a format. It has the size, and in order the parts that are needed to display the image. */
interface ReadParts {
  readonly width: number
  readonly height: number
  readonly parts: readonly Uint8Array[]
}

/** Thrown if the bytes are not a valid image. The message is for the seller. */
export class ImageFault extends Error {
  override readonly name = 'ImageFault'
}

const brokenImage = () =>
  new ImageFault('The image is damaged, because its content does not match its header. Save the image again.')

/** Markers (ITU-T T.81, table B.1). */
const markers = {
  dht: 0xc4,
  eoi: 0xd9,
  sos: 0xda,
  dqt: 0xdb,
  dri: 0xdd,
  app0: 0xe0,
  app1: 0xe1,
  app2: 0xe2,
  app14: 0xee,
} as const
/** Frames that browsers show. They are baseline, extended and progressive. */
const frames: readonly number[] = [0xc0, 0xc1, 0xc2]
const tables: readonly number[] = [markers.dqt, markers.dht, markers.dri, markers.sos]

function readJpeg(bytes: Buffer): ReadParts {
  const parts: Uint8Array[] = []
  let [width, height, hasScan, orientation] = [0, 0, false, 1]
  for (let at = 2; ; ) {
    if (bytes.readUInt8(at) !== 0xff) throw brokenImage()
    const marker = bytes.readUInt8(at + 1)
    if (marker === 0xff) {
      at++
      continue
    }
    if (marker === markers.eoi) {
      parts.push(bytes.subarray(at, at + 2))
      break
    }
    const length = bytes.readUInt16BE(at + 2)
    let end = at + 2 + length
    if (marker < 0xc0 || (marker >= 0xd0 && marker <= 0xd8) || length < 2 || end > bytes.length)
      throw brokenImage()
    const data = bytes.subarray(at + 4, end)
    if (frames.includes(marker)) {
      height = data.readUInt16BE(1)
      width = data.readUInt16BE(3)
    } else if (marker > 0xc2 && marker < 0xd0 && marker !== markers.dht && marker !== 0xc8) {
      throw new ImageFault('Expected a baseline or progressive JPEG, the only kinds that browsers show.')
    }
    if (marker === markers.app1 && isExif(data)) orientation = orientationOf(data.subarray(6))
    if (marker === markers.sos) {
      if (width === 0) throw brokenImage()
      hasScan = true
      end = endOfScan(bytes, end)
    }
    if (isShown(marker, data)) parts.push(bytes.subarray(at, end))
    at = end
  }
  if (!hasScan) throw brokenImage()
  const turned = orientation === 1 ? [] : [orientationSegment(orientation)]
  return { width, height, parts: [bytes.subarray(0, 2), ...turned, ...parts] }
}

function isShown(marker: number, data: Buffer): boolean {
  const begins = (text: string) => data.toString('latin1', 0, text.length) === text
  if (marker === markers.app0) return begins('JFIF\0')
  if (marker === markers.app2) return begins('ICC_PROFILE\0')
  if (marker === markers.app14) return begins('Adobe')
  return frames.includes(marker) || tables.includes(marker)
}

/** The position after coded data. The data continue over stuffed zeros and restart markers (T.81, section B.1.1.5). */
function endOfScan(bytes: Buffer, from: number): number {
  for (let at = from; ; at++) {
    at = bytes.indexOf(0xff, at)
    if (at === -1) throw brokenImage()
    const next = bytes.readUInt8(at + 1)
    if (next !== 0 && next !== 0xff && (next < 0xd0 || next > 0xd7)) return at
  }
}

const isExif = (data: Buffer) => data.toString('latin1', 0, 6) === 'Exif\0\0'

/** The orientation of a photo (tag 0x0112 of the first directory, Exif 2.32, section 4.6.4). 1 if it has none. */
function orientationOf(tiff: Buffer): number {
  try {
    const isLittle = tiff.toString('latin1', 0, 2) === 'II'
    const u16 = (at: number) => (isLittle ? tiff.readUInt16LE(at) : tiff.readUInt16BE(at))
    const directory = isLittle ? tiff.readUInt32LE(4) : tiff.readUInt32BE(4)
    for (let i = 0; i < u16(directory); i++) {
      const at = directory + 2 + i * 12
      if (u16(at) !== 0x0112) continue
      const value = u16(at + 8)
      return value >= 1 && value <= 8 ? value : 1
    }
  } catch {
    // The orientation of broken EXIF is not used.
  }
  return 1
}

/** An EXIF segment with the orientation and nothing else. */
const orientationSegment = (orientation: number): Buffer =>
  Buffer.concat([
    Buffer.from([0xff, markers.app1, 0, 34]),
    Buffer.from('Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0', 'latin1'),
    Buffer.from([orientation, 0, 0, 0, 0, 0, 0]),
  ])

/** The chunks that are displayed (RFC 9649, section 2.7), without `EXIF`, `XMP ` and unknown chunks. */
const shownChunks = ['VP8X', 'VP8 ', 'VP8L', 'ALPH', 'ANIM', 'ANMF', 'ICCP']
/** Bits of VP8X that announce EXIF and XMP. */
const metadata = 0x08 | 0x04

function readWebp(bytes: Buffer): ReadParts {
  const end = 8 + bytes.readUInt32LE(4)
  if (end > bytes.length) throw brokenImage()
  const parts: Buffer[] = []
  let size: { width: number; height: number } | undefined
  let hasImage = false
  for (let at = 12; at < end; ) {
    const type = bytes.toString('latin1', at, at + 4)
    const length = bytes.readUInt32LE(at + 4)
    const next = at + 8 + length + (length % 2)
    if (next > end) throw brokenImage()
    const data = bytes.subarray(at + 8, at + 8 + length)
    size ??= sizeOf(type, data)
    if (type === 'VP8 ' || type === 'VP8L' || type === 'ANMF') hasImage = true
    if (type === 'VP8X') {
      const plain = Buffer.from(bytes.subarray(at, next))
      plain.writeUInt8(plain.readUInt8(8) & ~metadata & 0xff, 8)
      parts.push(plain)
    } else if (shownChunks.includes(type)) parts.push(bytes.subarray(at, next))
    at = next
  }
  if (size === undefined || !hasImage) throw brokenImage()
  const head = Buffer.from(bytes.subarray(0, 12))
  head.writeUInt32LE(4 + parts.reduce((sum, part) => sum + part.length, 0), 4)
  return { ...size, parts: [head, ...parts] }
}

/** The size of the image, from its first chunk. Each kind of chunk encodes the size differently. */
function sizeOf(type: string, data: Buffer): { width: number; height: number } {
  if (type === 'VP8X') return { width: data.readUIntLE(4, 3) + 1, height: data.readUIntLE(7, 3) + 1 }
  if (type === 'VP8 ' && data.readUIntBE(3, 3) === 0x9d012a)
    return { width: data.readUInt16LE(6) & 0x3fff, height: data.readUInt16LE(8) & 0x3fff }
  if (type === 'VP8L' && data.readUInt8(0) === 0x2f) {
    const bits = data.readUInt32LE(1)
    return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 }
  }
  throw brokenImage()
}

/** Blocks and extensions (GIF89a, appendix A). */
const blocks = { image: 0x2c, extension: 0x21, trailer: 0x3b } as const
const labels = { graphicControl: 0xf9, application: 0xff } as const
/** The extensions that set how often an animation runs. All other extensions are removed, because browsers do not display them. */
const loops = ['NETSCAPE2.0', 'ANIMEXTS1.0']

function readGif(bytes: Buffer): ReadParts {
  let [width, height] = [bytes.readUInt16LE(6), bytes.readUInt16LE(8)]
  let at = 13 + tableBytes(bytes.readUInt8(10))
  const parts = [bytes.subarray(0, at)]
  for (let hasImage = false; ; ) {
    const kind = bytes.readUInt8(at)
    if (kind === blocks.trailer) {
      if (!hasImage) throw brokenImage()
      parts.push(bytes.subarray(at, at + 1))
      return { width, height, parts }
    }
    let end: number
    let isShown = true
    if (kind === blocks.image) {
      hasImage = true
      // A frame may be larger than the screen on which it is drawn.
      width = Math.max(width, bytes.readUInt16LE(at + 5))
      height = Math.max(height, bytes.readUInt16LE(at + 7))
      end = endOfBlocks(bytes, at + 11 + tableBytes(bytes.readUInt8(at + 9)))
    } else if (kind === blocks.extension) {
      const label = bytes.readUInt8(at + 1)
      end = endOfBlocks(bytes, at + 2)
      isShown =
        label === labels.graphicControl ||
        (label === labels.application && loops.includes(bytes.toString('latin1', at + 3, at + 14)))
    } else throw brokenImage()
    if (isShown) parts.push(bytes.subarray(at, end))
    at = end
  }
}

const tableBytes = (packed: number) => (packed & 0x80 ? 3 * 2 ** ((packed & 7) + 1) : 0)

/** The position after the block of length 0 that ends a chain of blocks. */
function endOfBlocks(bytes: Buffer, from: number): number {
  for (let at = from; ; ) {
    const length = bytes.readUInt8(at)
    at += 1 + length
    if (length === 0) return at
  }
}

/** The chunks that are displayed (PNG, third edition, section 11), without tEXt, zTXt, iTXt, eXIf and tIME. */
const shown = new Set(
  `IHDR PLTE tRNS IDAT IEND gAMA cHRM sRGB iCCP cICP sBIT bKGD pHYs acTL fcTL fdAT`.split(' '),
)

function readPng(bytes: Buffer): ReadParts {
  const parts = [bytes.subarray(0, 8)]
  let [width, height, hasData] = [0, 0, false]
  for (let at = 8; ; ) {
    const end = at + 12 + bytes.readUInt32BE(at)
    const type = bytes.toString('latin1', at + 4, at + 8)
    if (end > bytes.length || bytes.readUInt32BE(end - 4) !== crc32(bytes.subarray(at + 4, end - 4)))
      throw brokenImage()
    if ((at === 8) !== (type === 'IHDR')) throw brokenImage()
    if (type === 'IHDR') {
      if (end - at !== 25) throw brokenImage()
      width = bytes.readUInt32BE(at + 8)
      height = bytes.readUInt32BE(at + 12)
    }
    if (type === 'IDAT') hasData = true
    if (shown.has(type)) parts.push(bytes.subarray(at, end))
    if (type === 'IEND') break
    at = end
  }
  if (!hasData) throw brokenImage()
  return { width, height, parts }
}

export const MAX_IMAGE_BYTES = 1_048_576
/** Maximum width and height, in pixels. */
const MAX_IMAGE_SIDE = 4_096

/** A stored image. It has only the displayed parts of its own format. */
export interface AvatarImage {
  readonly mediaType: 'image/png' | 'image/jpeg' | 'image/gif' | 'image/webp'
  readonly bytes: Buffer
}

const formats: readonly {
  readonly mediaType: AvatarImage['mediaType']
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
 * Reads a PNG, JPEG, GIF or WebP by its content, regardless of its name. Removes the parts that browsers do not display, which are
 * EXIF with places and cameras, texts, comments, and any bytes after the end. Only the EXIF orientation of a photo stays.
 *
 * @throws {@link ImageFault}
 */
export function readImage(bytes: Buffer): AvatarImage {
  const format = bytes.length < 12 ? undefined : formats.find(({ begins }) => begins(bytes))
  if (format === undefined) throw new ImageFault('Expected a PNG, JPEG, WebP or GIF image.')
  let found: ReadParts
  try {
    found = format.read(bytes)
  } catch (error) {
    // The cause is a length in the file that points beyond its end.
    if (error instanceof RangeError) throw brokenImage()
    throw error
  }
  const { width, height, parts } = found
  if (width < 1 || height < 1 || width > MAX_IMAGE_SIDE || height > MAX_IMAGE_SIDE)
    throw new ImageFault(
      `Expected at most ${MAX_IMAGE_SIDE} pixels per side, got ${width} × ${height}. Scale the image down.`,
    )
  return { mediaType: format.mediaType, bytes: Buffer.concat(parts) }
}
