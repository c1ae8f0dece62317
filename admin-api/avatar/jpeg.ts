import { brokenPicture, PictureFault, type ReadParts } from './pictureParts.ts'

/** Markers (ITU-T T.81, table B.1). */
const markers = {
  ...{ dht: 0xc4, eoi: 0xd9, sos: 0xda, dqt: 0xdb, dri: 0xdd },
  ...{ app0: 0xe0, app1: 0xe1, app2: 0xe2, app14: 0xee },
} as const
/** Baseline, extended and progressive: what browsers show. */
const frames: readonly number[] = [0xc0, 0xc1, 0xc2]
const tables: readonly number[] = [markers.dqt, markers.dht, markers.dri, markers.sos]

export function readJpeg(bytes: Buffer): ReadParts {
  const parts: Uint8Array[] = []
  let [width, height, hasScan, orientation] = [0, 0, false, 1]
  for (let at = 2; ; ) {
    if (bytes.readUInt8(at) !== 0xff) throw brokenPicture()
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
      throw brokenPicture()
    const data = bytes.subarray(at + 4, end)
    if (frames.includes(marker)) {
      height = data.readUInt16BE(1)
      width = data.readUInt16BE(3)
    } else if (marker > 0xc2 && marker < 0xd0 && marker !== markers.dht && marker !== 0xc8) {
      throw new PictureFault('Expected a baseline or progressive JPEG; browsers show no other.')
    }
    if (marker === markers.app1 && isExif(data)) orientation = orientationOf(data.subarray(6))
    if (marker === markers.sos) {
      if (width === 0) throw brokenPicture()
      hasScan = true
      end = endOfScan(bytes, end)
    }
    if (isShown(marker, data)) parts.push(bytes.subarray(at, end))
    at = end
  }
  if (!hasScan) throw brokenPicture()
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

/** Coded data goes on over stuffed zeros and restart markers (T.81, section B.1.1.5). */
function endOfScan(bytes: Buffer, from: number): number {
  for (let at = from; ; at++) {
    at = bytes.indexOf(0xff, at)
    if (at === -1) throw brokenPicture()
    const next = bytes.readUInt8(at + 1)
    if (next !== 0 && next !== 0xff && (next < 0xd0 || next > 0xd7)) return at
  }
}

const isExif = (data: Buffer) => data.toString('latin1', 0, 6) === 'Exif\0\0'

/** How a phone was held: the tag 0x0112 of the first directory (Exif 2.32, section 4.6.4); 1 where it says nothing. */
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
    // Broken EXIF is dropped like any other.
  }
  return 1
}

/** An EXIF segment that says how the picture is turned, and nothing else. */
const orientationSegment = (orientation: number): Buffer =>
  Buffer.concat([
    Buffer.from([0xff, markers.app1, 0, 34]),
    Buffer.from('Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0', 'latin1'),
    Buffer.from([orientation, 0, 0, 0, 0, 0, 0]),
  ])
