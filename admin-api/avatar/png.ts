import { crc32 } from 'node:zlib'
import { brokenPicture, type ReadParts } from './pictureParts.ts'

/** What shows, and how (PNG, third edition, section 11); without tEXt, zTXt, iTXt, eXIf and tIME. */
const shown = new Set(
  `IHDR PLTE tRNS IDAT IEND gAMA cHRM sRGB iCCP cICP sBIT bKGD pHYs acTL fcTL fdAT`.split(' '),
)

export function readPng(bytes: Buffer): ReadParts {
  const parts = [bytes.subarray(0, 8)]
  let [width, height, hasData] = [0, 0, false]
  for (let at = 8; ; ) {
    const end = at + 12 + bytes.readUInt32BE(at)
    const type = bytes.toString('latin1', at + 4, at + 8)
    if (end > bytes.length || bytes.readUInt32BE(end - 4) !== crc32(bytes.subarray(at + 4, end - 4)))
      throw brokenPicture()
    if ((at === 8) !== (type === 'IHDR')) throw brokenPicture()
    if (type === 'IHDR') {
      if (end - at !== 25) throw brokenPicture()
      width = bytes.readUInt32BE(at + 8)
      height = bytes.readUInt32BE(at + 12)
    }
    if (type === 'IDAT') hasData = true
    if (shown.has(type)) parts.push(bytes.subarray(at, end))
    if (type === 'IEND') break
    at = end
  }
  if (!hasData) throw brokenPicture()
  return { width, height, parts }
}
