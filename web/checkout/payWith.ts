import { type Wallet, WalletFault } from '../wallets/wallet.ts'
import { ApiFault, type SessionApi } from './sessionApi.ts'
import type { CheckoutOffer, CheckoutSession, Fault, Phase } from './state.ts'

/** The transfer is on chain and paid nothing: it came when the session had ended. The receipt says so, the code does not. */
const chargedKinds = new Map<string | undefined, Fault['kind']>([
  ['charged_refund_owed', 'owed'],
  ['refunded', 'refunded'],
])
/** Between two attempts to send the same payment, in ms; the last one counts for all that follow: 15 of the 20 of a minute. */
const retryMs = [1_000, 2_000, 4_000]

/**
 * Has a wallet sign one payment for the session, and sends it until it is known what became of it: the same one each time, so
 * that whatever happens on the way it is charged once.
 *
 * @param onPhase where it is now
 * @param onSend  called with the paying wallet's address before its payment is sent
 * @param isOver  whether the session has ended meanwhile, by whatever way
 * @returns the session; `elsewhere` when somebody else has it; `unknown` when it was sent, no answer came, and the
 *   session's own news say more; or why it stopped: nothing was charged
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
    const [{ signPayment }, asked] = await Promise.all([import('../wallets/signPayment.ts'), api.ask()])
    const shown = { ...offer, asset: offer.asset.address }
    payment = await signPayment(wallet, asked.offer, shown, [offer.asset], {
      nowSeconds: () => Math.floor((Date.now() + asked.clockOffsetMs) / 1_000),
      askPayer,
      onPayer: (address) => {
        payer = address
      },
      onStep: (at) => onPhase({ at, walletName: wallet.name }),
    })
  } catch (error) {
    return faultFrom(error)
  }
  // Paid elsewhere or canceled while the wallet asked: what it signed is not sent, and nobody says that it was.
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
      // What has no code was said by something between: the gateway may have the payment all the same, or have never seen it.
      if (error instanceof ApiFault && error.code !== '') {
        // Refused for good: nothing was charged. Everything else leaves it open whether it was.
        if (error.status < 500 && ![408, 409, 425, 429].includes(error.status)) return refusal(error, payment)
        const kind = chargedKinds.get(error.reason)
        if (kind !== undefined) return { ...refusal(error, payment), kind }
        // Somebody else has paid, or pays, or time is over: the session says which.
        if (error.status === 409) return 'elsewhere'
      }
      const isKept = error instanceof ApiFault && error.code === 'settlement_pending'
      onPhase({ at: isKept ? 'confirming' : 'unheard' })
    }
    await new Promise((resolve) => setTimeout(resolve, retryMs[Math.min(i, retryMs.length - 1)]))
  }
  return 'unknown'
}

async function askPayer(network: string, address: string, asset: string) {
  const response = await fetch(`/api/payer?${new URLSearchParams({ network, address, asset })}`)
  const { data, error } = await response.json()
  if (data === undefined) throw new ApiFault(response.status, error.code, error.message, error.requestId)
  return { recentBlockhash: String(data.recentBlockhash), balanceAtomic: BigInt(data.balanceAtomic) }
}

const factoryNotAllowed = 'eip6492_factory_not_allowed'

/** Whether a contract wallet has signed that its first payment has to make (ERC-6492). @param payment value of `PAYMENT-SIGNATURE` */
const isUndeployed = (payment: string): boolean => /(6492){16}"/.test(atob(payment))

function refusal({ code, reason, message, requestId }: ApiFault, payment: string): Fault {
  if (/insufficient|balance/i.test(reason))
    return { kind: 'too_little', message: 'The network says that this wallet has less than the price.' }
  if (reason === factoryNotAllowed || isUndeployed(payment))
    return {
      kind: 'refused',
      message:
        'This wallet has not been used on this network yet, and could not be set up with this payment. Send something with it first, or choose another wallet.',
      requestId,
    }
  // The gateway's words are for programs that sign; here a wallet did.
  if (code === 'invalid_payment' && /signature/i.test(`${reason} ${message}`))
    return {
      kind: 'refused',
      message:
        'Your wallet signed with another account than it had shown here, or something else than this page asked for. Choose the account that is to pay in your wallet, and try again.',
      requestId,
    }
  return {
    kind: 'refused',
    message: message || `The network would not take it (${code || 'no reason given'}). You can try again.`,
    requestId,
  }
}

function faultFrom(error: unknown): Fault | 'elsewhere' {
  if (error instanceof ApiFault && error.status === 409) return 'elsewhere'
  if (error instanceof WalletFault) return { kind: error.kind, message: error.message }
  if (error instanceof ApiFault)
    return {
      kind: 'failed',
      message: error.message || 'The gateway did not answer as expected.',
      requestId: error.requestId,
    }
  return { kind: 'failed', message: 'The gateway could not be reached. Check your connection.' }
}
