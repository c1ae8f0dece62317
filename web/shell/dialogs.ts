import { useEffect, useRef, useState } from 'preact/hooks'
import { Button } from '../components/button.ts'
import { Notice } from '../components/card.ts'
import { Dialog } from '../components/dialog.ts'
import { Code } from '../components/tabs.ts'
import { type Children, html } from '../html.ts'
import { Fault, useAction } from './load.ts'
import { useUnsaved } from './unsaved.ts'

interface FormDialogProps {
  readonly id: string
  readonly title: string
  /** Label of the submit button. */
  readonly action: string
  /**
   * `danger` is for an action that loses something. Cancel then has the focus at first, so that a second Enter does not submit.
   */
  readonly kind?: 'primary' | 'danger'
  readonly isWide?: boolean
  readonly onClose: () => void
  /** Submits, then closes the dialog or opens the next one. If this throws, the dialog shows the error and the form stays. */
  readonly onSend: () => Promise<unknown>
  readonly children?: Children
}

/** A form in a modal dialog, which is open while it is rendered. Escape and Cancel close it. Enter submits. */
export function FormDialog(props: FormDialogProps) {
  const { id, title, action: label, kind = 'primary', isWide = false, onClose, onSend, children } = props
  const action = useAction()
  const send = (event: Event) => {
    event.preventDefault()
    void action.run(onSend)
  }
  return html`<${Dialog} id=${id} title=${title} isOpen=${true} isWide=${isWide} isBusy=${action.isBusy} onClose=${onClose}>
    <form class="stack" onSubmit=${send} novalidate>
      ${children}
      <${Fault} of=${action} />
      <div class="actions">
        <${Button} autofocus=${kind === 'danger'} onClick=${onClose}>Cancel<//>
        <${Button} kind=${kind} type="submit" isBusy=${action.isBusy}>${label}<//>
      </div>
    </form>
  <//>`
}

export interface OnceDialogProps {
  readonly id: string
  readonly title: string
  readonly intro: string
  readonly secret: string
  /** Name of the secret, such as a token or a command. */
  readonly what: string
  /** True if the secret has no more value. The dialog then closes without a question. */
  readonly isUsed?: boolean
  readonly onClose: () => void
  /** Shown below the secret. */
  readonly children?: Children
}

/**
 * Shows a secret once. The dialog stays open until the reader confirms that the secret is stored. On Escape, or before the page
 * is left, the reader is asked.
 */
export function OnceDialog(props: OnceDialogProps) {
  const { id, title, intro, secret, what, isUsed = false, onClose, children } = props
  const [isDoubted, setDoubted] = useState(false)
  const done = useRef<HTMLButtonElement>(null)
  useUnsaved(!isUsed)
  useEffect(() => {
    const dialog = done.current?.closest('dialog')
    // The element that had the focus may have been removed.
    if (isUsed && !dialog?.contains(document.activeElement)) done.current?.focus()
  })
  const doubt = () => {
    setDoubted(true)
    done.current?.focus()
  }
  return html`<${Dialog} id=${id} title=${title} isOpen=${true} isBusy=${!isUsed} onHeld=${doubt} onClose=${onClose}>
    <p>${intro}</p>
    <${Code} title=${what} code=${secret} />
    ${children}
    ${isDoubted && !isUsed && html`<${Notice} tone="bad" title=${`Have you stored this ${what}? It is shown only once.`} isAlert=${true} />`}
    <div class="actions"><${Button} kind="primary" ref=${done} onClick=${onClose}>${isUsed ? 'Done' : 'I have stored it'}<//></div>
  <//>`
}
