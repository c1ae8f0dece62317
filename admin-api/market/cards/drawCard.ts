import { renderToString } from 'preact-render-to-string'
import { html } from '../../../web/html.ts'
import { readAsset, webManifest } from '../../../web/render/assets.ts'
import type { Card } from './card.ts'
import type { CardFont } from './cardFont.ts'

const CARD_WIDTH = 1_200
const CARD_HEIGHT = 630

const margin = 80
const inside = CARD_WIDTH - 2 * margin
const foot = 112
/** The light colors of `web/styles/tokens.css`, because other sites show cards on any background. */
const colours = { bg: '#f5f6f4', text: '#1a211d', muted: '#5a655f', accent: '#1c6b57', onAccent: '#ffffff' }

const boundWords = { one: '', from: 'From ', 'up to': 'Up to ' }

/** Draws a card as SVG. Texts of any length stay within the margins. */
export function drawCard(card: Card, font: CardFont): string {
  const { serviceName, seller, price } = card
  const heading = shownOf(card.heading, font) || card.plainHeading
  const sizes = [
    { size: 76, lines: 2 },
    { size: 60, lines: 3 },
  ]
  const title = fitText(heading, { font, width: inside, sizes })
  const name = seller && (shownOf(seller.name, font) || seller.plainName)
  const about = fitText(shownOf(card.about, font), {
    font,
    width: inside,
    sizes: [{ size: 32, lines: title.lines.length > 2 ? 1 : 2 }],
  })
  const side = visible(card.foot.join(' · '), font)
  const cost = fitText(
    price === null
      ? ''
      : price === 'free'
        ? 'Free'
        : `${boundWords[card.bound ?? 'one']}${shownAmount(price)} USDC a call`,
    { font, width: inside * 0.7, sizes: [48, 36, 24].map((size) => ({ size, lines: 1 })) },
  )
  const [costLine = ''] = cost.lines
  const sideRoom = inside - (costLine === '' ? 0 : font.widthOf(costLine, cost.size) + 40)

  function oneLine(text: string, size: number, width: number): string {
    return fitText(text, { font, width, sizes: [{ size, lines: 1 }] }).lines[0] ?? ''
  }
  const top = name === null ? 250 : 270
  const titleAt = (i: number) => top + i * title.size * 1.16
  const aboutAt = (i: number) => titleAt(title.lines.length - 1) + 62 + i * 42

  const svg = renderToString(html`<svg
    xmlns="http://www.w3.org/2000/svg"
    viewBox=${`0 0 ${CARD_WIDTH} ${CARD_HEIGHT}`}
    width=${CARD_WIDTH}
    height=${CARD_HEIGHT}
    font-family=${font.family}
    font-weight="500"
  >
    <rect width=${CARD_WIDTH} height=${CARD_HEIGHT} fill=${colours.bg} />
    <image href=${markUrl()} x=${margin} y="64" width="56" height="56" />
    <text x=${margin + 76} y="103" font-size="32" fill=${colours.text}>${oneLine(visible(serviceName, font), 32, inside - 76)}</text>
    ${name !== null && line(oneLine(name, 32, inside), 192, 32, colours.muted)}
    ${title.lines.map((text, i) => line(text, titleAt(i), title.size, colours.text))}
    ${about.lines.map((text, i) => line(text, aboutAt(i), about.size, colours.muted))}
    <rect y=${CARD_HEIGHT - foot} width=${CARD_WIDTH} height=${foot} fill=${colours.accent} />
    ${costLine !== '' && line(costLine, CARD_HEIGHT - 40, cost.size, colours.onAccent)}
    ${
      side !== '' &&
      html`<text
      x=${costLine === '' ? margin : CARD_WIDTH - margin}
      y=${CARD_HEIGHT - 45}
      text-anchor=${costLine === '' ? 'start' : 'end'}
      font-size="32"
      fill=${colours.onAccent}
    >${oneLine(side, 32, sideRoom)}</text>`
    }
  </svg>`)
  // XML forbids `]]>` in text, unlike HTML (XML 1.0, section 2.4).
  return svg.replaceAll(']]>', ']]&gt;')
}

/** A line of text. It starts at the margin where its script begins. */
function line(text: string, y: number, size: number, fill: string) {
  const isFromRight = /^[^\p{L}]*[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefe]/u.test(text)
  return html`<text
    x=${isFromRight ? CARD_WIDTH - margin : margin}
    y=${y}
    text-anchor=${isFromRight ? 'end' : 'start'}
    font-size=${size}
    fill=${fill}
  >${isFromRight ? `\u202b${text}\u202c` : text}</text>`
}

