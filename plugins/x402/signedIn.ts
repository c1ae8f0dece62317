import { paidForMs } from '../../core/domain/access.ts'
import type { ServedLink } from '../../core/domain/link.ts'
import type { NetworkId } from '../../core/domain/network.ts'
import { isTollgateError, TollgateError } from '../../core/errors/error.ts'
import { envelopeOf } from '../../core/http/replies.ts'
import type { Challenges } from '../../core/offers/challenge.ts'
import { type ProvenWallet, type SignIns, type SignInTarget, signInOf } from '../../core/offers/signIns.ts'
import type { PurchaseNote, PurchaseNotes } from '../../core/payments/purchase.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import type { Reply, RouteHooks } from '../../core/plugin/gateway.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Purchases } from '../../core/ports/store/purchases.ts'
import { signInName } from '../../core/x402/signIn.ts'

/** The dependencies that are the same for all links. */
export interface SigningIn {
  readonly signIns: SignIns
  readonly purchases: Pick<Purchases, 'givingAccess'>
  readonly notes: PurchaseNotes
  readonly clock: Clock
}

/** What a wallet signs to call a link. */
export function signInTarget(link: ServedLink, uri: string, networks: readonly NetworkId[]): SignInTarget {
  const statement =
    link.access === 'signed-in'
      ? 'Sign in to call this link. This costs nothing and moves no money.'
      : 'Sign in to call this link again. This costs nothing and moves no money.'
  return { id: link.id, uri, statement, networks }
}

/**
 * The hooks of calls that a wallet's signature admits instead of a payment. A call without a valid sign-in gets the 402 of the link,
 * with a fresh offer to sign in.
 */
export class CalledSignedIn implements RouteHooks {
  readonly #deps: SigningIn
  readonly #target: SignInTarget
  readonly offer: Challenges
  /** How long a purchase gives access, in ms. Null if every signed-in wallet has access. */
  readonly #paidForMs: number | null

  constructor(deps: SigningIn, link: ServedLink, target: SignInTarget, challenges: Challenges) {
    this.#deps = deps
    this.#target = target
    this.offer = challenges
    this.#paidForMs =
      link.access === null || link.access === 'signed-in' ? null : paidForMs(link.access.paidFor)
  }

  async pay(x: Exchange): Promise<Reply | undefined> {
    await this.offer.looking
    const header = x.header(signInName)
    const below = x.subPath + x.query
    if (header === undefined) return below === '' ? this.offer.v2 : this.offer.at(2, below)
    try {
      await this.#admit(x, header)
    } catch (error) {
      if (!isTollgateError(error) || error.isUnread || error.status >= 500) throw error
      x.errorCode = error.code
      return this.offer.refused(2, envelopeOf(error, x.requestId), below) ?? this.offer.v2
    }
  }

  async #admit(x: Exchange, header: string): Promise<void> {
    const { signIns } = this.#deps
    const proof = signInOf(header)
    const wallet = await signIns.prove(proof, this.#target)
    const purchase = await this.#purchaseOf(x, wallet)
    // Last, so that a wallet without access can pay and sign in later.
    await signIns.use(proof)
    x.signedIn = { wallet: wallet.address, network: wallet.named, purchase }
  }

  /** @throws `payment_required` if the wallet has no purchase that gives access now */
  async #purchaseOf({ link }: Exchange, { address, network }: ProvenWallet): Promise<PurchaseNote | null> {
    if (this.#paidForMs === null) return null
    const { purchases, notes, clock } = this.#deps
    const since = clock.now() - this.#paidForMs
    const id = await purchases.givingAccess(link.id, { wallet: address, network }, since)
    if (id !== undefined) return notes.of(id, link.responseMode === 'wrap')
    throw new TollgateError(
      'payment_required',
      'Expected a wallet with a purchase of this link that still gives access. This wallet has none. Pay an entry of accepts.',
    )
  }
}
