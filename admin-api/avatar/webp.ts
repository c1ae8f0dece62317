import { brokenPicture, type ReadParts } from './pictureParts.ts'

/** What shows (RFC 9649, section 2.7); without `EXIF`, `XMP ` and what nobody knows. */
const shown = ['VP8X', 'VP8 ', 'VP8L', 'ALPH', 'ANIM', 'ANMF', 'ICCP']
/** Bits of VP8X that announce EXIF and XMP. */
const metadata = 0x08 | 0x04

export function readWebp(bytes: Buffer): ReadParts {
  const end = 8 + bytes.readUInt32LE(4)
  if (end > bytes.length) throw brokenPicture()
  const parts: Buffer[] = []
  let size: { width: number; height: number } | undefined
  let hasImage = false
  for (let at = 12; at < end; ) {
    const type = bytes.toString('latin1', at, at + 4)
    const length = bytes.readUInt32LE(at + 4)
    const next = at + 8 + length + (length % 2)
    if (next > end) throw brokenPicture()
    const data = bytes.subarray(at + 8, at + 8 + length)
    size ??= sizeOf(type, data)
    if (type === 'VP8 ' || type === 'VP8L' || type === 'ANMF') hasImage = true
    if (type === 'VP8X') {
      const plain = Buffer.from(bytes.subarray(at, next))
      plain.writeUInt8(plain.readUInt8(8) & ~metadata & 0xff, 8)
      parts.push(plain)
    } else if (shown.includes(type)) parts.push(bytes.subarray(at, next))
    at = next
  }
  if (size === undefined || !hasImage) throw brokenPicture()
  const head = Buffer.from(bytes.subarray(0, 12))
  head.writeUInt32LE(4 + parts.reduce((sum, part) => sum + part.length, 0), 4)
  return { ...size, parts: [head, ...parts] }
}

/** The first chunk says how large the picture is, in a form of its own. */
function sizeOf(type: string, data: Buffer): { width: number; height: number } {
  if (type === 'VP8X') return { width: data.readUIntLE(4, 3) + 1, height: data.readUIntLE(7, 3) + 1 }
  if (type === 'VP8 ' && data.readUIntBE(3, 3) === 0x9d012a)
    return { width: data.readUInt16LE(6) & 0x3fff, height: data.readUInt16LE(8) & 0x3fff }
  if (type === 'VP8L' && data.readUInt8(0) === 0x2f) {
    const bits = data.readUInt32LE(1)
    return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 }
  }
  throw brokenPicture()
}
