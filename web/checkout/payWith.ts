import { type Wallet, WalletFault } from '../wallets/wallet.ts'
import { ApiFault, type SessionApi } from './sessionApi.ts'
import type { CheckoutOffer, CheckoutSession, Fault, Phase } from './state.ts'

/**
 * Reasons of a transfer that is on chain but bought nothing, because it arrived after the session had ended. Only the receipt
 * has this reason, not the error code.
 */
const chargedKinds = new Map<string | undefined, Fault['kind']>([
  ['charged_refund_owed', 'owed'],
  ['refunded', 'refunded'],
])
/**
 * Delays between attempts to send the same payment, in ms. The last one repeats, which makes 15 of the 20 requests that are
 * allowed per minute.
 */
const retryMs = [1_000, 2_000, 4_000]

/**
 * Has a wallet sign one payment for the session, and sends it until its outcome is known. Every attempt sends the same payment,
 * so it is charged at most once.
 *
 * @param onPhase called when the payment enters a new phase
 * @param onSend called with the paying wallet's address before its payment is sent
 * @param isOver whether the session has ended in the meantime, for any reason
 * @returns the session, `elsewhere` if another payment has the session, or why the payment stopped without a charge. `unknown`
 *   if the payment was sent and no response came, so that only the session's stream can show the outcome
 */
export async function payWith(
  wallet: Wallet,
  offer: CheckoutOffer,
  api: SessionApi,
  onPhase: (phase: Phase) => void,
  onSend: (payer: string) => void,
  isOver: () => boolean,
): Promise<CheckoutSession | 'elsewhere' | 'unknown' | Fault> {
  let payment: string
  let payer = ''
  try {
    onPhase({ at: 'connecting', walletName: wallet.name })
    const [{ signPayment }, latestOffer] = await Promise.all([
      import('../wallets/signPayment.ts'),
      api.fetchOffer(),
    ])
    const shown = { ...offer, asset: offer.asset.address }
    payment = await signPayment(wallet, latestOffer.offer, shown, [offer.asset], {
      nowSeconds: () => Math.floor((Date.now() + latestOffer.clockOffsetMs) / 1_000),
      queryPayer,
      onPayer: (address) => {
        payer = address
      },
      onStep: (at) => onPhase({ at, walletName: wallet.name }),
    })
  } catch (error) {
    return faultFrom(error)
  }
  // The session was paid elsewhere or canceled while the wallet asked the buyer. The signature is not sent, and the page does
  // not claim that it was.
  if (isOver()) return 'elsewhere'
  onSend(payer)
  return send(payment, api, onPhase, isOver)
}

async function send(
  payment: string,
  api: SessionApi,
  onPhase: (phase: Phase) => void,
  isOver: () => boolean,
): Promise<CheckoutSession | 'elsewhere' | 'unknown' | Fault> {
  onPhase({ at: 'sending' })
  for (let i = 0; !isOver(); i++) {
    try {
      return await api.pay(payment)
    } catch (error) {
      // A response without a code came from an intermediary, so it is unknown whether the gateway received the payment.
      if (error instanceof ApiFault && error.code !== '') {
        // The gateway rejected the payment for good, so nothing was charged. After any other status, it is unknown whether the
        // buyer was charged.
        if (error.status < 500 && ![408, 409, 425, 429].includes(error.status)) return refusal(error, payment)
        const kind = chargedKinds.get(error.reason)
        if (kind !== undefined) return { ...refusal(error, payment), kind }
        // Another payment has the session, or the session has expired. Its status shows which.
        if (error.status === 409) return 'elsewhere'
      }
      const isKept = error instanceof ApiFault && error.code === 'settlement_pending'
      onPhase({ at: isKept ? 'confirming' : 'unheard' })
    }
    await new Promise((resolve) => setTimeout(resolve, retryMs[Math.min(i, retryMs.length - 1)]))
  }
  return 'unknown'
}

async function queryPayer(network: string, address: string, asset: string) {
  const response = await fetch(`/api/payer?${new URLSearchParams({ network, address, asset })}`)
  const { data, error } = await response.json()
  if (data === undefined) throw new ApiFault(response.status, error.code, error.message, error.requestId)
  return { recentBlockhash: String(data.recentBlockhash), balanceAtomic: BigInt(data.balanceAtomic) }
}

const factoryNotAllowed = 'eip6492_factory_not_allowed'

/**
 * Whether the signature is from a contract wallet that is not deployed yet (ERC-6492).
 * @param payment value of `PAYMENT-SIGNATURE`
 */
const isUndeployed = (payment: string): boolean => /(6492){16}"/.test(atob(payment))

function refusal({ code, reason, message, requestId }: ApiFault, payment: string): Fault {
  if (/insufficient|balance/i.test(reason))
    return { kind: 'too_little', message: 'This wallet has less than the price.' }
  if (reason === factoryNotAllowed || isUndeployed(payment))
    return {
      kind: 'refused',
      message:
        'This wallet has not been used on this network yet, and this payment could not set up the wallet. Send any transaction from the wallet first, or choose another wallet.',
      requestId,
    }
  // The gateway's message is written for developers, but here a wallet's owner reads it.
  if (code === 'invalid_payment' && /signature/i.test(`${reason} ${message}`))
    return {
      kind: 'refused',
      message:
        'Your wallet signed with a different account than it shared with this page, or signed something else. In your wallet, choose the account that should pay. Then try again.',
      requestId,
    }
  return {
    kind: 'refused',
    message: message || `The payment was rejected (${code || 'no reason given'}). You can try again.`,
    requestId,
  }
}

function faultFrom(error: unknown): Fault | 'elsewhere' {
  if (error instanceof ApiFault && error.status === 409) return 'elsewhere'
  if (error instanceof WalletFault) return { kind: error.kind, message: error.message }
  if (error instanceof ApiFault)
    return {
      kind: 'failed',
      message: error.message || 'The gateway sent an unexpected response.',
      requestId: error.requestId,
    }
  return { kind: 'failed', message: 'The gateway could not be reached. Check your connection.' }
}
