import { useEffect, useState } from 'preact/hooks'
import { browser } from '../browser.ts'
import { html } from '../html.ts'

const SHOWN_MS = 5_000

export interface ToastMessage {
  readonly text: string
  readonly tone?: 'plain' | 'bad'
}

type Listener = (message: ToastMessage) => void
const listeners = new Set<Listener>()

/** Says something that needs no answer, at the foot of the page, for five seconds. */
export function showToast(message: ToastMessage): void {
  for (const listener of listeners) listener(message)
}

/** Where toasts appear: once on a page that shows any. */
export function Toasts() {
  const [shown, setShown] = useState<readonly ToastMessage[]>([])
  useEffect(() => {
    const add = (message: ToastMessage) => {
      setShown((before) => [...before, message])
      browser.setTimeout(() => setShown((before) => before.filter((one) => one !== message)), SHOWN_MS)
    }
    listeners.add(add)
    return () => void listeners.delete(add)
  }, [])
  return html`<div class="toasts" role="status">
    ${shown.map(({ text, tone = 'plain' }) => html`<p class="toast" data-tone=${tone}>${text}</p>`)}
  </div>`
}
