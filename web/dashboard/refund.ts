import { useEffect, useRef, useState } from 'preact/hooks'
import { Address } from '../components/address.ts'
import { Amount } from '../components/amount.ts'
import { Button } from '../components/button.ts'
import { Card } from '../components/card.ts'
import { Field } from '../components/field.ts'
import { Notice } from '../components/notice.ts'
import { showToast } from '../components/toast.ts'
import { type ApiClient, ApiFault } from '../desk/api.ts'
import { useForm } from '../desk/form.ts'
import { Fault, useAction } from '../desk/load.ts'
import { html } from '../html.ts'
import { sendEvm } from '../wallets/sendEvm.ts'
import { sendSolana } from '../wallets/sendSolana.ts'
import { type Wallet, WalletFault } from '../wallets/wallet.ts'
import { connectOwnWallet } from './ownWallet.ts'
import { useSeller } from './seller.ts'
import type { PurchaseAnswer } from './types.ts'

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
}

export interface RefundProps {
  readonly purchase: PurchaseAnswer
  readonly transfer: RefundTransfer
  readonly onChanged: () => void
}

const words = { txHash: { expected: 'Enter the transaction of your transfer, as your wallet shows it.' } }

const RECHECK_AFTER_MS = 3_000
/** Checks of a transfer that was just sent: ten minutes of them. */
const MAX_CHECKS = 200
/** The chain doesn't show the transfer yet, or can't be read now: the same request may succeed later. */
const unconfirmed: readonly string[] = [
  'TRANSACTION_NOT_FINAL',
  'CHAIN_UNAVAILABLE',
  'UNREACHABLE',
  'RATE_LIMIT_EXCEEDED',
]

/** Kept before a wallet is asked to send: until its answer is kept instead, the transfer may have been sent. */
const MAYBE_SENT = 'maybe'

/**
 * Refunds a purchase: the wallet that was paid sends the transfer, and the API books it once the chain has it. That a transfer
 * is being sent, and its transaction, is kept in this browser until it is booked, and one tab sends at a time, so that nothing
 * is sent twice.
 */
