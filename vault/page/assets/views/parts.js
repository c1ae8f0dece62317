/** @import { PartView } from '../../../approvals/approval.ts' */
import { h, visible } from '../html.js'
import { bytesOf, shortHash } from '../words.js'

/** Whose text a part is. @type {Readonly<Record<PartView['by'], string>>} */
const authors = { agent: 'from the agent', seller: 'from the seller', vault: 'stored in the vault' }

/** Empty lines in a row, and spaces, of which the number says more than the sight. */
const gapLines = 8
const gapSpaces = 40

/**
 * What is signed, sent or stored, whole and in the vault's order. An old value and a new one that follow each other stand
 * side by side.
 *
 * @param {readonly PartView[]} parts
 */
export function partsOf(parts) {
  const drawn = []
  for (let i = 0; i < parts.length; i++) {
    const [one, next] = [/** @type {PartView} */ (parts[i]), parts[i + 1]]
    if (one.title === 'Old value' && next?.title === 'New value') {
      const isSame = one.sha256 === next.sha256
      const [before, after] = isSame ? [0, 0] : sharedEnds(one.text, next.text)
      drawn.push(
        h('div', { class: 'pair' }, boxOf(one, [before, after]), boxOf(next, [before, after])),
        isSame ? h('p', { class: 'muted small-text' }, 'Both are the same.') : null,
        !isSame && one.text === next.text
          ? h('p', { class: 'cut' }, 'What is shown of them is the same, and they are not.')
          : null,
      )
      i++
    } else drawn.push(boxOf(one))
  }
  return h('div', { class: 'whole' }, drawn)
}

/**
 * How much of the beginning and of the end of two texts is the same, in characters.
 *
 * @param {string} one @param {string} other @returns {[number, number]}
 */
function sharedEnds(one, other) {
  const most = Math.min(one.length, other.length)
  let before = 0
  while (before < most && one[before] === other[before]) before++
  let after = 0
  while (after < most - before && one.at(-1 - after) === other.at(-1 - after)) after++
  return [before, after]
}

/**
 * Long ones scroll in their own box, by keyboard too.
 *
 * @param {PartView} part @param {[number, number]} [shared] what is the same in another part, at both ends; what is between is marked
 */
function boxOf({ title, by, raw, text, format, bytes, sha256, whole }, shared) {
  const size = bytesOf(bytes)
  const box = h('pre', {
    class: 'whole-text',
    'data-format': format,
    // Text stays where it is, whatever it says about its direction.
    dir: 'ltr',
    tabindex: 0,
    role: 'region',
    'aria-label': `${title}, ${authors[by]}, ${size}`,
  })
  if (shared === undefined || shared[0] + shared[1] === 0) box.append(...textOf(text))
  else {
    const [from, to] = [shared[0], text.length - shared[1]]
    const mark = h('mark')
    mark.append(...textOf(text.slice(from, to)))
    box.append(...textOf(text.slice(0, from)), from === to ? '' : mark, ...textOf(text.slice(to)))
    // What differs is what there is to see, also far down.
    requestAnimationFrame(() => {
      box.scrollTop = mark.offsetTop - box.offsetTop - box.clientHeight / 2
    })
  }
  const head = [title, ' ', h('span', { class: 'by' }, authors[by])]
  return h(
    raw ? 'details' : 'section',
    { class: 'part' },
    raw ? h('summary', { class: 'raw-title' }, head) : h('h3', {}, head),
    bytes === 0 ? h('p', { class: 'muted' }, 'Empty') : box,
    whole ? null : h('p', { class: 'cut' }, 'Not all of it: only the beginning stands here.'),
    // A seller's words beside a payment are not signed: their hash tells nothing.
    by === 'seller' && !raw
      ? null
      : h(
          'details',
          { class: 'digest' },
          h('summary', {}, `${size} · SHA-256 `, h('code', {}, `${shortHash(sha256)} …`)),
          h('code', {}, sha256),
        ),
  )
}

/** A text of several lines, gaps in it drawn as their size: what stands below or beside one is not to be looked for. @param {string} text */
const textOf = (text) =>
  text
    .split(new RegExp(`((?<=\\n)(?: *\\n){${gapLines},}| {${gapSpaces},})`))
    .flatMap((piece, i) =>
      i % 2 === 0
        ? document.createTextNode(piece.split('\n').map(visible).join('\n'))
        : gapOf(piece.split('\n').length - 1, piece.length),
    )

/** @param {number} lines @param {number} spaces */
const gapOf = (lines, spaces) => {
  const gap = (/** @type {number} */ count, /** @type {string} */ what) =>
    h('span', { class: 'gap' }, `${count.toLocaleString('en')} ${what}`)
  return lines === 0 ? [gap(spaces, 'spaces')] : [gap(lines, 'empty lines'), document.createTextNode('\n')]
}
