import type { Asset } from '../../core/domain/asset.ts'
import { familyOf } from '../../core/domain/network.ts'

/** A payment session as its buyer reads it: `data` of `GET /api/v1/payments/:id`. */
export interface CheckoutSession {
  readonly id: string
  readonly status: 'open' | 'confirmed' | 'expired' | 'canceled' | 'failed'
  readonly amount: string
  readonly currency: string
  readonly purchaseId: string | null
  readonly txHash: string | null
  readonly chain: 'base' | 'solana' | null
  readonly buyerWallet: string | null
  /** What it pays for; null for a session of any amount. `url` of a `standard` link, once it is paid. */
  readonly link: { readonly url: string | null } | null
  readonly merchant: { readonly username: string; readonly displayName: string }
  readonly expiresAt: string
  /** A payment is being settled, by whomever. */
  readonly processing: boolean
  readonly item: { readonly title: string; readonly description: string; readonly amount: string }
  readonly successUrl: string | null
  readonly cancelUrl: string | null
  readonly clientReferenceId: string | null
  readonly allowedOrigin: string | null
}

/** One way to pay, as the page shows it and as it is signed. */
export interface CheckoutOffer {
  /** CAIP-2. */
  readonly network: string
  readonly asset: Asset
  /** In the token's smallest unit. */
  readonly amount: string
  /** The same as a decimal. */
  readonly amountText: string
  readonly payTo: string
}

/** A picture of squares: the path of the dark ones, and how many stand in a row. */
export interface QrPicture {
  readonly path: string
  readonly size: number
}

/** What the server knows of a checkout when it renders it. */
export interface CheckoutProps {
  readonly session: CheckoutSession
  /** What is paid, as a decimal; of an invoice in its own token. */
  readonly sum: { readonly value: string; readonly currency: string }
  readonly offers: readonly CheckoutOffer[]
  /** The server's clock, ms since 1970: the buyer's may be wrong. */
  readonly nowMs: number
  /** How long a session is open in all, in ms. */
  readonly lifetimeMs: number
  /** The address of this page with its secret, for another device. */
  readonly checkoutUrl: string
  readonly qr: QrPicture
  /** Pays from a terminal. */
  readonly command: string
}

/** A wallet, as far as it is shown. */
export interface ShownWallet {
  readonly id: string
  readonly name: string
  readonly icon: string | undefined
  readonly family: 'eip155' | 'solana'
}

/** Why a payment stopped. No money moved, but where {@link wasCharged}. */
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
  /** By which support finds it in the log. */
  readonly requestId?: string | undefined
}

/** The buyer's money moved and bought nothing: the seller owes it back, or has paid it back. */
export const wasCharged = ({ kind }: Fault): boolean => kind === 'owed' || kind === 'refunded'

export type Phase =
  | { readonly at: 'choosing' }
  | { readonly at: 'connecting' | 'checking' | 'signing'; readonly walletName: string }
  /** `unheard`: sent, and no word of the gateway yet; it is sent again as long as the page is there. */
  | { readonly at: 'sending' | 'unheard' | 'confirming' }
  | { readonly at: 'stopped'; readonly fault: Fault }

export interface CheckoutState {
  readonly session: CheckoutSession
  /** How the session stood when this page was loaded. */
  readonly loadedAs: CheckoutSession['status']
  readonly phase: Phase
  /** The index of the offer that the buyer chose, or that a wallet of this browser can pay; null until one of them is known. */
  readonly chosen: number | null
  /** Wallet, phone, terminal. */
  readonly way: number
  /** Undefined while wallets are looked for. */
  readonly wallets: readonly ShownWallet[] | undefined
  /** Wallet whose payment this tab has sent; null while it has sent none. */
  readonly sentBy: string | null
  /** With what this tab may review what it bought; null without. */
  readonly reviewToken: string | null
  readonly isCanceling: boolean
  /** The page was opened by the shop's, which hears of what becomes of it. */
  readonly isPopup: boolean
}

export const firstState = ({ session }: CheckoutProps): CheckoutState => ({
  session,
  loadedAs: session.status,
  phase: { at: 'choosing' },
  chosen: null,
  way: 0,
  wallets: undefined,
  sentBy: null,
  reviewToken: null,
  isCanceling: false,
  isPopup: false,
})

/** The offer that is shown as chosen; undefined where there is none at all. */
export const chosenOffer = (
  { chosen }: CheckoutState,
  offers: readonly CheckoutOffer[],
): CheckoutOffer | undefined => offers[chosen ?? 0]

/** The index of the first offer that one of these wallets can pay; null for none. */
export function payableOffer(
  offers: readonly CheckoutOffer[],
  wallets: readonly Pick<ShownWallet, 'family'>[],
): number | null {
  const index = offers.findIndex(({ network }) => wallets.some(({ family }) => family === familyOf(network)))
  return index < 0 ? null : index
}

/** What the page shows; each has its own screen. */
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
  // What was charged for nothing outlasts the session: nobody reads then that nothing was charged.
  if (phase.at === 'stopped' && wasCharged(phase.fault)) return 'stopped'
  if (status === 'confirmed')
    return loadedAs === 'confirmed' || isSame(sentBy, session.buyerWallet) ? 'paid' : 'paid_elsewhere'
  if (status !== 'open') return status
  if (phase.at === 'stopped') return 'stopped'
  if (phase.at !== 'choosing' || processing) return 'progress'
  return offers.length === 0 ? 'unpayable' : 'pay'
}

/** Another window may have paid while this one's payment was on its way: the session says whose it was. */
const isSame = (sentBy: string | null, buyer: string | null): boolean =>
  sentBy !== null && (buyer === null || buyer.toLowerCase() === sentBy.toLowerCase())

/** What a shop's page is told of a session that is paid: the fields of the widget's `onComplete`, and no others. */
export const completedOf = (session: CheckoutSession) => ({
  sessionId: session.id,
  purchaseId: session.purchaseId,
  txHash: session.txHash,
  chain: session.chain,
  amount: session.amount,
  clientReferenceId: session.clientReferenceId,
})