/** The text without pictograms and symbols that the font lacks. Empty if the font lacks one of its letters. */
function shownOf(text: string, font: CardFont): string {
  const lacks = (form: RegExp) => (text.match(form) ?? []).some((char) => !font.has(char))
  return lacks(/[\p{L}\p{N}]/gu) ? '' : visible(text, font)
}

/** The characters of a text that the font has, on one line. */
const visible = (text: string, font: CardFont): string =>
  Array.from(text.replace(/\s/g, ' '))
    .filter((char) => font.has(char) && !/[\p{Cc}\p{Cf}]/u.test(char))
    .join('')
    .replace(/ +/g, ' ')
    .trim()

/** The amount as pages show it, with thousands separators and without zeros after the cents. */
const shownAmount = (price: string): string => {
  const [whole, fraction = ''] = price.split('.')
  const cents = fraction.replace(/0+$/, '')
  return `${whole!.replace(/\B(?=(\d{3})+$)/g, '\u00a0')}${cents && `.${cents.padEnd(2, '0')}`}`
}

let mark: string | undefined

/** The logo on its tile, as browsers show it. */
function markUrl(): string {
  mark ??= `data:image/svg+xml;base64,${readAsset(webManifest().icon)!.plain.toString('base64')}`
  return mark
}

interface FitOptions {
  readonly font: Pick<CardFont, 'widthOf'>
  readonly width: number
  /** Sizes from the preferred one to the last resort. At the last size, text that is too long is cut off. */
  readonly sizes: readonly { readonly size: number; readonly lines: number }[]
}

interface FittedText {
  readonly size: number
  readonly lines: readonly string[]
}

/**
 * Breaks a text into lines of a width. It breaks between words, after slashes, and within words that are longer than a line. Text
 * that is cut off ends in `…`.
 */
function fitText(text: string, { font, width, sizes }: FitOptions): FittedText {
  for (const [i, { size, lines: most }] of sizes.entries()) {
    const isWithin = (line: string) => font.widthOf(line, size) <= width
    const lines = linesOf(text, isWithin, most + 1)
    if (lines.length <= most) return { size, lines: balanced(text, lines, font, size, width) }
    if (i === sizes.length - 1)
      return { size, lines: [...lines.slice(0, most - 1), cut(lines[most - 1]!, isWithin)] }
  }
  return { size: 0, lines: [] }
}

/**
 * Avoids a single word on the last line. The function keeps the number of lines and uses the smallest width that has room for them.
 */
function balanced(
  text: string,
  lines: readonly string[],
  font: FitOptions['font'],
  size: number,
  width: number,
): readonly string[] {
  let best = lines
  for (let narrow = width - size; narrow > width / 2 && lines.length > 1; narrow -= size) {
    const tried = linesOf(text, (line) => font.widthOf(line, size) <= narrow, lines.length + 1)
    if (tried.length > lines.length || cutsIn(text, tried) > cutsIn(text, lines)) break
    best = tried
  }
  return best
}

/** How many lines end in the middle of a word. */
function cutsIn(text: string, lines: readonly string[]): number {
  let at = 0
  let cuts = 0
  for (const line of lines) {
    while (text[at] === ' ') at++
    at += line.length
    if (at < text.length && text[at] !== ' ' && text[at - 1] !== '/') cuts++
  }
  return cuts
}

const graphemes = new Intl.Segmenter('en', { granularity: 'grapheme' })

/** Breaks a text into at most `most` lines. It reads a long text only up to the end of the shown part. */
function linesOf(text: string, isWithin: (line: string) => boolean, most: number): string[] {
  const lines: string[] = []
  let line = ''
  const end = () => {
    if (line !== '') lines.push(line)
    line = ''
  }
  for (const word of text.split(' ')) {
    if (lines.length >= most) break
    if (isWithin(`${line} ${word}`.trim())) {
      line = `${line} ${word}`.trim()
      continue
    }
    end()
    // An address breaks after a slash if possible.
    for (const part of word.split(/(?<=\/)/)) {
      if (line !== '' && !isWithin(line + part)) end()
      for (const { segment } of graphemes.segment(part)) {
        if (lines.length >= most) break
        if (line !== '' && !isWithin(line + segment)) end()
        line += segment
      }
    }
  }
  end()
  return lines.slice(0, most)
}

function cut(line: string, isWithin: (line: string) => boolean): string {
  const kept = Array.from(graphemes.segment(line), ({ segment }) => segment)
  while (kept.length > 0 && !isWithin(`${kept.join('').trimEnd()}…`)) kept.pop()
  return `${kept.join('').trimEnd()}…`
}
