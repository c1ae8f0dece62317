import { brokenPicture, type ReadParts } from './pictureParts.ts'

/** Blocks and extensions (GIF89a, appendix A). */
const blocks = { image: 0x2c, extension: 0x21, trailer: 0x3b } as const
const labels = { graphicControl: 0xf9, application: 0xff } as const
/** Say how often the animation runs; other applications have nothing to show. */
const loops = ['NETSCAPE2.0', 'ANIMEXTS1.0']

export function readGif(bytes: Buffer): ReadParts {
  let [width, height] = [bytes.readUInt16LE(6), bytes.readUInt16LE(8)]
  let at = 13 + tableBytes(bytes.readUInt8(10))
  const parts = [bytes.subarray(0, at)]
  for (let hasImage = false; ; ) {
    const kind = bytes.readUInt8(at)
    if (kind === blocks.trailer) {
      if (!hasImage) throw brokenPicture()
      parts.push(bytes.subarray(at, at + 1))
      return { width, height, parts }
    }
    let end: number
    let isShown = true
    if (kind === blocks.image) {
      hasImage = true
      // A frame may be larger than the screen that it is drawn on.
      width = Math.max(width, bytes.readUInt16LE(at + 5))
      height = Math.max(height, bytes.readUInt16LE(at + 7))
      end = endOfBlocks(bytes, at + 11 + tableBytes(bytes.readUInt8(at + 9)))
    } else if (kind === blocks.extension) {
      const label = bytes.readUInt8(at + 1)
      end = endOfBlocks(bytes, at + 2)
      isShown =
        label === labels.graphicControl ||
        (label === labels.application && loops.includes(bytes.toString('latin1', at + 3, at + 14)))
    } else throw brokenPicture()
    if (isShown) parts.push(bytes.subarray(at, end))
    at = end
  }
}

const tableBytes = (packed: number) => (packed & 0x80 ? 3 * 2 ** ((packed & 7) + 1) : 0)

/** Behind the block of length 0 that ends a chain of them. */
function endOfBlocks(bytes: Buffer, from: number): number {
  for (let at = from; ; ) {
    const length = bytes.readUInt8(at)
    at += 1 + length
    if (length === 0) return at
  }
}
