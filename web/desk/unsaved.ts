import { useEffect } from 'preact/hooks'
import { browser } from '../browser.ts'
import { Button } from '../components/button.ts'
import { Dialog } from '../components/dialog.ts'
import { html } from '../html.ts'

/** Forms of the page that were filled in and not saved. */
const unsaved = new Set<object>()

export const hasUnsaved = (): boolean => unsaved.size > 0

/** While it is true, leaving the page asks first. */
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

/** What was asked before something that isn't saved is left. */
export interface Leaving {
  readonly stay: () => void
  readonly leave: () => void
}

/** The question; none while nothing is left. */
export const LeaveDialog = ({ of }: { readonly of: Leaving | undefined }) =>
  html`<${Dialog} id="leave" title="Leave without saving?" isOpen=${of !== undefined} onClose=${() => of?.stay()}>
    <p>What you changed here is not saved.</p>
    <div class="actions"><${Button} onClick=${of?.stay}>Stay here<//><${Button} kind="danger" onClick=${of?.leave}>Leave<//></div>
  <//>`
