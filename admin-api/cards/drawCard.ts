import { renderToString } from 'preact-render-to-string'
import { html } from '../../web/html.ts'
import { readAsset, webManifest } from '../../web/render/assets.ts'
import type { Card } from './card.ts'
import type { CardFont } from './cardFont.ts'
import { fitText } from './fitText.ts'

export const CARD_WIDTH = 1_200
export const CARD_HEIGHT = 630

const margin = 80
const inside = CARD_WIDTH - 2 * margin
const foot = 112
/** As in `web/styles/tokens.css`, in its light form: cards stand on other people's pages. */
const colours = { bg: '#f5f6f4', text: '#1a211d', muted: '#5a655f', accent: '#1c6b57', onAccent: '#ffffff' }

/** A card as SVG. Whatever its texts are, nothing stands outside of the margins. */
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
    ...{ font, width: inside, sizes: [{ size: 32, lines: title.lines.length > 2 ? 1 : 2 }] },
  })
  const side = visible(card.foot.join(' · '), font)
  const cost = fitText(
    price === null ? '' : price === 'free' ? 'Free' : `${shownAmount(price)} USDC a call`,
    {
      ...{ font, width: inside * 0.7, sizes: [48, 36, 24].map((size) => ({ size, lines: 1 })) },
    },
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
  // XML's own rule, which HTML has not (XML 1.0, section 2.4).
  return svg.replaceAll(']]>', ']]&gt;')
}

/** A line of text at the margin where its own script begins. */
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

/** A text without what the font lacks: pictures and signs go, and a text with a letter that it lacks is none. */
function shownOf(text: string, font: CardFont): string {
  const lacks = (form: RegExp) => (text.match(form) ?? []).some((char) => !font.has(char))
  return lacks(/[\p{L}\p{N}]/gu) ? '' : visible(text, font)
}

/** What the font has of a text, on one line. */
const visible = (text: string, font: CardFont): string =>
  Array.from(text.replace(/\s/g, ' '))
    .filter((char) => font.has(char) && !/[\p{Cc}\p{Cf}]/u.test(char))
    .join('')
    .replace(/ +/g, ' ')
    .trim()

/** As pages write it: thousands apart, no zeros behind the cents. */
const shownAmount = (price: string): string => {
  const [whole, fraction = ''] = price.split('.')
  const cents = fraction.replace(/0+$/, '')
  return `${whole!.replace(/\B(?=(\d{3})+$)/g, '\u00a0')}${cents && `.${cents.padEnd(2, '0')}`}`
}

let mark: string | undefined

/** The mark on its tile, as browsers show it. */
function markUrl(): string {
  mark ??= `data:image/svg+xml;base64,${readAsset(webManifest().icon)!.plain.toString('base64')}`
  return mark
}
