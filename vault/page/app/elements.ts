import { useEffect, useRef } from 'preact/hooks'
import { type Children, html } from '../../../web/html.ts'
import type { PartView } from '../../approvals/approval.ts'
import { visibleTextOfLines } from './plainText.ts'
import { bytesOf, shortHash } from './words.ts'

interface ItemProps {
  readonly name: string
  /** The accessible label, if the name alone is not enough. */
  readonly label?: string
  /** Shown beside the name. */
  readonly what?: Children
  /** Shown at the end of the name's line. */
  readonly end?: Children
  readonly actions?: Children
  readonly children?: Children
}

/** One agent, policy or pairing. */
export const Item = ({ name, label = name, what, end, actions, children }: ItemProps) =>
  html`<article class="card stack vault-item" aria-label=${label}>
    <header class="row apart"><h2>${name}${what && html`<span class="soft"> ${what}</span>`}</h2>${end}</header>
    ${children}
    ${actions && html`<div class="row">${actions}</div>`}
  </article>`

/** For input that is used exactly as typed, such as names, links and addresses. */
export const asTyped = { autocomplete: 'off', autocapitalize: 'off', spellcheck: false }

/** The author of each part's text. */
const authors: Readonly<Record<PartView['by'], string>> = {
  agent: 'from the agent',
  seller: 'from the offer that the agent sent',
  vault: 'stored in the vault',
}

/** Number of empty lines, or spaces, from which a run is shown as its count. */
const MIN_GAP_LINES = 8
const MIN_GAP_SPACES = 40
const gaps = new RegExp(`((?<=\\n)(?: *\\n){${MIN_GAP_LINES},}| {${MIN_GAP_SPACES},})`)

/** What is signed, sent or stored, in full and in the vault's order. An old and a new value are shown side by side. */
export const Parts = ({ parts }: { readonly parts: readonly PartView[] }) =>
  parts.map((part, i) => {
    const [before, after] = [parts[i - 1], parts[i + 1]]
    const isPair = (one?: PartView, other?: PartView) =>
      one?.title === 'Old value' && other?.title === 'New value'
    if (isPair(before, part)) return null
    return isPair(part, after) ? html`<${Pair} one=${part} other=${after} />` : html`<${Box} ...${part} />`
  })

function Pair({ one, other }: { readonly one: PartView; readonly other: PartView }) {
  const isSame = one.sha256 === other.sha256
  const shared = isSame ? undefined : sharedEnds(one.text, other.text)
  return html`<div class="pair"><${Box} ...${one} shared=${shared} /><${Box} ...${other} shared=${shared} /></div>
    ${isSame && html`<p class="soft small">Both values are the same.</p>`}
    ${!isSame && one.text === other.text && html`<p class="wrong">The shown parts are the same, but the values differ.</p>`}`
}

/** The number of equal characters at the start and at the end of two texts. */
function sharedEnds(one: string, other: string): readonly [number, number] {
  const most = Math.min(one.length, other.length)
  let before = 0
  while (before < most && one[before] === other[before]) before++
  let after = 0
  while (after < most - before && one.at(-1 - after) === other.at(-1 - after)) after++
  return [before, after]
}

interface BoxProps extends PartView {
  /** Number of equal characters at both ends of the other part. The difference between them is highlighted. */
  readonly shared?: readonly [number, number] | undefined
}

/** The box of one part. A long part scrolls in its own box, also by keyboard. */
function Box({ title, by, raw, text, format, bytes, sha256, whole, shared = [0, 0] }: BoxProps) {
  const size = bytesOf(bytes)
  const box = useRef<HTMLElement>(null)
  const mark = useRef<HTMLElement>(null)
  const [from, to] = [shared[0], text.length - shared[1]]
  const isMarked = shared[0] + shared[1] > 0
  useEffect(() => {
    // Scrolls to the difference, even far down.
    if (box.current && mark.current)
      box.current.scrollTop = mark.current.offsetTop - box.current.offsetTop - box.current.clientHeight / 2
  }, [])
  const marked =
    isMarked &&
    html`${linesOf(text.slice(0, from))}${from < to && html`<mark ref=${mark}>${linesOf(text.slice(from, to))}</mark>`}${linesOf(text.slice(to))}`
  const head = html`${title} <span class="vault-by">${authors[by]}</span>`
  // The text is isolated, so that its direction marks cannot reorder the text around it.
  const inner = html`${
    bytes === 0
      ? html`<p class="soft">Empty</p>`
      : html`<pre
          class="vault-text" ref=${box} data-format=${format} dir="ltr" tabindex="0" role="region"
          aria-label=${`${title}, ${authors[by]}, ${size}`}
        >${marked || linesOf(text)}</pre>`
  }
    ${!whole && html`<p class="wrong">Not shown in full: only the beginning.</p>`}
    ${
      // The seller's text beside a payment is not signed, so its hash has no meaning.
      (by !== 'seller' || raw) &&
      html`<details class="soft small">
        <summary>${`${size} · SHA-256 `}<code>${`${shortHash(sha256)} …`}</code></summary><code>${sha256}</code>
      </details>`
    }`
  return raw
    ? html`<details class="vault-part"><summary><strong>${head}</strong></summary>${inner}</details>`
    : html`<section class="vault-part"><h3>${head}</h3>${inner}</section>`
}

/** Text of several lines. Each gap is shown as its size, so that the owner does not overlook text below or beside it. */
const linesOf = (text: string): Children =>
  text.split(gaps).map((piece, i) => {
    if (i % 2 === 0) return html`<span textContent=${visibleTextOfLines(piece)}></span>`
    const lines = piece.split('\n').length - 1
    return lines === 0
      ? html`<span class="gap">${`${piece.length.toLocaleString('en')} spaces`}</span>`
      : html`<span class="gap">${`${lines.toLocaleString('en')} empty lines`}</span><span textContent=${'\n'}></span>`
  })
