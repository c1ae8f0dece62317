import { useEffect, useState } from 'preact/hooks'
import { Button } from '../components/button.ts'
import { Card, Notice } from '../components/card.ts'
import { Field } from '../components/field.ts'
import { html } from '../html.ts'
import { createApiClient } from '../shell/api.ts'
import { type FormWords, useForm } from '../shell/form.ts'
import { Fault, faultOf, useAction } from '../shell/load.ts'
import { findWallets } from '../wallets/findWallets.ts'
import { type ConnectedWallet, connectWallet } from '../wallets/signText.ts'
import type { Wallet } from '../wallets/wallet.ts'
import type { SessionResponse } from './seller.ts'

/** Error messages for a store's names, when the store is opened and when they are changed. */
export const storeWords: FormWords = {
  username: {
    expected: 'Enter 3 to 32 characters of a-z, 0-9 and _.',
    USERNAME_TAKEN: 'Another store has this name. Enter another name.',
  },
  displayName: { expected: 'Enter a name on one line.' },
  bio: {},
}

/** How long wallets have to announce themselves before the page reports that there is none, in ms. */
const WALLET_WAIT_MS = 1_000

/** A signature by a wallet that has no store yet. The wallet can open one within five minutes. */
interface Signed {
  readonly wallet: ConnectedWallet
  readonly body: object
}

/** The sign-in page. A wallet in this browser signs a text. A wallet without a store can open one. */
export function SignIn({ onSignedIn }: { readonly onSignedIn: (session: SessionResponse) => void }) {
  const [wallets, setWallets] = useState<readonly Wallet[]>([])
  const [isWaiting, setWaiting] = useState(true)
  const [chosen, setChosen] = useState<string>()
  const [signed, setSigned] = useState<Signed>()
  const action = useAction()
  useEffect(() => findWallets(setWallets), [])
  useEffect(() => {
    const timer = setTimeout(() => setWaiting(false), WALLET_WAIT_MS)
    return () => clearTimeout(timer)
  }, [])

  const choose = (wallet: Wallet) =>
    action.run(async () => {
      setChosen(wallet.id)
      const api = createApiClient()
      const connected = await connectWallet(wallet)
      const { address, chain } = connected
      const { message } = await api<{ message: string }>('POST', '/api/dashboard/nonce', { address, chain })
      const body = { address, chain, message, signature: await connected.signText(message) }
      try {
        onSignedIn(await api<SessionResponse>('POST', '/api/dashboard/session', body))
      } catch (thrown) {
        if (faultOf(thrown).code !== 'STORE_NOT_FOUND') throw thrown
        setSigned({ wallet: connected, body })
      }
    })

  if (signed !== undefined) {
    return html`<${OpenStore} signed=${signed} onSignedIn=${onSignedIn} onBack=${() => setSigned(undefined)} />`
  }
  return html`<${Card} class="shell-sign-in">
    <h1>Sign in to your store</h1>
    <p class="soft">Your wallet signs a short text. Signing costs nothing and moves no money.</p>
    <div class="stack" role="group" aria-label="Wallets">
      ${wallets.map(
        (wallet) => html`<${Button}
          key=${wallet.id}
          class="shell-wallet"
          isBusy=${action.isBusy && chosen === wallet.id}
          onClick=${() => choose(wallet)}
        >
          ${wallet.icon ? html`<img src=${wallet.icon} alt="" width="24" height="24" />` : html`<span class="shell-dot" aria-hidden="true"></span>`}
          <span dir="auto">${wallet.name}</span>
          <span class="soft small">${wallet.family === 'solana' ? 'Solana' : 'Base'}</span>
        <//>`,
      )}
    </div>
    <div aria-live="polite">
      ${action.isBusy && html`<p class="soft">Waiting for your wallet …</p>`}
      ${
        wallets.length === 0 &&
        (isWaiting
          ? html`<p class="soft">Looking for wallets …</p>`
          : html`<${Notice} title="No wallet was found in this browser">
              <p>Install a wallet for Base or Solana, or open this page in your wallet’s own browser. Then load the page again.</p>
            <//>`)
      }
    </div>
    <${Fault} of=${action} />
  <//>`
}

interface OpenStoreProps {
  readonly signed: Signed
  readonly onSignedIn: (session: SessionResponse) => void
  readonly onBack: () => void
}

/** Asks for the name of a new store. */
function OpenStore({ signed: { wallet, body }, onSignedIn, onBack }: OpenStoreProps) {
  const action = useAction()
  const form = useForm({ username: '', displayName: '' }, action, storeWords)
  const open = form.submit(async ({ username, displayName }) => {
    const names = { username: username.trim() || null, displayName: displayName.trim() || null }
    const api = createApiClient()
    onSignedIn(
      await api<SessionResponse>('POST', '/api/dashboard/session', { ...body, ...names, openStore: true }),
    )
  })
  return html`<${Card} class="shell-sign-in">
    <h1>Open your store</h1>
    <p class="soft">The wallet <span class="mono">${wallet.address}</span> has no store yet. Buyers will pay this wallet. You can change the payout wallet later.</p>
    <form class="stack" ref=${form.ref} onSubmit=${open} novalidate>
      <${Field}
        ...${form.at('username')} label="Username"
        hint="The username is part of the web address of each of your links. Use a-z, 0-9 and _, or leave this field empty for a random username."
        autocomplete="username" autocapitalize="none" spellcheck=${false}
      />
      <${Field} ...${form.at('displayName')} label="Name of the store" hint="Optional. Buyers see this name." />
      ${form.line}
      <div class="row">
        <${Button} kind="primary" type="submit" isBusy=${action.isBusy}>Open the store<//>
        <${Button} kind="quiet" onClick=${onBack}>Use another wallet<//>
      </div>
    </form>
  <//>`
}
