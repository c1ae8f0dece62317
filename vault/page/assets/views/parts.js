/** @import { PartView } from '../../../approvals/approval.ts' */
import { h, visible } from '../html.js'
import { bytesOf, shortHash } from '../words.js'

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
      drawn.push(
        h('div', { class: 'pair' }, boxOf(one), boxOf(next)),
        one.sha256 === next.sha256 ? h('p', { class: 'muted small-text' }, 'Both are the same.') : null,
      )
      i++
    } else drawn.push(boxOf(one))
  }
  return h('div', { class: 'whole' }, drawn)
}

/** Long ones scroll in their own box, by keyboard too. @param {PartView} part */
function boxOf({ title, text, format, bytes, sha256, whole }) {
  const size = bytesOf(bytes)
  const box = h('pre', {
    class: 'whole-text',
    'data-format': format,
    // Text stays where it is, whatever it says about its direction.
    dir: 'ltr',
    tabindex: 0,
    role: 'region',
    'aria-label': `${title}, ${size}`,
  })
  box.textContent = text.split('\n').map(visible).join('\n')
  return h(
    'section',
    { class: 'part' },
    h('h3', {}, title),
    bytes === 0 ? h('p', { class: 'muted' }, 'Empty') : box,
    whole ? null : h('p', { class: 'cut' }, 'Not all of it: only the beginning stands here.'),
    h(
      'details',
      { class: 'digest' },
      h('summary', {}, `${size} · SHA-256 `, h('code', {}, `${shortHash(sha256)} …`)),
      h('code', {}, sha256),
    ),
  )
}
