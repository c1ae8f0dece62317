import type { Asset } from '../../core/domain/asset.ts'
import { familyOf } from '../../core/domain/network.ts'

/** A payment session as its buyer sees it: `data` of `GET /api/v1/payments/:id`. */
export interface CheckoutSession {
  readonly id: string
  readonly status: 'open' | 'confirmed' | 'expired' | 'canceled' | 'failed'
  readonly amount: string
  readonly currency: string
  readonly purchaseId: string | null
  readonly txHash: string | null
  readonly chain: 'base' | 'solana' | null
  readonly buyerWallet: string | null
  /** The link that the buyer buys. Null if the payment is not for a link. `url` is set for a paid `standard` link. */
  readonly link: { readonly url: string | null } | null
  readonly merchant: { readonly username: string; readonly displayName: string }
  readonly expiresAt: string
  /** True while a payment from this or another window is being settled. */
  readonly processing: boolean
  readonly item: { readonly title: string; readonly description: string; readonly amount: string }
  readonly successUrl: string | null
  readonly cancelUrl: string | null
  readonly clientReferenceId: string | null
  readonly allowedOrigin: string | null
}

/** One payment method, as the page shows it and as the wallet signs it. */
export interface CheckoutOffer {
  /** CAIP-2 id. */
  readonly network: string
  readonly asset: Asset
  /** In the token's smallest unit. */
  readonly amount: string
  /** The same amount as a decimal. */
  readonly amountText: string
  readonly payTo: string
}

/** A QR code: the SVG path of its dark modules, and the number of modules per row. */
export interface QrImage {
  readonly path: string
  readonly size: number
}

/** The props of a checkout, which the server sets when it renders the page. */
export interface CheckoutProps {
  readonly session: CheckoutSession
  /** The amount as a decimal, in USDC or, for an invoice, in the invoice's token. */
  readonly sum: { readonly value: string; readonly currency: string }
  readonly offers: readonly CheckoutOffer[]
  /** The server's time, in ms since 1970. It is needed because the buyer's clock may be wrong. */
  readonly nowMs: number
  /** How long a session is open in total, in ms. */
  readonly lifetimeMs: number
  /** The URL of this page including its secret, for another device. */
  readonly checkoutUrl: string
  readonly qr: QrImage
  /** The shell command that pays this session. */
  readonly command: string
}

/** A wallet, as the page shows it. */
export interface ShownWallet {
  readonly id: string
  readonly name: string
  readonly icon: string | undefined
  readonly family: 'eip155' | 'solana'
}

/** Why a payment stopped. No money moved, unless {@link wasCharged} returns true. */
export interface Fault {
  readonly kind:
    | 'declined'
    | 'wrong_network'
    | 'too_little'
    | 'unfit'
    | 'failed'
    | 'refused'
    | 'owed'
    | 'refunded'
  readonly message: string
  /** The request's id, by which support finds the failure in the log. */
  readonly requestId?: string | undefined
}

/** Whether the buyer was charged for nothing, so that the seller owes a refund or has paid it. */
export const wasCharged = ({ kind }: Fault): boolean => kind === 'owed' || kind === 'refunded'

export type Phase =
  | { readonly at: 'choosing' }
  | { readonly at: 'connecting' | 'checking' | 'signing'; readonly walletName: string }
  /** `unheard`: the payment was sent, but the gateway has not responded. The page sends it again as long as it is open. */
  | { readonly at: 'sending' | 'unheard' | 'confirming' }
  | { readonly at: 'stopped'; readonly fault: Fault }

export interface CheckoutState {
  readonly session: CheckoutSession
  /** Status of the session when this page was loaded. */
  readonly loadedAs: CheckoutSession['status']
  readonly phase: Phase
  /** Index of the offer that the buyer chose, or that a wallet in this browser can pay. Null until then. */
  readonly chosen: number | null
  /** The selected tab, which is wallet (0), phone (1) or terminal (2). */
  readonly selected: number
  /** Undefined while the page searches for wallets. */
  readonly wallets: readonly ShownWallet[] | undefined
  /** The wallet whose payment this tab has sent. Null if there is none. */
  readonly sentBy: string | null
  /** Token with which this tab may review its purchase. Null if there is none. */
  readonly reviewToken: string | null
  readonly isCanceling: boolean
  /** True if the shop's page opened this page as a popup. It then gets the outcome. */
  readonly isPopup: boolean
}

export const firstState = ({ session }: CheckoutProps): CheckoutState => ({
  session,
  loadedAs: session.status,
  phase: { at: 'choosing' },
  chosen: null,
  selected: 0,
  wallets: undefined,
  sentBy: null,
  reviewToken: null,
  isCanceling: false,
  isPopup: false,
})

/** The selected offer. Undefined without offers. */
export const chosenOffer = (
  { chosen }: CheckoutState,
  offers: readonly CheckoutOffer[],
): CheckoutOffer | undefined => offers[chosen ?? 0]

/** Index of the first offer that any of these wallets can pay. Null if there is none. */
export function payableOffer(
  offers: readonly CheckoutOffer[],
  wallets: readonly Pick<ShownWallet, 'family'>[],
): number | null {
  const index = offers.findIndex(({ network }) => wallets.some(({ family }) => family === familyOf(network)))
  return index < 0 ? null : index
}

/** The screen that is shown. */
export type Screen =
  | 'pay'
  | 'progress'
  | 'stopped'
  | 'paid'
  | 'paid_elsewhere'
  | 'expired'
  | 'canceled'
  | 'failed'
  | 'unpayable'

export function screenOf(
  { session, phase, sentBy, loadedAs }: CheckoutState,
  offers: readonly CheckoutOffer[],
): Screen {
  const { status, processing } = session
  // The buyer was charged for nothing. This takes precedence over the session's status, because the page must never claim that
  // nothing was charged.
  if (phase.at === 'stopped' && wasCharged(phase.fault)) return 'stopped'
  if (status === 'confirmed')
    return loadedAs === 'confirmed' || isSame(sentBy, session.buyerWallet) ? 'paid' : 'paid_elsewhere'
  if (status !== 'open') return status
  if (phase.at === 'stopped') return 'stopped'
  if (phase.at !== 'choosing' || processing) return 'progress'
  return offers.length === 0 ? 'unpayable' : 'pay'
}

/**
 * Whether this window's wallet paid. Another window may have paid while this window sent its payment, so the session states the
 * wallet.
 */
const isSame = (sentBy: string | null, buyer: string | null): boolean =>
  sentBy !== null && (buyer === null || buyer.toLowerCase() === sentBy.toLowerCase())

/** The fields that the shop's page gets for a paid session. They are those of the widget's `onComplete`, and no others. */
export const completedOf = (session: CheckoutSession) => ({
  sessionId: session.id,
  purchaseId: session.purchaseId,
  txHash: session.txHash,
  chain: session.chain,
  amount: session.amount,
  clientReferenceId: session.clientReferenceId,
})
