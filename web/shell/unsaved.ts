import { useEffect } from 'preact/hooks'
import { browser } from '../browser.ts'
import { Button } from '../components/button.ts'
import { Dialog } from '../components/dialog.ts'
import { html } from '../html.ts'

/** The forms of the page that have unsaved changes. */
const unsaved = new Set<object>()

export const hasUnsaved = (): boolean => unsaved.size > 0

/** While it is true, the reader is asked before the page is left. */
export function useUnsaved(isUnsaved: boolean): void {
  useEffect(() => {
    if (!isUnsaved) return
    const form = {}
    const ask = (event: { preventDefault(): void }) => event.preventDefault()
    unsaved.add(form)
    browser.addEventListener('beforeunload', ask)
    return () => {
      unsaved.delete(form)
      browser.removeEventListener('beforeunload', ask)
    }
  }, [isUnsaved])
}

/** The question that is asked before unsaved changes are lost. */
export interface Leaving {
  readonly stay: () => void
  readonly leave: () => void
}

/** Shows the question. Shows nothing if there is none. */
export const LeaveDialog = ({ of }: { readonly of: Leaving | undefined }) =>
  html`<${Dialog} id="leave" title="Leave without saving?" isOpen=${of !== undefined} onClose=${() => of?.stay()}>
    <p>You have unsaved changes.</p>
    <div class="actions"><${Button} onClick=${of?.stay}>Stay here<//><${Button} kind="danger" onClick=${of?.leave}>Leave<//></div>
  <//>`
