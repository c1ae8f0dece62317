import { useEffect, useState } from 'preact/hooks'
import { browser } from '../browser.ts'
import { html } from '../html.ts'
import { island } from '../island/island.ts'
import { Button } from './button.ts'

/** How long it says what became of it. */
const SAID_MS = 2_000

export interface CopyButtonProps {
  readonly text: string
  /** Of what, for those who don't see what it stands beside. */
  readonly what: string
}

function CopyButtonView({ text, what }: CopyButtonProps) {
  const [said, setSaid] = useState<string>()
  useEffect(() => {
    if (said === undefined) return
    const timer = browser.setTimeout(() => setSaid(undefined), SAID_MS)
    return () => browser.clearTimeout(timer)
  }, [said])
  const copy = async () => {
    // Not there where the page came over plain http from another machine.
    const isCopied = await browser.navigator.clipboard?.writeText(text).then(
      () => true,
      () => false,
    )
    setSaid(isCopied ? 'Copied' : 'Not allowed')
  }
  return html`<${Button} size="small" class="copy" onClick=${copy}>
    <span aria-live="polite">${said ?? 'Copy'}</span>${said === undefined && html`<span class="visually-hidden"> ${what}</span>`}
  <//>`
}

/** Copies a text, and says so. */
export const CopyButton = island('copy-button', CopyButtonView)
