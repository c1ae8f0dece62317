import { useEffect, useRef, useState } from 'preact/hooks'
import { browser } from '../browser.ts'
import { type Children, html } from '../html.ts'

export interface DialogProps {
  readonly id: string
  readonly title: string
  readonly isOpen: boolean
  /** Called on Escape, or by a button in the dialog. */
  readonly onClose: () => void
  /** True while an operation runs whose result the dialog must show. The dialog then stays open, even on Escape. */
  readonly isBusy?: boolean
  /** Called when Escape is pressed while the dialog stays open. */
  readonly onHeld?: () => void
  readonly isWide?: boolean
  readonly children?: Children
}

interface DialogElement {
  readonly open: boolean
  showModal(): void
  close(): void
}

/** A modal dialog. The browser keeps the focus inside it and restores it afterwards. */
export function Dialog({
  id,
  title,
  isOpen,
  onClose,
  isBusy = false,
  onHeld,
  isWide = false,
  children,
}: DialogProps) {
  const element = useRef<DialogElement>(null)
  /**
   * True if the page closed the dialog. The close event that follows, perhaps after the dialog was opened again, does not come
   * from the reader.
   */
  const isClosedHere = useRef(false)
  useEffect(() => {
    if (isOpen && !element.current?.open) element.current?.showModal()
    if (isOpen || !element.current?.open) return
    isClosedHere.current = true
    element.current.close()
  }, [isOpen])
  // A dialog restores the focus only if it is closed before it is removed.
  useEffect(() => () => element.current?.close(), [])
  const held = (event: Event) => {
    if (!isBusy) return
    event.preventDefault()
    onHeld?.()
  }
  // A page can prevent one Escape. On the next one, the browser closes the dialog anyway.
  const closed = () => {
    // The dialog was removed.
    if (element.current === null) return
    if (isClosedHere.current) {
      isClosedHere.current = false
      return
    }
    if (!isBusy || !isOpen) return onClose()
    element.current.showModal()
    onHeld?.()
  }
  return html`<dialog
    class=${isWide ? 'dialog wide' : 'dialog'}
    aria-labelledby=${`${id}-title`}
    ref=${element}
    onCancel=${held}
    onClose=${closed}
  ><div class="stack"><h2 id=${`${id}-title`}>${title}</h2>${isOpen && children}</div></dialog>`
}

const SHOWN_MS = 5_000

export interface ToastMessage {
  readonly text: string
  readonly tone?: 'plain' | 'bad'
}

type Listener = (message: ToastMessage) => void
const listeners = new Set<Listener>()

/** Shows a message at the bottom of the page for five seconds. */
export function showToast(message: ToastMessage): void {
  for (const listener of listeners) listener(message)
}

/** The place where toasts appear. A page that shows toasts renders it once. */
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
