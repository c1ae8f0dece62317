import { useEffect, useRef } from 'preact/hooks'
import { type Children, html } from '../html.ts'

export interface DialogProps {
  readonly id: string
  readonly title: string
  readonly isOpen: boolean
  /** Escape, or what a button in it does. */
  readonly onClose: () => void
  /** Something runs in it whose answer it has to show: it stays open whatever is pressed. */
  readonly isBusy?: boolean
  readonly isWide?: boolean
  readonly children?: Children
}

interface DialogElement {
  readonly open: boolean
  showModal(): void
  close(): void
}

/** A question that everything else waits for. The browser keeps the focus in it and gives it back. */
export function Dialog({
  id,
  title,
  isOpen,
  onClose,
  isBusy = false,
  isWide = false,
  children,
}: DialogProps) {
  const element = useRef<DialogElement>(null)
  useEffect(() => {
    if (isOpen && !element.current?.open) element.current?.showModal()
    if (!isOpen && element.current?.open) element.current.close()
  }, [isOpen])
  // A browser lets a page hold a dialog against one Escape, and closes it with the next.
  const closed = () => (isBusy && isOpen ? element.current?.showModal() : onClose())
  return html`<dialog
    class=${isWide ? 'dialog wide' : 'dialog'}
    aria-labelledby=${`${id}-title`}
    ref=${element}
    onCancel=${(event: Event) => isBusy && event.preventDefault()}
    onClose=${closed}
  ><div class="stack"><h2 id=${`${id}-title`}>${title}</h2>${isOpen && children}</div></dialog>`
}
