import { useEffect, useRef, useState } from 'preact/hooks'
import { Address } from '../components/address.ts'
import { Amount } from '../components/amount.ts'
import { Button } from '../components/button.ts'
import { Card } from '../components/card.ts'
import { Field } from '../components/field.ts'
import { showToast } from '../components/toast.ts'
import { ApiFault } from '../desk/api.ts'
import { useForm } from '../desk/form.ts'
import { Fault, useAction } from '../desk/load.ts'
import { html } from '../html.ts'
import { sendEvm } from '../wallets/sendEvm.ts'
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

/**
 * Refunds a purchase: the wallet that was paid sends the transfer, and the API books it once the chain has it. The hash of a
 * sent transfer is kept in this browser until it is booked, so that a page that was closed doesn't offer to send it twice.
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
  const refund = () =>
    action.run(async () => {
      try {
        const before = sent ?? sentRefund(id)
        if (before !== undefined) return await bookOnceFinal(before)
        setProgress('Waiting for your wallet …')
        const { wallet } = await connectOwnWallet(transfer.from, transfer.chain)
        if (wallet.family !== 'eip155') throw new Error('This wallet can’t send the refund from here.')
        // Another tab or program may have refunded it since this page was loaded.
        const now = await ask<PurchaseAnswer>('GET', `/api/v1/purchases/${id}`)
        if (now.status === 'refunded') return onChanged()
        const { amountAtomic, ...rest } = transfer
        const txHash = await sendEvm(wallet, { ...rest, amountAtomic: BigInt(amountAtomic) })
        keepRefund(id, txHash)
        setSent(txHash)
        await bookOnceFinal(txHash)
      } finally {
        setProgress('')
      }
    })
  /** After a transfer that failed on chain. */
  const startOver = () => {
    forgetRefund(id)
    setSent(undefined)
    action.clear()
  }
  const bookTyped = form.submit(({ txHash }) => book(txHash.trim()))
  const canSend = transfer.chain === 'base'
  const isDue = status === 'refund_due'
  return html`<${Card} title=${isDue ? 'Pay it back' : 'Refund'}><div class="stack">
    ${
      canSend &&
      html`<p>Your wallet <${Address} value=${transfer.from} what="wallet that was paid" /> sends <${Amount} value=${amount} currency=${currency} /> to <${Address} value=${transfer.to} what="buyer’s wallet" /> and pays the network’s fee.</p>
        <div class="row"><${Button} kind=${isDue ? 'primary' : 'plain'} isBusy=${action.isBusy} onClick=${refund}>${
          sent === undefined ? `Refund ${amount} ${currency}` : 'Check the refund again'
        }<//></div>
        ${action.fault?.code === 'TRANSACTION_FAILED' && sent !== undefined && html`<div class="row"><${Button} kind="quiet" onClick=${startOver}>It moved nothing: start over<//></div>`}
        ${sent !== undefined && html`<p class="soft small">Sent with <${Address} value=${sent} what="transaction" /></p>`}`
    }
    <div aria-live="polite">${progress && html`<p class="soft">${progress}</p>`}</div>
    <${Fault} of=${action} />
    <details class="desk-more" open=${!canSend}>
      <summary>You sent it yourself</summary>
      <form class="stack" ref=${form.ref} onSubmit=${bookTyped} novalidate>
        <ol class="desk-numbered">
          <li>Send <${Amount} value=${amount} currency=${currency} /> from <${Address} value=${transfer.from} what="wallet that was paid" /> to <${Address} value=${transfer.to} what="buyer’s wallet" />.</li>
          <li>Enter the transaction. It is checked on chain before the refund is booked.</li>
        </ol>
        <${Field} ...${form.at('txHash')} label="Transaction" autocomplete="off" spellcheck=${false} required />
        ${form.line}
        <div class="row"><${Button} type="submit" isBusy=${byHand.isBusy}>Check and book the refund<//></div>
      </form>
    </details>
  </div><//>`
}

const keyOf = (purchaseId: string) => `tollgate-refund-${purchaseId}`

/** A browser that keeps nothing throws at the property; there the API's check of the purchase is what is left. */
function inStorage<T>(use: (storage: Storage) => T): T | undefined {
  try {
    return use(localStorage)
  } catch {
    return undefined
  }
}

const sentRefund = (id: string) => inStorage((storage) => storage.getItem(keyOf(id))) ?? undefined
const keepRefund = (id: string, txHash: string) => inStorage((storage) => storage.setItem(keyOf(id), txHash))
const forgetRefund = (id: string) => inStorage((storage) => storage.removeItem(keyOf(id)))
