import { crc32 } from 'node:zlib'
import fc from 'fast-check'
import t from 'tap'
import { images } from '../../test/helpers/admin-api/images.ts'
import { ImageFault, readImage } from './avatarImage.ts'

const secret = Buffer.from('52.5200 N, 13.4050 E <script>alert(1)</script>')
const u32 = (n: number) => Buffer.from(Uint32Array.of(n).buffer).swap32()

const pngChunk = (type: string, data: Buffer) => {
  const named = Buffer.concat([Buffer.from(type, 'latin1'), data])
  return Buffer.concat([u32(data.length), named, u32(crc32(named))])
}
const jpegSegment = (marker: number, data: Buffer) =>
  Buffer.concat([Buffer.from([0xff, marker, (data.length + 2) >> 8, (data.length + 2) & 255]), data])
const webpChunk = (type: string, data: Buffer) => {
  const length = Buffer.alloc(4)
  length.writeUInt32LE(data.length)
  return Buffer.concat([Buffer.from(type), length, data, Buffer.alloc(data.length % 2)])
}
const inserted = (bytes: Buffer, at: number, more: Buffer) =>
  Buffer.concat([bytes.subarray(0, at), more, bytes.subarray(at)])

/** What cameras and programs write into pictures, and what is no part of them. */
function decorated(): Record<string, Buffer> {
  const webp = Buffer.concat([images.webp, webpChunk('EXIF', secret), webpChunk('XMP ', secret)])
  webp.writeUInt32LE(webp.length - 8, 4)
  webp.writeUInt8(webp.readUInt8(20) | 0x0c, 20)
  const comment = Buffer.concat([Buffer.from([0x21, 0xfe, secret.length]), secret, Buffer.alloc(1)])
  return {
    png: inserted(inserted(images.png, 33, pngChunk('tEXt', secret)), 33, pngChunk('eXIf', secret)),
    jpeg: inserted(
      images.jpeg,
      20,
      Buffer.concat([
        jpegSegment(0xe1, Buffer.concat([Buffer.from('Exif\0\0'), secret])),
        jpegSegment(0xed, secret),
        jpegSegment(0xfe, secret),
      ]),
    ),
    gif: inserted(images.gif, 19, comment),
    webp,
  }
}

t.test('a picture is what it holds, and stays as it is where nothing hides in it', async (t) => {
  for (const [format, bytes] of Object.entries(images))
    t.strictSame(readImage(bytes), { mediaType: `image/${format}`, bytes }, format)
})

t.test('places, comments and what stands behind the end are left out', async (t) => {
  for (const [format, bytes] of Object.entries(decorated())) {
    t.ok(bytes.includes(secret))
    const clean = readImage(bytes)
    t.strictSame(clean.bytes, images[format as keyof typeof images], format)
    const page = Buffer.concat([images[format as keyof typeof images], secret])
    t.strictSame(readImage(page).bytes, clean.bytes, `${format} and a page behind it`)
  }
})

t.test('what a phone turned stays turned, and nothing else of its EXIF is kept', async (t) => {
  for (const isLittle of [true, false]) {
    const tiff = Buffer.alloc(26)
    tiff.write(isLittle ? 'II' : 'MM', 'latin1')
    const u16 = (value: number, at: number) =>
      isLittle ? tiff.writeUInt16LE(value, at) : tiff.writeUInt16BE(value, at)
    u16(42, 2)
    isLittle ? tiff.writeUInt32LE(8, 4) : tiff.writeUInt32BE(8, 4)
    for (const [value, at] of [
      [1, 8],
      [0x112, 10],
      [3, 12],
      [6, 18],
    ] as const)
      u16(value, at)
    const exif = Buffer.concat([Buffer.from('Exif\0\0'), tiff, secret])
    const { bytes } = readImage(inserted(images.jpeg, 2, jpegSegment(0xe1, exif)))
    t.notOk(bytes.includes(secret))
    t.equal(bytes.length, images.jpeg.length + 36)
    t.strictSame(readImage(bytes).bytes, bytes, 'read again it says the same')
  }
})

t.test('what is no picture, or too large a one, is refused in words', async (t) => {
  const svg = Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>')
  for (const bytes of [svg, Buffer.from('%PDF-1.7 ............'), Buffer.alloc(0), Buffer.from('GIF89a')])
    t.throws(() => readImage(bytes), { message: /Expected a PNG, JPEG, WebP or GIF/ })
  t.throws(() => readImage(Buffer.concat([svg, images.png])), ImageFault, 'one behind a page')
  const wide = Buffer.from(images.png)
  wide.writeUInt32BE(4_097, 16)
  wide.writeUInt32BE(crc32(wide.subarray(12, 29)), 29)
  t.throws(() => readImage(wide), { message: /at most 4096 pixels per side, got 4097 × 3/ })
  const forged = Buffer.from(images.png)
  forged.writeUInt8(forged.readUInt8(45) ^ 1, 45)
  t.throws(() => readImage(forged), { message: /damaged/ }, 'a checksum that is not right')
})

t.test('broken bytes are refused as such, and end, wherever they are broken', async () => {
  const some = fc.constantFrom(...Object.values(images), ...Object.values(decorated()))
  const isRefused = (bytes: Buffer) => {
    try {
      readImage(bytes)
    } catch (error) {
      return error instanceof ImageFault
    }
    return true
  }
  fc.assert(fc.property(some, fc.nat(700), (bytes, end) => isRefused(bytes.subarray(0, end))))
  fc.assert(
    fc.property(some, fc.nat(700), fc.nat(255), (bytes, at, value) => {
      const changed = Buffer.from(bytes)
      changed[at % bytes.length] = value
      return isRefused(changed)
    }),
    { numRuns: 2_000 },
  )
})
