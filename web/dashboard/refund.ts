import { useEffect, useRef, useState } from 'preact/hooks'
import { Button } from '../components/button.ts'
import { Card, Notice } from '../components/card.ts'
import { showToast } from '../components/dialog.ts'
import { Field } from '../components/field.ts'
import { Address, Amount } from '../components/money.ts'
import { html } from '../html.ts'
import { type ApiClient, ApiFault } from '../shell/api.ts'
import { useForm } from '../shell/form.ts'
import { Fault, useAction } from '../shell/load.ts'
import { sendEvm } from '../wallets/sendEvm.ts'
import { sendSolana } from '../wallets/sendSolana.ts'
import { type Wallet, WalletFault } from '../wallets/wallet.ts'
import { connectOwnWallet } from './ownWallet.ts'
import { useSeller } from './seller.ts'
import type { PurchaseResponse } from './types.ts'

/** The transfer that refunds a purchase. */
export interface RefundTransfer {
  readonly chain: 'base' | 'solana'
  readonly network: string
  readonly asset: string
  readonly from: string
  readonly to: string
  readonly amountAtomic: string
  readonly decimals: number
  readonly tokenProgram: 'token' | 'token-2022'
  /** Transaction of the last refund that a reorganization (blocks replaced by others) undid. Null if there is none. */
  readonly lostTxHash: string | null
}

export interface RefundProps {
  readonly purchase: PurchaseResponse
  readonly transfer: RefundTransfer
  readonly onChanged: () => void
}

const words = { txHash: { expected: 'Enter the transaction id of your transfer, as your wallet shows it.' } }

const RECHECK_AFTER_MS = 3_000
/** Maximum number of checks of a sent transfer. They take ten minutes. */
const MAX_CHECKS = 200
/**
 * Codes for a transfer that the chain does not show yet, or for a chain that cannot be read now. The same request may succeed
 * later.
 */
const unconfirmed: readonly string[] = [
  'TRANSACTION_NOT_FINAL',
  'CHAIN_UNAVAILABLE',
  'UNREACHABLE',
  'RATE_LIMIT_EXCEEDED',
]

/**
 * Value that is stored before a wallet is asked to send. Until the transaction replaces it, it is unknown whether the transfer
 * was sent.
 */
const MAYBE_SENT = 'maybe'

/**
 * Refunds a purchase. The wallet that was paid sends the transfer, and the API records it when it is on chain. So that nothing
 * is sent twice, the browser stores until then that a transfer was started and its transaction id, and only one tab may send at
 * a time.
 */
