/** @import { ApprovalView } from '../../approvals/approval.ts' */
import { byId, visible } from './html.js'
import { summaryOf } from './kinds.js'
import { approvals } from './store.js'

const title = 'Tollgate vault'
const wish = 'notify'

/** Ids that were announced, so that a reload does not announce them again. @type {Set<string>} */
const announced = new Set()

/** Whether this browser can, may and should show notifications. */
export const notifications = {
  get isPossible() {
    return 'Notification' in window && Notification.permission !== 'denied'
  },
  get isOn() {
    return this.isPossible && Notification.permission === 'granted' && localStorage.getItem(wish) === 'yes'
  },
  async turnOn() {
    const answer = await Notification.requestPermission()
    if (answer === 'granted') localStorage.setItem(wish, 'yes')
  },
  turnOff: () => localStorage.removeItem(wish),
}

/** Keeps the window's title, the badge and the screen reader up to date, and shows what is new on the desktop. */
export function drawAttention() {
  approvals.watch((changed) => {
    const { waiting } = approvals
    showCount(waiting.length)
    for (const approval of changed === undefined ? waiting : [changed]) announce(approval)
  })
}

/** @param {number} count */
function showCount(count) {
  document.title = count === 0 ? title : `(${count}) ${title}`
  const badge = byId('count')
  badge.hidden = count === 0
  badge.textContent = String(count)
  badge.setAttribute('aria-label', `${count} waiting`)
  if ('setAppBadge' in navigator) void navigator.setAppBadge(count).catch(() => {})
}

/** Says something about an agent that needs no answer, until it is clicked away. @param {string} text */
export function showNotice(text) {
  const place = byId('notice')
  place.textContent = visible(text)
  place.hidden = false
  place.onclick = () => {
    place.hidden = true
  }
  if (notifications.isOn)
    new Notification(title, { body: visible(text), tag: 'notice', icon: 'icon-192.png' })
}

/** @param {ApprovalView} approval */
function announce(approval) {
  if (approval.status !== 'pending' || announced.has(approval.id)) return
  announced.add(approval.id)
  const text = visible(`${summaryOf(approval)}. ${approval.effects[0] ?? ''}`)
  byId('live').textContent = `New request. ${text}`
  if (!notifications.isOn) return
  // The same tag in every tab: one notification a question.
  const shown = new Notification('An agent waits for you', {
    body: text,
    tag: approval.id,
    icon: 'icon-192.png',
  })
  shown.onclick = () => {
    window.focus()
    location.hash = '#approvals'
    shown.close()
  }
}
