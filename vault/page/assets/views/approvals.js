/** @import { ApprovalView } from '../../../approvals/approval.ts' */
import { notifications } from '../attention.js'
import { empty, heading } from '../fields.js'
import { button, fill, h } from '../html.js'
import { kindOf } from '../kinds.js'
import { approvals } from '../store.js'
import { stateOf, timeOf, toneOf } from '../words.js'
import { createCard } from './approvalCard.js'

const shownAtFirst = 20
/** Also how soon a card notices that it was moved. */
const tickMs = 100

/**
 * What agents wait for, and what was answered. A card stays where it is when it is decided, and new ones come below, so
 * that nothing moves under the pointer.
 *
 * @param {HTMLElement} main
 * @returns {() => void}
 */
export function showApprovals(main) {
  /** @type {Map<string, ReturnType<typeof createCard>>} */
  const cards = new Map()
  const list = h('div', { class: 'cards' })
  const nothing = empty(
    'Nobody waits for you',
    h(
      'p',
      {},
      'When an agent asks for something that your policies do not allow by themselves, it appears here.',
    ),
    h('p', {}, 'Agents reach this vault at ', h('code', {}, location.origin), '.'),
  )
  const history = h('section', { class: 'history', 'aria-labelledby': 'history-title' })
  let shown = shownAtFirst

  function draw() {
    for (const approval of approvals.waiting) {
      if (cards.has(approval.id)) continue
      const card = createCard(approval)
      cards.set(approval.id, card)
      list.append(card.element)
    }
    for (const [id, card] of cards) {
      const approval = approvals.get(id)
      if (approval === undefined) card.element.remove()
      else if (approval.status === 'pending' && approval.decision_hash !== card.decision_hash)
        replace(card.element, approval)
      else card.update(approval)
    }
    nothing.hidden = cards.size > 0
    drawHistory()
  }

  /** What is decided about is what is shown: another decision is another card. */
  /** @param {HTMLElement} old @param {ApprovalView} approval */
  function replace(old, approval) {
    const card = createCard(approval, { isChanged: true })
    cards.set(approval.id, card)
    old.replaceWith(card.element)
  }

  function drawHistory() {
    const past = approvals.all.filter(({ id, status }) => status !== 'pending' && !cards.has(id))
    history.hidden = past.length === 0
    fill(
      history,
      h('h2', { id: 'history-title' }, 'History'),
      h('ul', { class: 'rows' }, past.slice(0, shown).map(historyRow)),
      past.length > shown
        ? button('Show more', () => {
            shown += 100
            drawHistory()
          })
        : null,
    )
  }

  fill(main, heading('Approvals', notifyButton()), list, nothing, history)
  draw()
  const unwatch = approvals.watch(draw)
  const ticking = setInterval(() => {
    for (const card of cards.values()) card.tick()
  }, tickMs)
  return () => {
    unwatch()
    clearInterval(ticking)
  }
}

/** @param {ApprovalView} approval */
const historyRow = (approval) => {
  const { agent, effects, status, decided_by, decided_at, created_at } = approval
  return h(
    'li',
    { class: 'row' },
    h(
      'div',
      { class: 'row-main' },
      h('strong', {}, agent),
      ` ${kindOf(approval).title}`,
      h('div', { class: 'muted' }, h('bdi', {}, effects[0] ?? '')),
    ),
    h(
      'div',
      { class: 'row-end' },
      h('span', { class: 'chip', 'data-tone': toneOf(status) }, stateOf(status)),
      h(
        'div',
        { class: 'muted small-text' },
        timeOf(decided_at ?? created_at),
        decided_by === null ? '' : ` by ${decided_by}`,
      ),
    ),
  )
}

function notifyButton() {
  if (!notifications.isPossible) return null
  const label = () => (notifications.isOn ? 'Notifications are on' : 'Notify me on the desktop')
  const toggle = button(
    label(),
    async () => {
      if (notifications.isOn) notifications.turnOff()
      else await notifications.turnOn()
      toggle.replaceWith(notifyButton() ?? '')
    },
    { kind: 'small', icon: 'bell' },
  )
  toggle.setAttribute('aria-pressed', String(notifications.isOn))
  return toggle
}
