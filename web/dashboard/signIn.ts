import { useEffect, useState } from 'preact/hooks'
import { Button } from '../components/button.ts'
import { Card } from '../components/card.ts'
import { Field } from '../components/field.ts'
import { Notice } from '../components/notice.ts'
import { createApiClient } from '../desk/api.ts'
import { useForm } from '../desk/form.ts'
import { Fault, faultOf, useAction } from '../desk/load.ts'
import { html } from '../html.ts'
import { findWallets } from '../wallets/findWallets.ts'
import { type ConnectedWallet, connectWallet } from '../wallets/signText.ts'
import type { Wallet } from '../wallets/wallet.ts'
import type { SessionAnswer } from './seller.ts'
import { storeWords } from './storeWords.ts'

/** Browsers tell of their wallets within this time; before it nobody says that there is none. */
const LOOKING_MS = 1_000

/** What a wallet without a store has signed: good for opening one, for five minutes. */
interface Signed {
  readonly wallet: ConnectedWallet
  readonly body: object
}

/** The way in: a wallet of this browser signs a text; one without a store is offered to open one. */
export function SignIn({ onSignedIn }: { readonly onSignedIn: (session: SessionAnswer) => void }) {
  const [wallets, setWallets] = useState<readonly Wallet[]>([])
  const [isLooking, setLooking] = useState(true)
  const [chosen, setChosen] = useState<string>()
  const [signed, setSigned] = useState<Signed>()
  const action = useAction()
  useEffect(() => findWallets(setWallets), [])
  useEffect(() => {
    const timer = setTimeout(() => setLooking(false), LOOKING_MS)
    return () => clearTimeout(timer)
  }, [])

  const choose = (wallet: Wallet) =>
    action.run(async () => {
      setChosen(wallet.id)
      const ask = createApiClient()
      const connected = await connectWallet(wallet)
      const { address, chain } = connected
      const { message } = await ask<{ message: string }>('POST', '/api/dashboard/nonce', { address, chain })
      const body = { address, chain, message, signature: await connected.signText(message) }
      try {
        onSignedIn(await ask<SessionAnswer>('POST', '/api/dashboard/session', body))
      } catch (thrown) {
        if (faultOf(thrown).code !== 'STORE_NOT_FOUND') throw thrown
        setSigned({ wallet: connected, body })
      }
    })

  if (signed !== undefined) {
    return html`<${OpenStore} signed=${signed} onSignedIn=${onSignedIn} onBack=${() => setSigned(undefined)} />`
  }
  return html`<${Card} class="desk-door">
    <h1>Sign in to your store</h1>
    <p class="soft">Your wallet signs a short text. It costs nothing and moves no money.</p>
    <div class="stack" role="group" aria-label="Wallets">
      ${wallets.map(
        (wallet) => html`<${Button}
          key=${wallet.id}
          class="desk-wallet"
          isBusy=${action.isBusy && chosen === wallet.id}
          onClick=${() => choose(wallet)}
        >
          ${wallet.icon ? html`<img src=${wallet.icon} alt="" width="24" height="24" />` : html`<span class="desk-dot" aria-hidden="true"></span>`}
          <span dir="auto">${wallet.name}</span>
          <span class="soft small">${wallet.family === 'solana' ? 'Solana' : 'Base'}</span>
        <//>`,
      )}
    </div>
    <div aria-live="polite">
      ${action.isBusy && html`<p class="soft">Waiting for your wallet …</p>`}
      ${
        wallets.length === 0 &&
        (isLooking
          ? html`<p class="soft">Looking for wallets …</p>`
          : html`<${Notice} title="No wallet was found in this browser">
              <p>Install one for Base or Solana, or open this page in your wallet’s own browser. Then load the page again.</p>
            <//>`)
      }
    </div>
    <${Fault} of=${action} />
  <//>`
}

interface OpenStoreProps {
  readonly signed: Signed
  readonly onSignedIn: (session: SessionAnswer) => void
  readonly onBack: () => void
}

/** For a wallet that has no store: what the new one is called. */
function OpenStore({ signed: { wallet, body }, onSignedIn, onBack }: OpenStoreProps) {
  const action = useAction()
  const form = useForm({ username: '', displayName: '' }, action, storeWords)
  const open = form.submit(async ({ username, displayName }) => {
    const names = { username: username.trim() || null, displayName: displayName.trim() || null }
    const ask = createApiClient()
    onSignedIn(
      await ask<SessionAnswer>('POST', '/api/dashboard/session', { ...body, ...names, openStore: true }),
    )
  })
  return html`<${Card} class="desk-door">
    <h1>Open your store</h1>
    <p class="soft">The wallet <span class="mono">${wallet.address}</span> has no store yet. Buyers will pay this wallet; you can change that later.</p>
    <form class="stack" ref=${form.ref} onSubmit=${open} novalidate>
      <${Field}
        ...${form.at('username')} label="Username"
        hint="Part of every address of yours: a-z, 0-9 and _. Leave it empty for a random one."
        autocomplete="username" autocapitalize="none" spellcheck=${false}
      />
      <${Field} ...${form.at('displayName')} label="Name of the store" hint="What buyers read. Optional." />
      ${form.line}
      <div class="row">
        <${Button} kind="primary" type="submit" isBusy=${action.isBusy}>Open the store<//>
        <${Button} kind="quiet" onClick=${onBack}>Use another wallet<//>
      </div>
    </form>
  <//>`
}
