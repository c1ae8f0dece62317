import { visibleText } from '../../../../core/text/visibleText.ts'
import type { ApprovalView } from '../../../approvals/approval.ts'
import { approvals } from '../store.ts'
import { summaryOf } from './kinds.ts'

const title = 'Tollgate vault'
const wish = 'notify'

/** Ids that were already announced, so that a reload does not announce them again. */
const announced = new Set<string>()

/** Whether this browser supports notifications, the user permits them, and they are turned on. */
export const notifications = {
  get isPossible(): boolean {
    return 'Notification' in window && Notification.permission !== 'denied'
  },
  get isOn(): boolean {
    return this.isPossible && Notification.permission === 'granted' && localStorage.getItem(wish) === 'yes'
  },
  async turnOn(): Promise<void> {
    if ((await Notification.requestPermission()) === 'granted') localStorage.setItem(wish, 'yes')
  },
  turnOff: (): void => localStorage.removeItem(wish),
}

/** Updates the window title, the badge and the screen reader, and shows new approvals as desktop notifications. */
export function drawAttention(): void {
  approvals.watch((changed) => {
    const { waiting } = approvals
    document.title = waiting.length === 0 ? title : `(${waiting.length}) ${title}`
    if ('setAppBadge' in navigator) void navigator.setAppBadge(waiting.length).catch(() => {})
    for (const approval of changed === undefined ? waiting : [changed]) announce(approval)
  })
}

/** A desktop notification in plain text. Only one notification with the same tag is shown across all tabs. */
export function notify(heading: string, text: string, tag: string): void {
  if (!notifications.isOn) return
  const shown = new Notification(heading, { body: visibleText(text), tag, icon: 'icon-192.png' })
  shown.onclick = () => {
    window.focus()
    location.hash = '#approvals'
    shown.close()
  }
}

function announce(approval: ApprovalView): void {
  if (approval.status !== 'pending' || announced.has(approval.id)) return
  announced.add(approval.id)
  const text = `${summaryOf(approval)}. ${approval.effects[0] ?? ''}`
  document.getElementById('live')!.textContent = `New request. ${visibleText(text)}`
  notify('An agent is waiting for you', text, approval.id)
}
