import { useEffect, useRef, useState } from 'preact/hooks'
import { Button } from '../../../web/components/button.ts'
import { Card, Notice } from '../../../web/components/card.ts'
import { Field } from '../../../web/components/field.ts'
import { Code } from '../../../web/components/tabs.ts'
import { html } from '../../../web/html.ts'
import { page, type Status } from './pageState.ts'
import { call, Refusal } from './session.ts'

/** The sign-in page. The owner can paste the link, because an installed page has no address bar. */
export function SignIn({ problem }: { readonly problem?: string | undefined }) {
  const [link, setLink] = useState('')
  const [isWrong, setWrong] = useState(false)
  const form = useRef<HTMLFormElement>(null)
  const send = (event: Event) => {
    event.preventDefault()
    const code = /(?:#code=)?([A-Za-z0-9_-]{16,128})$/.exec(link.trim())?.[1]
    setLink('')
    setWrong(code === undefined)
    if (code !== undefined) location.hash = `#code=${code}`
    else form.current?.querySelector('input')?.focus()
  }
  return html`<${Card} class="shell-sign-in">
    <h1>Sign in as the owner</h1>
    <p class="soft">Run this on the vault’s machine and open the link that it prints. The link works once.</p>
    <${Code} title="command" code="tollgate vault open" />
    <form class="stack" ref=${form} onSubmit=${send} novalidate>
      <${Field}
        id="link" label="Link" type="password" autocomplete="off" hint="Paste what the command printed."
        value=${link} onInput=${setLink}
        error=${isWrong ? 'This is not a link of this vault. Copy the whole line that begins with http.' : undefined}
      />
      ${problem !== undefined && !isWrong && html`<${Notice} tone="bad" title=${problem} isAlert=${true} />`}
      <div class="row"><${Button} kind="primary" type="submit">Sign in<//></div>
    </form>
  <//>`
}

/** The password form of a locked vault. After a wrong password, it counts down the vault's delay. */
export function Unlock({ status }: { readonly status: Status }) {
  const [password, setPassword] = useState('')
  const [problem, setProblem] = useState<string>()
  const [isBusy, setBusy] = useState(false)
  const [wait, setWait] = useState(() => waitOf(status.retry_after_ms))
  const form = useRef<HTMLFormElement>(null)
  const input = () => form.current?.querySelector('input')
  useEffect(() => input()?.focus(), [])
  useEffect(() => {
    const timer = setInterval(() => setWait((before) => ({ ...before, nowMs: Date.now() })), 250)
    return () => clearInterval(timer)
  }, [])
  const seconds = Math.max(0, Math.ceil((wait.untilMs - wait.nowMs) / 1_000))

  const send = async (event: Event) => {
    event.preventDefault()
    if (isBusy || seconds > 0 || password === '') return
    setBusy(true)
    setProblem(undefined)
    try {
      await call('POST', '/unlock', { password })
      setPassword('')
      void page.enter()
    } catch (error) {
      setProblem((error as Error).message)
      setWait(waitOf(error instanceof Refusal ? (error.retryAfterSeconds ?? 0) * 1_000 : 0))
      input()?.select()
    } finally {
      setBusy(false)
    }
  }
  return html`<${Card} class="shell-sign-in">
    <h1>The vault is locked</h1>
    ${status.lock_reason === 'signer' && html`<${Notice} tone="warn" title="The process that held the keys exited unexpectedly. Unlocking starts a new one." isAlert=${true} />`}
    <p class="soft">No key is in memory. Agents get an error until you unlock the vault.</p>
    <form class="stack" ref=${form} onSubmit=${send} novalidate>
      <${Field}
        id="password" label="Password" type="password" autocomplete="current-password" required
        value=${password} onInput=${setPassword}
      />
      ${problem !== undefined && html`<${Notice} tone="bad" title=${problem} isAlert=${true} />`}
      ${seconds > 0 && html`<p class="soft" role="timer">The vault accepts the next password in ${seconds} ${seconds === 1 ? 'second' : 'seconds'}.</p>`}
      <div class="row"><${Button} kind="primary" type="submit" isBusy=${isBusy} disabled=${seconds > 0}>${isBusy ? 'Unlocking…' : 'Unlock'}<//></div>
    </form>
    <p class="soft small">Vault ${status.vault_id}</p>
  <//>`
}

function waitOf(ms: number): { readonly untilMs: number; readonly nowMs: number } {
  const nowMs = Date.now()
  return { untilMs: nowMs + ms, nowMs }
}
