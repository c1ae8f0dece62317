import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { inflateSync } from 'node:zlib'

/**
 * The parts of Rubik (OFL 1.1) in one weight. They have Latin, Cyrillic, Hebrew and Arabic in 150 kB, and are the same on every
 * machine.
 */
const parts = ['latin', 'latin-ext', 'cyrillic', 'cyrillic-ext', 'hebrew', 'arabic']

export interface CardFont {
  readonly family: 'Rubik'
  /** The font files that the renderer needs (WOFF 2). */
  readonly files: readonly Uint8Array[]
  /** Whether the font has every character of a text. */
  has(text: string): boolean
  /** Width of a text at a font size, in the unit of the size. Ligatures and kerning can make the real width slightly smaller. */
  widthOf(text: string, size: number): number
}

/** Reads the font's characters and their widths. This takes a few milliseconds, and a process needs it only once. */
export function readCardFont(): CardFont {
  const { resolve } = createRequire(import.meta.url)
  const fileOf = (part: string, form: string) =>
    readFileSync(resolve(`@fontsource/rubik/files/rubik-${part}-500-normal.${form}`))
  const advances = new Map<number, number>()
  // WOFF 1 compresses each table separately, so widths can be read without unpacking outlines.
  for (const part of parts) for (const [char, em] of advancesOf(fileOf(part, 'woff'))) advances.set(char, em)
  const emOf = (char: string) => advances.get(char.codePointAt(0)!)
  return {
    family: 'Rubik',
    files: parts.map((part) => fileOf(part, 'woff2')),
    has: (text) => Array.from(text).every((char) => emOf(char) !== undefined),
    widthOf: (text, size) => Array.from(text).reduce((sum, char) => sum + (emOf(char) ?? 1), 0) * size,
  }
}

/** Code point → advance width, in em (OpenType 1.9: `cmap`, `head`, `hhea`, `hmtx`). */
function advancesOf(woff: Buffer): Map<number, number> {
  const tables = tablesOf(woff)
  const unitsPerEm = tables('head').readUInt16BE(18)
  const metrics = tables('hmtx')
  const last = tables('hhea').readUInt16BE(34) - 1
  const widths = new Map<number, number>()
  for (const [char, glyph] of glyphsOf(tables('cmap'))) {
    widths.set(char, metrics.readUInt16BE(Math.min(glyph, last) * 4) / unitsPerEm)
  }
  return widths
}

/** The tables of a file (WOFF File Format 1.0, sections 4 and 5). */
function tablesOf(woff: Buffer): (tag: string) => Buffer {
  const count = woff.readUInt16BE(12)
  return (tag) => {
    for (let at = 44; at < 44 + count * 20; at += 20) {
      if (woff.toString('latin1', at, at + 4) !== tag) continue
      const [offset, packed, whole] = [4, 8, 12].map((field) => woff.readUInt32BE(at + field)) as [
        number,
        number,
        number,
      ]
      const bytes = woff.subarray(offset, offset + packed)
      return packed < whole ? inflateSync(bytes) : bytes
    }
    throw new Error(`Expected the font to have the table ${tag}.`)
  }
}

/** Code point → glyph, for the basic plane. The function reads format 4, because every such file has it. */
function glyphsOf(cmap: Buffer): Map<number, number> {
  const count = cmap.readUInt16BE(2)
  const starts = Array.from({ length: count }, (_, i) => cmap.readUInt32BE(4 + i * 8 + 4))
  const start = starts.find((at) => cmap.readUInt16BE(at) === 4)
  if (start === undefined) throw new Error('Expected the font to have a character map in format 4.')
  const table = cmap.subarray(start)
  const segments2 = table.readUInt16BE(6)
  const glyphs = new Map<number, number>()
  for (let i = 0; i < segments2; i += 2) {
    const end = table.readUInt16BE(14 + i)
    const first = table.readUInt16BE(16 + segments2 + i)
    const delta = table.readUInt16BE(16 + segments2 * 2 + i)
    const rangeAt = 16 + segments2 * 3 + i
    const range = table.readUInt16BE(rangeAt)
    for (let char = first; char <= end && char !== 0xffff; char++) {
      const found = range === 0 ? char : table.readUInt16BE(rangeAt + range + (char - first) * 2)
      const glyph = found === 0 ? 0 : (found + delta) & 0xffff
      if (glyph !== 0) glyphs.set(char, glyph)
    }
  }
  return glyphs
}