export function Refund({ purchase, transfer, onChanged }: RefundProps) {
  const { ask } = useSeller()
  const { id, amount, currency, status } = purchase
  const [sent, setSent] = useState(() => sentRefund(id))
  const [progress, setProgress] = useState('')
  const action = useAction()
  const byHand = useAction()
  const form = useForm({ txHash: '' }, byHand, words)
  const isGone = useRef(false)
  useEffect(() => () => void (isGone.current = true), [])

  const book = async (txHash: string) => {
    await ask('POST', `/api/v1/purchases/${id}/refunds`, { txHash })
    forgetRefund(id)
    showToast({ text: 'The refund is booked' })
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
  /** @returns the transaction; undefined where the purchase was refunded meanwhile */
  const send = async (): Promise<string | undefined> => {
    setProgress('Waiting for your wallet …')
    const { wallet } = await connectOwnWallet(transfer.from, transfer.chain)
    const prepared = await prepareRefund(wallet, transfer, ask)
    // Another browser or program may have refunded it since this page was loaded.
    const now = await ask<PurchaseAnswer>('GET', `/api/v1/purchases/${id}`)
    if (now.status === 'refunded') return undefined
    if (sentRefund(id) !== undefined) throw anotherTab()
    if (!keepRefund(id, MAYBE_SENT))
      throw new Error(
        'This browser keeps nothing for this page, so that a refund could be sent twice from here. Send it in your wallet, and enter it below.',
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
  /** After a transfer that failed on chain, or that the seller knows was never sent; not while another tab waits for its wallet. */
  const startOver = async () => {
    await action.run(() => alone(id, async () => void forgetRefund(id)))
    setSent(sentRefund(id))
  }
  const bookTyped = form.submit(({ txHash }) => book(txHash.trim()))
  const isDue = status === 'refund_due'
  return html`<${Card} title=${isDue ? 'Pay it back' : 'Refund'}><div class="stack">
    <p>Your wallet sends the money back and pays the network’s fee.</p>
    <dl class="facts">
      <dt>Amount</dt><dd><${Amount} value=${amount} currency=${currency} /></dd>
      <dt>From</dt><dd><${Address} value=${transfer.from} what="wallet that was paid" /></dd>
      <dt>To</dt><dd><${Address} value=${transfer.to} what="buyer’s wallet" /></dd>
    </dl>
    ${
      sent === MAYBE_SENT
        ? html`<${Notice} tone="warn" title="The transfer may have been sent">
            <p>Your wallet did not say what became of it. Look there: if it was sent, enter the transaction below; if not, start over.</p>
            <p><${Button} size="small" onClick=${startOver}>Nothing was sent: start over<//></p>
          <//>`
        : html`<div class="row"><${Button} kind=${isDue ? 'primary' : 'plain'} isBusy=${action.isBusy} onClick=${refund}>${
            sent === undefined ? `Refund ${amount} ${currency}` : 'Check the refund again'
          }<//></div>`
    }
    ${action.fault?.code === 'TRANSACTION_FAILED' && sent !== undefined && html`<div class="row"><${Button} kind="quiet" onClick=${startOver}>It moved nothing: start over<//></div>`}
    ${sent !== undefined && sent !== MAYBE_SENT && html`<p class="soft small">Sent with <${Address} value=${sent} what="transaction" /></p>`}
    <div aria-live="polite">${progress && html`<p class="soft">${progress}</p>`}</div>
    <${Fault} of=${action} />
    <details class="desk-more" open=${sent === MAYBE_SENT}>
      <summary>You sent it yourself</summary>
      <form class="stack" ref=${form.ref} onSubmit=${bookTyped} novalidate>
        <ol class="desk-numbered">
          <li>Send the amount above, from that wallet to the buyer’s.</li>
          <li>Enter the transaction. It is checked on chain before the refund is booked.</li>
        </ol>
        <${Field} ...${form.at('txHash')} label="Transaction" autocomplete="off" spellcheck=${false} required />
        ${form.line}
        <div class="row"><${Button} type="submit" isBusy=${byHand.isBusy}>Check and book the refund<//></div>
      </form>
    </details>
  </div><//>`
}

/** Everything that a wallet needs, before it is asked. @returns a function that has it send, once */
async function prepareRefund(
  wallet: Wallet,
  { network, asset, from, to, amountAtomic, decimals, tokenProgram }: RefundTransfer,
  ask: ApiClient,
): Promise<() => Promise<string>> {
  const amount = BigInt(amountAtomic)
  if (wallet.family === 'eip155')
    return () => sendEvm(wallet, { network, asset, from, to, amountAtomic: amount })
  const query = new URLSearchParams({ network, asset, address: from })
  const { recentBlockhash, balanceAtomic } = await ask<{
    readonly recentBlockhash: string
    readonly balanceAtomic: string
  }>('GET', `/api/payer?${query}`)
  if (BigInt(balanceAtomic) < amount)
    throw new WalletFault('too_little', 'This wallet has less than the refund. Put the rest into it first.')
  const token = { address: asset, decimals, program: tokenProgram }
  const transfer = { network, from, asset: token, amountAtomic: amount, payTo: to }
  return () => sendSolana(wallet, transfer, recentBlockhash)
}

const keyOf = (purchaseId: string) => `tollgate-refund-${purchaseId}`

/** One tab of this browser at a time; a page without TLS has no locks. */
async function alone(purchaseId: string, work: () => Promise<void>): Promise<void> {
  const { locks } = navigator as { readonly locks?: LockManager }
  if (locks === undefined) return work()
  await locks.request(keyOf(purchaseId), { ifAvailable: true }, (lock) => {
    if (lock === null) throw anotherTab()
    return work()
  })
}

const anotherTab = () => new Error('Another tab is sending this refund. Go on there.')

/** A browser that keeps nothing throws at the property. */
function inStorage<T>(use: (storage: Storage) => T): T | undefined {
  try {
    return use(localStorage)
  } catch {
    return undefined
  }
}

const sentRefund = (id: string) => inStorage((storage) => storage.getItem(keyOf(id))) ?? undefined
const forgetRefund = (id: string) => inStorage((storage) => storage.removeItem(keyOf(id)))
/** @returns whether it is kept */
const keepRefund = (id: string, sent: string): boolean => {
  inStorage((storage) => storage.setItem(keyOf(id), sent))
  return sentRefund(id) === sent
}