export function Refund({ purchase, transfer, onChanged }: RefundProps) {
  const { api } = useSeller()
  const { id, amount, currency, status } = purchase
  const [sent, setSent] = useState(() => sentRefund(id))
  const [progress, setProgress] = useState('')
  const action = useAction()
  const byHand = useAction()
  const form = useForm({ txHash: '' }, byHand, words)
  const isGone = useRef(false)
  useEffect(() => () => void (isGone.current = true), [])

  const book = async (txHash: string) => {
    await api('POST', `/api/v1/purchases/${id}/refunds`, { txHash })
    forgetRefund(id)
    showToast({ text: 'The refund was recorded' })
    onChanged()
  }
  const bookOnceFinal = async (txHash: string) => {
    setProgress('The transfer was sent. Waiting for its confirmation …')
    for (let check = 1; !isGone.current; check++) {
      try {
        return await book(txHash)
      } catch (fault) {
        const isEarly = fault instanceof ApiFault && unconfirmed.includes(fault.code)
        if (!isEarly || check === MAX_CHECKS) throw fault
      }
      await new Promise((resolve) => setTimeout(resolve, RECHECK_AFTER_MS))
    }
  }
  /** @returns the transaction id. Undefined if the purchase was refunded in the meantime */
  const send = async (): Promise<string | undefined> => {
    setProgress('Waiting for your wallet …')
    const { wallet } = await connectOwnWallet(transfer.from, transfer.chain)
    const prepared = await prepareRefund(wallet, transfer, api)
    // Another browser or program may have refunded the purchase since this page was loaded.
    const now = await api<PurchaseResponse>('GET', `/api/v1/purchases/${id}`)
    if (now.status === 'refunded') return undefined
    if (sentRefund(id) !== undefined) throw anotherTab()
    if (!keepRefund(id, MAYBE_SENT))
      throw new Error(
        'The refund was not sent. This browser does not let the page store anything, so the page could not remember the refund and might send it twice. Send the refund in your wallet, then enter the transaction below.',
      )
    try {
      return await prepared()
    } catch (error) {
      if (error instanceof WalletFault && error.kind !== 'failed') forgetRefund(id)
      throw error
    }
  }
  const refund = () =>
    action.run(async () => {
      try {
        await alone(id, async () => {
          const before = sentRefund(id)
          setSent(before)
          if (before === MAYBE_SENT) return
          const txHash = before ?? (await send())
          if (txHash === undefined) return onChanged()
          keepRefund(id, txHash)
          setSent(txHash)
          await bookOnceFinal(txHash)
        })
      } finally {
        setSent(sentRefund(id))
        setProgress('')
      }
    })
  /**
   * Allows another transfer, after one failed on chain or the seller knows that it was never sent. This is not possible while
   * another tab waits for its wallet.
   */
  const startOver = async () => {
    await action.run(() => alone(id, async () => void forgetRefund(id)))
    setSent(sentRefund(id))
  }
  const bookTyped = form.submit(({ txHash }) => book(txHash.trim()))
  const isDue = status === 'refund_due'
  return html`<${Card} title=${isDue ? 'Pay the refund' : 'Refund'}><div class="stack">
    ${
      transfer.lostTxHash !== null &&
      html`<${Notice} tone="warn" title="Your refund was dropped from the chain">
        <p>The buyer did not get the money. First look up <${Address} value=${transfer.lostTxHash} what="transaction" /> in a block explorer. If the explorer shows the transaction, do nothing. Send a new refund only when the transaction can no longer be included in a block. Otherwise the buyer is paid twice.</p>
      <//>`
    }
    <p>Your wallet sends the money back and pays the network’s fee.</p>
    <dl class="facts">
      <dt>Amount</dt><dd><${Amount} value=${amount} currency=${currency} /></dd>
      <dt>From</dt><dd><${Address} value=${transfer.from} what="wallet that was paid" /></dd>
      <dt>To</dt><dd><${Address} value=${transfer.to} what="buyer’s wallet" /></dd>
    </dl>
    ${
      sent === MAYBE_SENT
        ? html`<${Notice} tone="warn" title="The transfer may have been sent">
            <p>Your wallet did not report the result. Check the history of the wallet. If the transfer was sent, enter the transaction below. If not, start over.</p>
            <p><${Button} size="small" onClick=${startOver}>Nothing was sent: start over<//></p>
          <//>`
        : html`<div class="row"><${Button} kind=${isDue ? 'primary' : 'plain'} isBusy=${action.isBusy} onClick=${refund}>${
            sent === undefined ? `Refund ${amount} ${currency}` : 'Check the refund again'
          }<//></div>`
    }
    ${action.fault?.code === 'TRANSACTION_FAILED' && sent !== undefined && html`<div class="row"><${Button} kind="quiet" onClick=${startOver}>The transfer failed: start over<//></div>`}
    ${sent !== undefined && sent !== MAYBE_SENT && html`<p class="soft small">Sent with <${Address} value=${sent} what="transaction" /></p>`}
    <div aria-live="polite">${progress && html`<p class="soft">${progress}</p>`}</div>
    <${Fault} of=${action} />
    <details class="shell-more" open=${sent === MAYBE_SENT}>
      <summary>I sent the refund myself</summary>
      <form class="stack" ref=${form.ref} onSubmit=${bookTyped} novalidate>
        <ol class="shell-numbered">
          <li>Send the amount above from the wallet that was paid to the buyer’s wallet.</li>
          <li>Enter the transaction. The gateway checks the transaction on chain before it records the refund.</li>
        </ol>
        <${Field} ...${form.at('txHash')} label="Transaction" autocomplete="off" spellcheck=${false} required />
        ${form.line}
        <div class="row"><${Button} type="submit" isBusy=${byHand.isBusy}>Check and record the refund<//></div>
      </form>
    </details>
  </div><//>`
}

/**
 * Loads everything that a wallet needs before it is asked.
 * @returns a function that asks the wallet to send, once
 */
async function prepareRefund(
  wallet: Wallet,
  { network, asset, from, to, amountAtomic, decimals, tokenProgram }: RefundTransfer,
  api: ApiClient,
): Promise<() => Promise<string>> {
  const amount = BigInt(amountAtomic)
  if (wallet.family === 'eip155')
    return () => sendEvm(wallet, { network, asset, from, to, amountAtomic: amount })
  const query = new URLSearchParams({ network, asset, address: from })
  const { recentBlockhash, balanceAtomic } = await api<{
    readonly recentBlockhash: string
    readonly balanceAtomic: string
  }>('GET', `/api/payer?${query}`)
  if (BigInt(balanceAtomic) < amount)
    throw new WalletFault('too_little', 'This wallet has less than the refund. Add the missing amount first.')
  const token = { address: asset, decimals, program: tokenProgram }
  const transfer = { network, from, asset: token, amountAtomic: amount, payTo: to }
  return () => sendSolana(wallet, transfer, recentBlockhash)
}

const keyOf = (purchaseId: string) => `tollgate-refund-${purchaseId}`

/** Runs the work unless another tab of this browser does. A page without TLS has no locks. */
async function alone(purchaseId: string, work: () => Promise<void>): Promise<void> {
  const { locks } = navigator as { readonly locks?: LockManager }
  if (locks === undefined) return work()
  await locks.request(keyOf(purchaseId), { ifAvailable: true }, (lock) => {
    if (lock === null) throw anotherTab()
    return work()
  })
}

const anotherTab = () => new Error('Another tab is sending this refund. Continue in that tab.')

/** Uses the browser's storage. If storage is disabled, reading the property throws. */
function inStorage<T>(use: (storage: Storage) => T): T | undefined {
  try {
    return use(localStorage)
  } catch {
    return undefined
  }
}

const sentRefund = (id: string) => inStorage((storage) => storage.getItem(keyOf(id))) ?? undefined
const forgetRefund = (id: string) => inStorage((storage) => storage.removeItem(keyOf(id)))
/** @returns whether the refund was stored */
const keepRefund = (id: string, sent: string): boolean => {
  inStorage((storage) => storage.setItem(keyOf(id), sent))
  return sentRefund(id) === sent
}
